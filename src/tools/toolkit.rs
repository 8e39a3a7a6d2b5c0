//! Renders the registry for its readers: the file and the text that a language model is shown, and
//! the reference page for people. Pure functions of [`registry`], so that none can go stale. Also
//! says in words what a base holds.
//!
//! Must not know: programs, engines. Writes no file; a test compares the rendered text with
//! the files of the repository, and writes them when it is told to.

use std::{cmp::Reverse, fmt::Write};

use serde::Serialize;

use crate::{
    ToolSpec, examples::BaseNames, registry, session::MAX_TOUCHED, source::literal, text::FIND,
};
use agent_kb::{Kb, Tuple, TypeId};

/// The toolkit's name, and its folder under `toolkits/`.
pub const TOOLKIT: &str = "stark";
/// The value of `query` in every [`ToolSpec::example`].
pub const EXAMPLE_QUERY: &str = "durable steel bottle by Northpeak";
/// The groups of tools in the order of the reference, and what each is for.
pub const GROUPS: [(&str, &str); 6] = [
    ("text", "Find nodes by words, and judge nodes by words."),
    ("graph", "Sets of nodes, and steps along relations."),
    ("rank", "Combine, filter and cut scores."),
    ("table", "Typed values of nodes, and numbers computed from many of them."),
    (
        "avatar",
        "The functions of the AvaTaR tool API, for programs that loop over candidates. Lists of \
         numbers come in the order of the ids given.",
    ),
    (
        "llm",
        "Functions that ask a language model: those of the AvaTaR tool API, and query expansion. \
         They are slow and cost money: use them on a short top slice, once, with all nodes in one call. \
         Without one they fail with `no LLM configured`, which ends the program. One run of a program may make 40 requests \
         (repairs of unusable replies not counted), about 400 nodes and texts, of 400,000 tokens, \
         fewer while the optimizer compares programs, and wait for the replies as long as one attempt at \
         a request may take (300 s); that time does not count to its deadline. Equal nodes and \
         texts are asked about once. What gets no usable reply in three requests is \"NA\", false \
         or 0, and is noted in the trace as unparsed. An outage or a spent budget of the run ends \
         the program and is no failure of it.",
    ),
];

/// Nodes of a type whose fields are looked at.
pub(super) const LOOKED_AT: usize = 200;
/// Fields named for a type.
const MAX_FIELDS: usize = 16;
/// Relations between two types that are told.
const MAX_TUPLES: usize = 240;
/// Of so many edges of a base, a relation between two types that has one is left out of an outline.
const RARE: u64 = 10_000;
/// Names given as examples for a type.
const EXAMPLE_NAMES: usize = 3;
/// Characters of an example name.
const NAME_CHARS: usize = 60;

#[derive(Serialize)]
struct Toolkit<'a> {
    name: &'a str,
    example_query: &'a str,
    function: Vec<Function<'a>>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    signature: String,
    group: &'a str,
    cost: &'a str,
    doc: &'a str,
    example: &'a str,
}

/// The text of `toolkits/stark/toolkit.toml`: one `[[function]]` per tool, in the order of the
/// registry, with what a language model is shown of it.
///
/// # Errors
/// None for text as the registry has it; those of the TOML writer.
pub fn toolkit_toml() -> Result<String, toml::ser::Error> {
    let function = |spec: &'static ToolSpec| Function {
        name: spec.name,
        signature: spec.signature(),
        group: spec.group,
        cost: spec.cost,
        doc: spec.doc,
        example: spec.example,
    };
    let function = registry().iter().map(function).collect();
    let body = toml::to_string(&Toolkit { name: TOOLKIT, example_query: EXAMPLE_QUERY, function })?;
    Ok(format!(
        "# What a language model is shown of the functions that programs may call.\n\
         # Rendered from the sources; write it anew with `UPDATE=1 cargo test --release generated`.\n\
         # In examples, `query` is the example query; they run on the nodes of base/.\n\n{body}"
    ))
}

/// Which tools a language model is told of, beside those that every program needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The functions of the AvaTaR tool API that take one node or lists of nodes: what they do,
    /// others do with sets and scores.
    pub avatar: bool,
    /// Functions that ask a language model themselves.
    pub llm: bool,
    /// Those that need an index of the query language.
    pub query: bool,
}

