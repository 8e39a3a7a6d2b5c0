//! Examples in the help of every command. A test parses every example. Does not depend on what a
//! command does.

use clap::Command;

/// Examples of each command, by its path below `agent` (such as `data import`), in ascending order
/// of paths.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "answer",
        &[
            "agent answer shop \"which bottles keep water cold?\" --model M",
            "agent answer shop \"which bottles keep water cold?\" --system kar:graph --check",
        ],
    ),
    (
        "ask",
        &[
            "agent ask shop \"which brand has the highest mean rating?\"",
            "agent ask shop \"how many products are from Northpeak?\" --json",
        ],
    ),
    ("cache clear", &["agent cache clear --replies"]),
    ("cache show", &["agent cache show --json"]),
    (
        "compare",
        &["agent compare shop \"a steel bottle\" --system bm25+names --system bundle:latest"],
    ),
    (
        "completions",
        &[
            "agent completions bash > ~/.local/share/bash-completion/completions/agent",
            "agent completions zsh > ~/.zfunc/_agent",
            "agent completions fish > ~/.config/fish/completions/agent.fish",
        ],
    ),
    (
        "data facets",
        &[
            "agent data facets shop",
            "agent data facets shop --where type=product --field brand --json",
        ],
    ),
    ("data guess", &["agent data guess shop/"]),
    ("data import", &["agent data import --name shop --from shop/"]),
    ("data list", &["agent data list --json"]),
    ("data pull", &["agent data pull prime"]),
    ("data remove", &["agent data remove shop"]),
    ("data sample", &["agent data sample amazon --to shop/"]),
    ("data show", &["agent data show shop"]),
    ("data synthesize", &["agent data synthesize shop --queries 500"]),
    (
        "data update",
        &[
            "agent data update shop --from shop/",
            "agent data update shop --upsert changes.jsonl --delete gone.txt",
        ],
    ),
    ("doctor", &["agent doctor", "agent doctor --ask --model M"]),
    (
        "eval",
        &[
            "agent eval --dataset shop --split val --system bm25+names --system bundle:latest",
            "agent eval --dataset shop --split val --system hybrid --metrics trec --json",
        ],
    ),
    (
        "explain",
        &[
            "agent explain latest",
            "agent explain latest --query 17",
            "agent explain latest \"a steel bottle by Northpeak\" --answers 0,12",
        ],
    ),
    (
        "home export",
        &[
            "agent home export home.tar.zst --with-runs",
            "agent home export shop.tar.zst --dataset shop --with-indexes",
        ],
    ),
    (
        "home import",
        &["agent home import shop.tar.zst", "agent home import shop.tar.zst --dry-run"],
    ),
    ("index", &["agent index shop", "agent index shop --embedder candle:DIR"]),
    ("key add", &["agent key add website", "agent key add me --scope admin"]),
    ("key list", &["agent key list"]),
    ("key remove", &["agent key remove website"]),
    ("man", &["agent man ~/.local/share/man/man1"]),
    ("mcp", &["agent mcp --bundle latest"]),
    (
        "optimize",
        &[
            "agent optimize --dataset shop",
            "agent optimize --dataset shop --actor search,llm --model M --dry-run",
            "agent optimize --dataset shop --resume",
        ],
    ),
    ("program diff", &["agent program diff 1f3a 9c20 --run latest --ablate"]),
    ("program lineage", &["agent program lineage 9c20 --run latest"]),
    ("program list", &["agent program list --run latest"]),
    (
        "program run",
        &["agent program run mine.rhai --dataset shop --query \"a durable steel bottle\""],
    ),
    ("program sensitivity", &["agent program sensitivity 9c20 --run latest"]),
    ("program show", &["agent program show 9c20 --run latest"]),
    (
        "query",
        &[
            "agent query latest \"a durable steel bottle by Northpeak\"",
            "agent query --bundle bundle.json --dataset shop \"a steel bottle\" --explain",
        ],
    ),
    ("report", &["agent report --run latest", "agent report --model dense-shop"]),
    ("run cost", &["agent run cost latest"]),
    ("run list", &["agent run list --dataset shop"]),
    ("run log", &["agent run log latest"]),
    ("run prompts", &["agent run prompts latest --role actor"]),
    ("run remove", &["agent run remove shop-0001 shop-0002"]),
    ("run show", &["agent run show latest"]),
    (
        "search",
        &[
            "agent search shop \"durable steel bottle\" --system hybrid -k 5",
            "agent search shop --query \"+brand:northpeak bottel~1 -plastic price:[5 TO 20]\"",
        ],
    ),
    (
        "serve",
        &[
            "agent serve --bundle latest",
            "agent serve --bundle latest --listen 0.0.0.0:7700 --host search.example",
            "agent serve --bundle latest --effort 1 --model M --budget-tokens 2000000",
        ],
    ),
    ("systems", &["agent systems --json"]),
    (
        "train dense",
        &[
            "agent train dense --dataset shop",
            "agent train dense --dataset shop --negatives self --refresh 3 --name ance-shop",
            "agent train dense --dataset shop --encoder candle:models/mini --max-tokens 64",
        ],
    ),
    (
        "train graph",
        &[
            "agent train graph --dataset shop",
            "agent train graph --dataset shop --without relations --name graph-shop-plain",
        ],
    ),
    (
        "train mfar",
        &[
            "agent train mfar --dataset shop",
            "agent train mfar --dataset shop --variant lexical --name fields-only",
        ],
    ),
    (
        "unit collect",
        &["agent unit collect jobs/ --out answers.jsonl", "agent unit collect vectors/"],
    ),
    (
        "unit plan",
        &[
            "agent unit plan jobs/ --bundle latest --batch questions.jsonl --units 64",
            "agent unit plan jobs/ --dataset shop --split val --system hybrid --units 64",
            "agent unit plan vectors/ --index shop --embedder candle:models/mini --units 64",
            "agent unit plan words/ --index shop --words --units 64",
            "agent unit plan jobs/ | xargs -P2 -n1 agent unit run jobs/",
        ],
    ),
    ("unit run", &["agent unit run jobs/ 0 1 2"]),
    ("unit work", &["agent unit work pool/"]),
    ("verify", &["agent verify latest"]),
];

