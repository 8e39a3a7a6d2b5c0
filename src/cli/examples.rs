//! Examples in the help of every command. A test parses every example. Does not depend on what a
//! command does.

use clap::Command;

/// Examples of all commands, in ascending order of the commands that they run.
const EXAMPLES: &[&str] = &[
    "agent answer shop \"which bottles keep water cold?\" --model M",
    "agent answer shop \"which bottles keep water cold?\" --system kar:graph --check",
    "agent ask shop \"which brand has the highest mean rating?\"",
    "agent ask shop \"how many products are from Northpeak?\" --json",
    "agent cache clear --replies",
    "agent cache show --json",
    "agent compare shop \"a steel bottle\" --system bm25+names --system bundle:latest",
    "agent completions bash > ~/.local/share/bash-completion/completions/agent",
    "agent completions zsh > ~/.zfunc/_agent",
    "agent completions fish > ~/.config/fish/completions/agent.fish",
    "agent data facets shop",
    "agent data facets shop --where type=product --field brand --json",
    "agent data guess shop/",
    "agent data import --name shop --from shop/",
    "agent data list --json",
    "agent data pull prime",
    "agent data remove shop",
    "agent data sample amazon --to shop/",
    "agent data show shop",
    "agent data synthesize shop --queries 500",
    "agent data update shop --from shop/",
    "agent data update shop --upsert changes.jsonl --delete gone.txt",
    "agent doctor",
    "agent doctor --ask --model M",
    "agent eval --dataset shop --split val --system bm25+names --system bundle:latest",
    "agent eval --dataset shop --split val --system hybrid --metrics trec --json",
    "agent explain latest",
    "agent explain latest --query 17",
    "agent explain latest \"a steel bottle by Northpeak\" --answers 0,12",
    "agent home export home.tar.zst --with-runs",
    "agent home export shop.tar.zst --dataset shop --with-indexes",
    "agent home import shop.tar.zst",
    "agent home import shop.tar.zst --dry-run",
    "agent index shop",
    "agent index shop --embedder candle:DIR",
    "agent key add website",
    "agent key add me --scope admin",
    "agent key list",
    "agent key remove website",
    "agent man ~/.local/share/man/man1",
    "agent mcp --bundle latest",
    "agent optimize --dataset shop",
    "agent optimize --dataset shop --actor search,llm --model M --dry-run",
    "agent optimize --dataset shop --resume",
    "agent program diff 1f3a 9c20 --run latest --ablate",
    "agent program lineage 9c20 --run latest",
    "agent program list --run latest",
    "agent program run mine.rhai --dataset shop --query \"a durable steel bottle\"",
    "agent program sensitivity 9c20 --run latest",
    "agent program show 9c20 --run latest",
    "agent query latest \"a durable steel bottle by Northpeak\"",
    "agent query --bundle bundle.json --dataset shop \"a steel bottle\" --explain",
    "agent report --run latest",
    "agent report --model dense-shop",
    "agent run cost latest",
    "agent run list --dataset shop",
    "agent run log latest",
    "agent run prompts latest --role actor",
    "agent run remove shop-0001 shop-0002",
    "agent run show latest",
    "agent search shop \"durable steel bottle\" --system hybrid -k 5",
    "agent search shop --query \"+brand:northpeak bottel~1 -plastic price:[5 TO 20]\"",
    "agent serve --bundle latest",
    "agent serve --bundle latest --listen 0.0.0.0:7700 --host search.example",
    "agent serve --bundle latest --effort 1 --model M --budget-tokens 2000000",
    "agent systems --json",
    "agent train dense --dataset shop",
    "agent train dense --dataset shop --negatives self --refresh 3 --name ance-shop",
    "agent train dense --dataset shop --encoder candle:models/mini --max-tokens 64",
    "agent train graph --dataset shop",
    "agent train graph --dataset shop --without relations --name graph-shop-plain",
    "agent train mfar --dataset shop",
    "agent train mfar --dataset shop --variant lexical --name fields-only",
    "agent unit collect jobs/ --out answers.jsonl",
    "agent unit collect vectors/",
    "agent unit plan jobs/ --bundle latest --batch questions.jsonl --units 64",
    "agent unit plan jobs/ --dataset shop --split val --system hybrid --units 64",
    "agent unit plan vectors/ --index shop --embedder candle:models/mini --units 64",
    "agent unit plan words/ --index shop --words --units 64",
    "agent unit plan jobs/ | xargs -P2 -n1 agent unit run jobs/",
    "agent unit run jobs/ 0 1 2",
    "agent unit work pool/",
    "agent verify latest",
];

/// Adds each example to the help of the command that it runs.
pub(super) fn add(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |command, example| {
        let words: Vec<&str> = example.split(' ').skip(1).collect();
        at(command, &words, example)
    })
}

/// Appends an example to the help of the subcommand that the first words of `words` name, or to the
/// help of `command` if they name no subcommand.
fn at(command: Command, words: &[&str], example: &str) -> Command {
    match words.split_first() {
        Some((name, rest)) if command.find_subcommand(name).is_some() => {
            command.mut_subcommand(name, |below| at(below, rest, example))
        }
        _ => {
            let before = command.get_after_help().map(ToString::to_string);
            let before = before.unwrap_or_else(|| "Examples:".to_owned());
            command.after_help(format!("{before}\n  {example}"))
        }
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
        let mut known: Vec<String> = Vec::new();
        for example in EXAMPLES {
            let taken = Cli::command().try_get_matches_from(words(example));
            let taken = taken.unwrap_or_else(|error| panic!("{example}: {error}"));
            let (mut path, mut matches) = (Vec::new(), &taken);
            while let Some((name, below)) = matches.subcommand() {
                path.push(name);
                matches = below;
            }
            let path = path.join(" ");
            assert!(example.starts_with(&format!("agent {path}")), "{example}");
            known.push(path);
        }
        known.dedup();
        assert_eq!(found, known);
    }
}