/// What a language model is told of the tools: by group, for each its signature, what it does and an
/// example in the names of the base, one line each; behind each group what its calls cost, and at
/// the end what one run may spend.
pub fn toolkit_text(kb: &Kb, told: Told) -> String {
    let names = BaseNames::new(kb);
    let mut text = String::new();
    for (group, purpose) in GROUPS.into_iter().filter(|pair| told.tells(pair.0)) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "## {group}: {purpose}");
        let mut costs: Vec<(&str, Vec<&str>)> = Vec::new();
        for spec in registry().iter().filter(|spec| told.tells_of(spec, group)) {
            let _ = write!(text, "- {}: {}", spec.signature(), spec.doc);
            match names.example(spec.example).filter(|_| !spec.is_operator()) {
                Some(example) => drop(writeln!(text, " Example: {example}")),
                None => text.push('\n'),
            }
            match costs.iter_mut().find(|pair| pair.0 == spec.cost) {
                Some(pair) if pair.1.contains(&spec.name) => {}
                Some(pair) => pair.1.push(spec.name),
                None => costs.push((spec.cost, vec![spec.name])),
            }
        }
        // What most calls of a group cost needs no names.
        costs.sort_by_key(|pair| pair.1.len());
        let last = costs.len().saturating_sub(1);
        let cost = |(at, (cost, names)): (usize, &(&str, Vec<&str>))| match at == last {
            true => format!("the others {cost}"),
            false => format!("{} {cost}", names.join(", ")),
        };
        let costs: Vec<String> = costs.iter().enumerate().map(cost).collect();
        let _ = writeln!(text, "Cost of a call: {}.\n", costs.join("; "));
    }
    let _ = write!(
        text,
        "Cost is counted in nodes, edges and postings touched: one run for one query may touch {} \
         million in all.",
        MAX_TOUCHED / 1_000_000
    );
    text
}

/// As [`toolkit_text`], shorter, for prompts that show a program which calls functions: without
/// examples, of tables and paths only what they are, and with what calls cost in one line.
pub fn toolkit_outline(told: Told) -> String {
    let mut text = String::new();
    let groups = GROUPS.iter().filter(|(group, _)| told.tells(group));
    for (group, purpose) in groups {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "## {group}: {purpose}");
        for spec in registry().iter().filter(|spec| told.tells_of(spec, group)) {
            // The function `nodes` says what the operators on sets do.
            if spec.is_operator() && *group == "graph" {
                continue;
            }
            let in_short = *group == "table" || spec.name == "paths";
            let end = in_short.then(|| spec.doc.find([':', '.'])).flatten();
            let doc = spec.doc.get(..end.unwrap_or(spec.doc.len())).unwrap_or(spec.doc);
            let _ = writeln!(text, "- {}: {}.", spec.signature(), doc.trim_end_matches('.'));
        }
        text.push('\n');
    }
    let _ = write!(
        text,
        "One run for one query may touch {} million nodes, edges and postings in all. A call costs \
         about 1 per node and edge, 10 per node whose text or embedding is compared, 1,000 per word \
         that is linked or searched; search_vectors 1 per 4 nodes of the types it searches.",
        MAX_TOUCHED / 1_000_000
    );
    text
}

impl Told {
    /// Whether a group of tools is told of.
    fn tells(self, group: &str) -> bool {
        (self.llm || group != "llm") && (self.avatar || group != "avatar")
    }

    /// Whether a tool is told of in this group.
    fn tells_of(self, spec: &ToolSpec, group: &str) -> bool {
        spec.group == group && (self.query || spec.name != FIND)
    }
}

/// What a base holds, for a language model: types with counts, fields and example names, and relations by their ends.
pub fn schema_text(kb: &Kb) -> String {
    schema(kb, EXAMPLE_NAMES, 0)
}

/// As [`schema_text`], shorter: without example names, and without relations that few edges have.
pub fn schema_outline(kb: &Kb) -> String {
    schema(kb, 0, kb.tuples().iter().map(|tuple| tuple.edges).sum::<u64>() / RARE)
}