/// Adds the examples to the help of each command.
pub(super) fn add(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |command, (path, examples)| {
        let text = format!("Examples:\n  {}", examples.join("\n  "));
        let names: Vec<&str> = path.split(' ').collect();
        at(command, &names, &text)
    })
}

/// Appends a text to the help of the subcommand with the path `names`; does nothing if there is no
/// such subcommand.
fn at(command: Command, names: &[&str], text: &str) -> Command {
    match names.split_first() {
        None => command.after_help(text.to_owned()),
        // The test below finds unknown names.
        Some((name, _)) if command.find_subcommand(name).is_none() => command,
        Some((name, rest)) => command.mut_subcommand(name, |below| at(below, rest, text)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    /// Adds the paths of all commands below `command` that have no subcommands to `found`.
    fn leaves(command: &Command, path: &str, found: &mut Vec<String>) {
        if !command.has_subcommands() {
            found.push(path.trim_start().to_owned());
        }
        for below in command.get_subcommands() {
            leaves(below, &format!("{path} {}", below.get_name()), found);
        }
    }

    /// Splits the text of an example into words as a shell does, up to a pipe or redirection.
    fn words(example: &str) -> Vec<String> {
        let parts = example.split('"').enumerate();
        let words = parts.flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        words.take_while(|word| word != ">" && word != "|").collect()
    }

    #[test]
    fn every_command_has_examples_that_it_takes() {
        let mut found = Vec::new();
        leaves(&Cli::command(), "", &mut found);
        found.sort();
        let known: Vec<&str> = EXAMPLES.iter().map(|(path, _)| *path).collect();
        assert_eq!(found, known);
        for (path, examples) in EXAMPLES {
            for example in *examples {
                let taken = Cli::command().try_get_matches_from(words(example));
                let taken = taken.unwrap_or_else(|error| panic!("{example}: {error}"));
                let mut matches = &taken;
                for name in path.split(' ') {
                    let (found, below) = matches.subcommand().expect("a command below");
                    assert_eq!(found, name, "{example}");
                    matches = below;
                }
            }
        }
    }
}
