//! `--help` of every command.

use crate::support::World;

#[test]
fn help_names_every_flag_of_every_command() {
    let world = World::new();
    for (command, flags) in [
        (
            "",
            "data index search eval explain program report query verify doctor run cache bench --home --config --quiet --verbose AGENT_HOME AGENT_STATE 130",
        ),
        ("data", "list import sample show remove"),
        ("data list", "--json"),
        (
            "data import",
            "--name --from --format neutral stark --mode exact faithful --lenient --json",
        ),
        ("data pull", "amazon mag prime --endpoint HF_ENDPOINT HF_TOKEN --idle-timeout --json"),
        ("data sample", "amazon mag prime --scale --seed --name --to --json"),
        ("data show", "--json"),
        ("data remove", "--home"),
        (
            "index",
            "--embedder builtin candle:DIR openai:MODEL import:DIR --candidates-only --with --drop-cache --force",
        ),
        ("search", "--system -k --explain --sandbox --json bm25+names 20"),
        ("eval", "--dataset --split --system --where --run-file --json bundle:FILE"),
        (
            "explain",
            "--sandbox --bundle --program --dataset --split --where --query --answers --json",
        ),
        ("report", "--run --out --dataset --sandbox"),
        ("program", "run list show diff sensitivity lineage"),
        ("program run", "FILE.rhai --dataset --query --params -k --json"),
        ("program list", "--run --bundle --json"),
        ("program show", "--run --bundle --sandbox --json"),
        ("program diff", "--sandbox --run --bundle --measure --ablate --on --all --dataset --json"),
        (
            "program sensitivity",
            "--sandbox --run --bundle --values --number --on --all --dataset --json",
        ),
        ("program lineage", "--run --bundle --json"),
        ("run", "list show log cost prompts"),
        ("run list", "--dataset --json"),
        ("run show", "DIR --json"),
        ("run log", "DIR --json"),
        ("run cost", "DIR --json"),
        ("run prompts", "DIR --step --role --key --json"),
        ("cache", "show clear"),
        ("cache show", "--json"),
        ("cache clear", "--replies --embeddings"),
        ("query", "--bundle --dataset -k --explain --force --json"),
        ("verify", "FILE --dataset --sandbox --json"),
        ("doctor", "--json --ask --model AGENT_MODEL"),
        ("bench", "load neighbors hop2 bm25 dense embed metrics program"),
        ("bench load", "--json"),
        ("bench neighbors", "--work --json"),
        ("bench hop2", "--work --json"),
        ("bench bm25", "--work --json"),
        ("bench dense", "--work --json"),
        ("bench embed", "EMBEDDER --work --json"),
        ("bench metrics", "--work --json"),
        ("bench program", "--work --json"),
    ] {
        let text = world.run(command.split_whitespace().chain(["--help"])).done();
        for flag in flags.split(' ') {
            assert!(text.contains(flag), "agent {command} --help lacks {flag}:\n{text}");
        }
        let first = text.lines().next().unwrap();
        assert!(!first.ends_with('.'), "{first}");
    }
}