/// The types with so many example names, and the relations that join two types with more than so many edges.
fn schema(kb: &Kb, examples: usize, rare: u64) -> String {
    let all = kb.candidate_types().len() == kb.types().len();
    let may_answer = if all { ", all of which may be answers" } else { "" };
    let mut text = format!("Knowledge base: {}\n\nNode types{may_answer}:\n", kb.title());
    for at in 0..kb.types().len() {
        let id = TypeId(at as u16);
        let nodes = kb.nodes_of_type(id);
        let step = (nodes.len() / LOOKED_AT).max(1);
        let mut fields = vec![0usize; kb.field_names().len()];
        for &node in nodes.iter().step_by(step) {
            kb.fields(node).for_each(|(field, _)| fields[usize::from(field.0)] += 1);
        }
        let mut common: Vec<usize> = (0..fields.len()).filter(|&field| fields[field] > 0).collect();
        common.sort_by_key(|&field| Reverse(fields[field]));
        let names: Vec<&str> =
            common.iter().take(MAX_FIELDS).map(|&field| kb.field_names()[field].as_str()).collect();
        let answers = match !all && kb.candidate_types().contains(&id) {
            true => ", may be answers",
            false => "",
        };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "- {}: {} nodes{answers}; fields: {}",
            kb.type_name(id),
            nodes.len(),
            if names.is_empty() { "none".to_owned() } else { names.join(", ") },
        );
        let step = (nodes.len() / examples.max(1)).max(1);
        for (at, &node) in nodes.iter().step_by(step).take(examples).enumerate() {
            let name = literal(&kb.name(node).chars().take(NAME_CHARS).collect::<String>());
            text += if at == 0 { "; such as " } else { ", " };
            text += &name;
        }
        text.push('\n');
    }
    text += "\nRelations by their ends (source -> target: relation edges, ...):\n";
    let told = kb.tuples().get(..MAX_TUPLES).unwrap_or(kb.tuples());
    let (few, mut tuples): (Vec<&Tuple>, Vec<&Tuple>) =
        told.iter().partition(|tuple| tuple.edges <= rare);
    tuples.sort_by_key(|tuple| (tuple.source, tuple.target, Reverse(tuple.edges)));
    for same in tuples.chunk_by(|a, b| (a.source, a.target) == (b.source, b.target)) {
        let relation =
            |tuple: &&Tuple| format!("{} {}", kb.relation_name(tuple.relation), tuple.edges);
        let relations: Vec<String> = same.iter().map(relation).collect();
        let (source, target) = (kb.type_name(same[0].source), kb.type_name(same[0].target));
        let _ = writeln!(text, "- {source} -> {target}: {}", relations.join(", "));
    }
    if !few.is_empty() {
        let _ = writeln!(text, "- and {} with at most {rare} edges", few.len());
    }
    if kb.tuples().len() > MAX_TUPLES {
        let _ = writeln!(text, "- and {} more", kb.tuples().len() - MAX_TUPLES);
    }
    text
}

/// The text of `docs/tools.md`: the tools by group, each with signature, doc, cost and example.
pub fn reference_page() -> String {
    let mut page = format!(
        "# Tools\n\n\
         The functions and operators that a program may call.\n\
         This page is rendered from the sources; write it anew with `UPDATE=1 cargo test --release \
         generated`.\n\n\
         - A function may be written as a method: `top(s, 10)` is `s.top(10)`.\n\
         - An argument with `= value` may be left out, and so may all after it.\n\
         - `nodes` is a set of node ids; functions take scores, one id or a list of ids in its \
         place. Operators take a set, and a list of ids on one side.\n\
         - `scores` maps nodes to numbers, higher is better.\n\
         - `list of text` may be one text; `node` is an integer or text of digits; `any` is said in \
         the description.\n\
         - Cost is counted in nodes, edges and postings touched; one run of a program may touch \
         20,000,000 and make 2,000 calls.\n\
         - A call that fails ends the program; the message says how to mend it.\n\
         - In examples, `query` is \"{EXAMPLE_QUERY}\" and the nodes are those of \
         `toolkits/{TOOLKIT}/base`.\n\n\
         How programs are written: [sandboxes/rhai](../sandboxes/rhai/README.md).\n\
         Whole programs: [toolkits/{TOOLKIT}/examples](../toolkits/{TOOLKIT}/examples).\n"
    );
    for (group, purpose) in GROUPS {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {group}\n\n{purpose}\n");
        for spec in registry().iter().filter(|spec| spec.group == group) {
            let _ = write!(
                page,
                "\n### `{}`\n\n```text\n{}\n```\n\n{}\n\n```rhai\n{}\n```\n\nCost: {}.\n",
                spec.name,
                spec.signature(),
                spec.doc,
                spec.example,
                spec.cost
            );
        }
    }
    page
}
