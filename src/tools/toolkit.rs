//! Renders the registry of tools as prompt texts for language models, and as a reference page for
//! people. Also describes the schema of a base in words. The texts depend only on [`registry`] and
//! the base; a test compares them with the files of the repository, and updates these on request.

use std::{cmp::Reverse, fmt::Write};

use serde::Serialize;

use crate::{
    ToolSpec, examples::BaseNames, registry, session::MAX_TOUCHED, source::literal, text::FIND,
};
use agent_kb::{Kb, Tuple, TypeId};

/// Name of the toolkit and of its folder under `toolkits/`.
pub const TOOLKIT: &str = "stark";
/// The value of `query` in every [`ToolSpec::example`].
pub const EXAMPLE_QUERY: &str = "durable steel bottle by Northpeak";
/// Groups of tools in the order of the reference, with their purposes.
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

/// Approximate number of nodes sampled to find the fields of a type.
pub(super) const SAMPLED_NODES: usize = 200;
/// Maximum number of fields listed per type.
const MAX_FIELDS: usize = 16;
/// Maximum number of listed combinations of source type, relation and target type.
const MAX_TUPLES: usize = 240;
/// An outline omits a relation between two types if the relation has at most this number of edges.
const RARE: u64 = 10_000;
/// Number of example names per type.
const EXAMPLE_NAMES: usize = 3;
/// Maximum number of characters of an example name.
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

/// Renders `toolkits/stark/toolkit.toml`: one `[[function]]` per tool, in the order of the
/// registry, with the parts shown to a language model.
///
/// # Errors
/// Fails if TOML cannot represent a text; the texts of the registry never fail.
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
        "# The functions that programs may call, as described to a language model.\n\
         # Rendered from the sources; update it with `UPDATE=1 cargo test --release generated`.\n\
         # In examples, `query` is the example query; they run on the nodes of base/.\n\n{body}"
    ))
}

/// Which optional tools to describe to a language model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolkitScope {
    /// The functions of the AvaTaR tool API, which take one node or lists of nodes; other tools do
    /// the same with sets and scores.
    pub avatar: bool,
    /// Functions that ask a language model.
    pub llm: bool,
    /// Functions that need an index of the query language.
    pub query: bool,
}

/// Describes the tools to a language model, by group. Each tool has a line with its signature,
/// description and an example in the names of the base. Each group ends with the costs of its
/// calls, and the text ends with the budget of one run.
pub fn toolkit_text(kb: &Kb, scope: ToolkitScope) -> String {
    let names = BaseNames::new(kb);
    let mut text = String::new();
    for (group, purpose) in GROUPS.into_iter().filter(|pair| scope.includes_group(pair.0)) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "## {group}: {purpose}");
        let mut costs: Vec<(&str, Vec<&str>)> = Vec::new();
        for spec in registry().iter().filter(|spec| scope.includes(spec, group)) {
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
        // The cost that most tools of a group share comes last, as the cost of "the others".
        costs.sort_by_key(|pair| pair.1.len());
        let last = costs.len().saturating_sub(1);
        let cost = |(index, (cost, names)): (usize, &(&str, Vec<&str>))| match index == last {
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

/// Describes the tools more briefly than [`toolkit_text`], for prompts that show a program: without
/// examples, with short descriptions of tables and paths, and the costs in one line.
pub fn toolkit_outline(scope: ToolkitScope) -> String {
    let mut text = String::new();
    let groups = GROUPS.iter().filter(|(group, _)| scope.includes_group(group));
    for (group, purpose) in groups {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "## {group}: {purpose}");
        for spec in registry().iter().filter(|spec| scope.includes(spec, group)) {
            // The doc of `nodes` describes the operators on sets.
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

impl ToolkitScope {
    fn includes_group(self, group: &str) -> bool {
        (self.llm || group != "llm") && (self.avatar || group != "avatar")
    }

    /// Whether the tool belongs to `group` and is described.
    fn includes(self, spec: &ToolSpec, group: &str) -> bool {
        spec.group == group && (self.query || spec.name != FIND)
    }
}

/// Describes the schema of a base to a language model: types with the number of their nodes, fields
/// and example names, and relations with the types that they connect.
pub fn schema_text(kb: &Kb) -> String {
    schema(kb, EXAMPLE_NAMES, 0)
}

/// Describes the schema more briefly than [`schema_text`]: without example names and rare
/// relations.
pub fn schema_outline(kb: &Kb) -> String {
    schema(kb, 0, kb.tuples().iter().map(|tuple| tuple.edges).sum::<u64>() / RARE)
}

/// Describes the schema with `examples` names per type; relations with at most `rare` edges are
/// only counted.
fn schema(kb: &Kb, examples: usize, rare: u64) -> String {
    let all = kb.candidate_types().len() == kb.types().len();
    let may_answer = if all { ", all of which may be answers" } else { "" };
    let mut text = format!("Knowledge base: {}\n\nNode types{may_answer}:\n", kb.title());
    for id in (0..kb.types().len()).map(|index| TypeId(index as u16)) {
        let nodes = kb.nodes_of_type(id);
        let step = (nodes.len() / SAMPLED_NODES).max(1);
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
        for (index, &node) in nodes.iter().step_by(step).take(examples).enumerate() {
            let name = literal(&kb.name(node).chars().take(NAME_CHARS).collect::<String>());
            text += if index == 0 { "; such as " } else { ", " };
            text += &name;
        }
        text.push('\n');
    }
    text += "\nRelations by their ends (source -> target: relation edges, ...):\n";
    let listed = kb.tuples().get(..MAX_TUPLES).unwrap_or(kb.tuples());
    let (few, mut tuples): (Vec<&Tuple>, Vec<&Tuple>) =
        listed.iter().partition(|tuple| tuple.edges <= rare);
    tuples.sort_by_key(|tuple| (tuple.source, tuple.target, Reverse(tuple.edges)));
    for group in tuples.chunk_by(|a, b| (a.source, a.target) == (b.source, b.target)) {
        let relation =
            |tuple: &&Tuple| format!("{} {}", kb.relation_name(tuple.relation), tuple.edges);
        let relations: Vec<String> = group.iter().map(relation).collect();
        let (source, target) = (kb.type_name(group[0].source), kb.type_name(group[0].target));
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

/// Renders `docs/tools.md`: tools by group, with signature, doc, cost and example.
pub fn reference_page() -> String {
    let mut page = format!(
        "# Tools\n\n\
         The functions and operators that a program may call.\n\
         This page is rendered from the sources; update it with `UPDATE=1 cargo test --release \
         generated`.\n\n\
         - A function may be written as a method: `top(s, 10)` is `s.top(10)`.\n\
         - An argument with `= value` may be left out, and so may all after it.\n\
         - `nodes` is a set of node ids; functions take scores, one id or a list of ids in its \
         place. Operators take a set, and a list of ids on one side.\n\
         - `scores` maps nodes to numbers, higher is better.\n\
         - `list of text` may be one text; `node` is an integer or text of digits; for `any`, see \
         the description.\n\
         - Cost is counted in nodes, edges and postings touched; one run of a program may touch \
         20,000,000 and make 2,000 calls.\n\
         - A call that fails ends the program; the message says how to fix it.\n\
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
