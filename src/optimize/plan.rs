//! Plans that the search actor composes and mutates, and their rendering as programs.
//!
//! A plan is a small syntax tree of branches. A branch says how linked entities are found, which
//! metapath starts from them, and how their scores are combined. The rendered program depends only
//! on the plan and the base's schema; its source is ordinary Rhai that people may edit.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use crate::mine::Step;
use agent_ground::words::fold;
use agent_index::IndexedBase;
use agent_kb::{Direction, TypeId};
use agent_sandbox::{PARAM_NAME_BYTES, program::Program};
use agent_tools::source::{comment, literal, literals};

/// Maximum number of nodes in a program's pool: the nodes that the program ranks by their text.
const POOL: usize = 1_000;
/// Maximum number of nodes that a rendered program returns.
const RETURNED: usize = 200;
/// Maximum number of nodes that text search adds to a program's pool.
const SEARCHED: usize = 200;

/// Prefix of variables that hold entities linked by name or by description.
const LIKELY: &str = "likely_";

/// Maximum length in bytes of the word for a branch in a program, such as `author`. The parameter
/// with the branch's weight is named `w_` followed by this word.
const WORD_BYTES: usize = PARAM_NAME_BYTES - 2;
/// Words that must not name a branch, because the names of other parameters contain them, such as
/// `text` in `w_text`.
const NO_WEIGHTS: [&str; 7] = ["both", "search", "text", "cover", "names", "meaning", "itself"];

/// Names that variables must not have: the arguments of `retrieve`, and keywords of Rhai.
const NO_VARIABLES: [&str; 6] = ["query", "candidates", "params", "as", "is", "this"];

/// How the linked entities of a branch are found in the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkedBy {
    /// The query names the entities.
    Named,
    /// The query describes the entities: their documents match the query.
    Described,
    /// The query names or describes the entities.
    Either,
}

impl LinkedBy {
    /// Returns the prefix of variables for such entities, the word in names of categories, and the
    /// description in the headers of programs.
    fn texts(self) -> [&'static str; 3] {
        match self {
            Self::Named => ["", "named", "named by the query"],
            Self::Described => ["described_", "described", "described by the query"],
            Self::Either => [LIKELY, "likely", "named or described by the query"],
        }
    }
}

/// One branch of a plan: linked entities, and the metapath that leads from them to nodes of the
/// target type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Branch {
    /// How the linked entities are found in the query.
    pub linked: LinkedBy,
    /// Type of the linked entities at which the metapath starts.
    pub start: TypeId,
    /// The one to three steps of the metapath.
    pub steps: Vec<Step>,
    /// Whether a node reached from several linked entities gets the sum of their scores, not the
    /// maximum.
    pub sums: bool,
}

/// A plan: the structure of a program that the search actor composes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plan {
    /// Type of the answers; `None` for all types that answers may have.
    pub target: Option<TypeId>,
    /// The branches, at most three. The program of a plan without branches only searches text.
    pub branches: Vec<Branch>,
}

/// Converts a name to an identifier of lower-case ASCII letters, digits and underscores; `thing` if
/// no letter or digit is left.
fn identifier(name: &str) -> String {
    let mut word: String =
        fold(name).chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if !word.contains(|c: char| c.is_ascii_alphanumeric()) {
        return "thing".to_owned();
    }
    if word.starts_with(|c: char| !c.is_ascii_alphabetic()) {
        word.insert_str(0, "n_");
    }
    word
}

/// Returns `word`, with `2` appended as often as needed until `is_taken` returns false. Cuts `word`
/// so that the result has at most [`WORD_BYTES`] bytes.
fn distinct(word: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let beginning = |n: usize| &word[..word.len().min(WORD_BYTES.saturating_sub(n))];
    let mut words = (0..=WORD_BYTES).map(|n| format!("{}{}", beginning(n), "2".repeat(n)));
    words.find(|word| !is_taken(word)).unwrap_or_default()
}

fn plural(word: &str) -> String {
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if word.ends_with(['s', 'x']) || word.ends_with("ch") => format!("{word}es"),
        _ => format!("{word}s"),
    }
}

/// Whether a step can end at nodes of another type than `target`.
fn leads_elsewhere(base: &IndexedBase, step: Step, target: TypeId) -> bool {
    base.kb.tuples().iter().filter(|tuple| tuple.relation == step.relation).any(|tuple| match step
        .direction
    {
        Direction::Out => tuple.target != target,
        Direction::In => tuple.source != target,
        Direction::Any => tuple.target != target || tuple.source != target,
    })
}

/// Returns a distinct word for each type of the plan's linked entities, such as `author`. The
/// plural of the word, `authors`, can name a variable.
fn words_of_types(base: &IndexedBase, plan: &Plan) -> BTreeMap<TypeId, String> {
    let mut words: BTreeMap<TypeId, String> = BTreeMap::new();
    for branch in &plan.branches {
        if words.contains_key(&branch.start) {
            continue;
        }
        let word = distinct(&identifier(base.kb.type_name(branch.start)), |word| {
            NO_VARIABLES.contains(&plural(word).as_str()) || words.values().any(|w| w == word)
        });
        words.insert(branch.start, word);
    }
    words
}

/// A branch with the names that the program uses: the type of the linked entities, the variables of
/// linked and reached nodes, and the parameter with the weight.
struct NamedBranch<'a> {
    branch: &'a Branch,
    kind: String,
    linked: String,
    reached: String,
    weight: String,
}

fn named_branches<'a>(base: &IndexedBase, plan: &'a Plan) -> Vec<NamedBranch<'a>> {
    let words = words_of_types(base, plan);
    let mut taken: BTreeSet<String> = NO_WEIGHTS.map(str::to_owned).into();
    plan.branches
        .iter()
        .map(|branch| {
            let kind = base.kb.type_name(branch.start).to_owned();
            let word = words.get(&branch.start).cloned().unwrap_or_default();
            let [prefix, ..] = branch.linked.texts();
            let relation =
                || branch.steps.last().map_or("", |step| base.kb.relation_name(step.relation));
            let mut suffix = word.clone();
            if taken.contains(&suffix) {
                suffix = format!("{word}_{}", identifier(relation()));
            }
            let suffix = distinct(&suffix, |name| taken.contains(name));
            taken.insert(suffix.clone());
            NamedBranch {
                branch,
                kind,
                linked: format!("{prefix}{}", plural(&word)),
                reached: format!("by_{suffix}"),
                weight: format!("w_{suffix}"),
            }
        })
        .collect()
}

/// Formats the start type and the steps of a branch's metapath, such as `author
/// -author_writes_paper->`.
fn metapath_in_words(base: &IndexedBase, branch: &Branch) -> String {
    let mut text = base.kb.type_name(branch.start).to_owned();
    for step in &branch.steps {
        let relation = base.kb.relation_name(step.relation);
        text += &format!(" {}", step.direction.arrow(relation));
    }
    text
}

/// Returns a short name for the category of a plan, such as `paper by named author
/// (author_writes_paper)`. A relation that is followed against its stored direction is marked with
/// `<`, one that is followed in both directions with `~`.
pub fn category_name(base: &IndexedBase, plan: &Plan) -> String {
    let target = plan.target.map_or("any node", |target| base.kb.type_name(target));
    if plan.branches.is_empty() {
        return format!("{target} by words");
    }
    let ways: Vec<String> = plan
        .branches
        .iter()
        .map(|branch| {
            let relation = |step: &Step| {
                let mark = match step.direction {
                    Direction::Out => "",
                    Direction::In => "<",
                    Direction::Any => "~",
                };
                format!("{mark}{}", base.kb.relation_name(step.relation))
            };
            let relations: Vec<String> = branch.steps.iter().map(relation).collect();
            let [_, how, _] = branch.linked.texts();
            format!("{how} {} ({})", base.kb.type_name(branch.start), relations.join(", "))
        })
        .collect();
    format!("{target} by {}", ways.join(" and "))
}

/// Renders a plan as a program. If `relaxed`, the program ranks nodes that at least one of the
/// plan's metapaths reaches or that text search finds; nodes that several metapaths reach get
/// higher scores. Otherwise, and if the plan has metapaths, the program ranks only nodes that all
/// of them reach.
pub fn render(base: &IndexedBase, plan: &Plan, relaxed: bool) -> Program {
    let relaxed = relaxed || plan.branches.is_empty();
    let branches = named_branches(base, plan);
    let mut out = String::new();
    let _ = writeln!(out, "//! category: {}", comment(&category_name(base, plan)));
    for named in &branches {
        let [_, _, how] = named.branch.linked.texts();
        let target = plan.target.map_or("", |target| base.kb.type_name(target));
        let metapath = format!("{} {target}", metapath_in_words(base, named.branch));
        let _ = writeln!(out, "//! Walk from what is {how}: {}", comment(&metapath));
    }
    out += "//! What is reached is ranked by what else the query says.\n\n";
    render_params(&mut out, plan, &branches, relaxed);
    out += "\nfn retrieve(query, candidates, params) {\n";
    render_linked(&mut out, &branches);
    render_metapaths(&mut out, base, plan, &branches);
    match relaxed {
        true => render_pool(&mut out, base, plan, &branches),
        false => {
            let reached: Vec<&str> = branches.iter().map(|named| named.reached.as_str()).collect();
            out += "\n    // The pool: what every walk reached.\n";
            let _ = writeln!(out, "    let pool = top({}, {POOL});", reached.join(" * "));
        }
    }
    render_order(&mut out, plan, &branches);
    out += "}\n";
    Program::new(&out)
}

fn render_params(out: &mut String, plan: &Plan, branches: &[NamedBranch<'_>], relaxed: bool) {
    out.push_str("fn params() {\n    #{\n");
    let mut line = |name: &str, bounds: &str, what: &str| {
        let _ = writeln!(out, "        {name}: #{{ {bounds} }}, // {what}");
    };
    for named in branches.iter().filter(|_| relaxed) {
        line(&named.weight, "value: 1.0, min: 0.0, max: 4.0", "reached by this walk");
    }
    if branches.len() > 1 && relaxed {
        line("w_both", "value: 1.0, min: 0.0, max: 4.0", "reached by more than one walk");
    }
    if !branches.is_empty() {
        line("n_anchors", "value: 3, min: 1, max: 30", "anchors of each type");
        line("sharpness", "value: 2.0, min: 0.5, max: 4.0", "how much surer anchors count");
    }
    if relaxed {
        line("w_search", "value: 0.5, min: 0.0, max: 4.0", "found by words anywhere");
    }
    line("w_text", "value: 0.6, min: 0.0, max: 4.0", "words of the document");
    line("w_cover", "value: 0.3, min: 0.0, max: 4.0", "share of the query's words");
    line("w_names", "value: 0.6, min: 0.0, max: 4.0", "names of neighbours");
    line("w_meaning", "value: 0.2, min: 0.0, max: 4.0", "embeddings");
    if branches.iter().any(|named| Some(named.branch.start) == plan.target) {
        line("w_itself", "value: 0.6, min: 0.0, max: 4.0", "taken from anchors themselves");
    }
    out.push_str("    }\n}\n");
}

fn render_linked(out: &mut String, branches: &[NamedBranch<'_>]) {
    let mut done = BTreeSet::new();
    if !branches.is_empty() {
        out.push_str("    // Anchors: what the query is about.\n");
    }
    for NamedBranch { branch, kind, linked, .. } in branches {
        if !done.insert(linked) {
            continue;
        }
        let kind = literal(kind);
        let named = format!("link(query, {kind}, params.n_anchors)");
        let described = format!("normalize(search(query, {kind}, params.n_anchors))");
        let found = match branch.linked {
            LinkedBy::Named => named,
            LinkedBy::Described => described,
            LinkedBy::Either => {
                let word = linked.trim_start_matches(LIKELY);
                let _ = writeln!(out, "    let named_{word} = {named};");
                let _ = writeln!(out, "    let described_{word} = {described};");
                format!("largest(named_{word}, described_{word})")
            }
        };
        let _ = writeln!(out, "    let {linked} = power({found}, params.sharpness);");
    }
}

fn render_metapaths(
    out: &mut String,
    base: &IndexedBase,
    plan: &Plan,
    branches: &[NamedBranch<'_>],
) {
    if !branches.is_empty() {
        out.push_str("\n    // Where walks from them lead.\n");
    }
    for NamedBranch { branch, linked, reached, .. } in branches {
        let how = if branch.sums { "sum" } else { "max" };
        let mut metapath = linked.clone();
        for step in &branch.steps {
            let relation = literal(base.kb.relation_name(step.relation));
            let line_break = if metapath.contains('(') { "\n        " } else { " " };
            let direction = match step.direction {
                Direction::Out => "out",
                Direction::In => "in",
                Direction::Any => "any",
            };
            metapath =
                format!("hop({metapath},{line_break}{relation}, \"{direction}\", \"{how}\")");
        }
        if let (Some(target), Some(&last)) = (plan.target, branch.steps.last())
            && leads_elsewhere(base, last, target)
        {
            metapath = format!("of_type({metapath}, {})", literal(base.kb.type_name(target)));
        }
        let _ = writeln!(out, "    let {reached} = {metapath};");
    }
}

fn render_pool(out: &mut String, base: &IndexedBase, plan: &Plan, branches: &[NamedBranch<'_>]) {
    let types = match plan.target {
        Some(target) => literal(base.kb.type_name(target)),
        None => literals(base.kb.searched_types().iter().map(|&kind| base.kb.type_name(kind))),
    };
    let _ = writeln!(out, "\n    // The pool: what was reached, or found by words.");
    let _ = writeln!(out, "    let found = normalize(search_fields(query, {types}, {SEARCHED}));");
    let reached = |named: &NamedBranch<'_>| format!("{} * params.{}", named.reached, named.weight);
    let mut sum: Vec<String> = branches.iter().map(reached).collect();
    for (at, first) in branches.iter().enumerate() {
        for second in &branches[at + 1..] {
            sum.push(format!("{} * {} * params.w_both", first.reached, second.reached));
        }
    }
    sum.push("found * params.w_search".to_owned());
    let _ = writeln!(out, "    let pool = top({}, {POOL});", sum.join("\n        + "));
}

fn render_order(out: &mut String, plan: &Plan, branches: &[NamedBranch<'_>]) {
    let _ = writeln!(out, "\n    // Its order: what the query says beside the names of anchors.");
    let linked_of = |is_meant: &dyn Fn(&Branch) -> bool| -> BTreeSet<&str> {
        let meant = branches.iter().filter(|named| is_meant(named.branch));
        meant.map(|named| named.linked.as_str()).collect()
    };
    let mut rest = "query".to_owned();
    for linked in linked_of(&|branch| branch.linked != LinkedBy::Described) {
        rest = format!("without_names({rest}, at_least({linked}, 0.4))");
    }
    let _ = writeln!(out, "    let rest = {rest};");
    let order = [
        "pool".to_owned(),
        "normalize(match_text(rest, pool)) * params.w_text".to_owned(),
        "cover(rest, pool) * params.w_cover".to_owned(),
        "normalize(match_names(query, pool)) * params.w_names".to_owned(),
        "similarity(rest, pool) * params.w_meaning".to_owned(),
    ];
    let mut order = order.join("\n        + ");
    for linked in linked_of(&|branch| Some(branch.start) == plan.target) {
        let _ = write!(order, "\n        - {linked} * params.w_itself");
    }
    let _ = writeln!(out, "    top({order}, {RETURNED})");
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::atomic::AtomicBool};

    use super::*;
    use agent_index as index;
    use agent_kb::{Kb, KbMeta, KbWriter, MAX_LABEL_BYTES, Manifest, RelationId};
    use agent_sandbox::{Code, Limits, RhaiSandbox, Sandbox, Workers};

    /// Creates a base with types `a`, `b` and `c` and the relation `r`, then renames them to names
    /// that imports reject but foreign bases may have. The new names must sort in the order of the
    /// old ones.
    fn base(types: [&str; 3], relation: &str) -> (tempfile::TempDir, IndexedBase) {
        let dir = tempfile::tempdir().unwrap();
        let (kb_dir, index_dir) = (dir.path().join("kb"), dir.path().join("index"));
        let mut writer = KbWriter::create(&kb_dir).unwrap();
        for kind in ["a", "b", "c"] {
            writer.push_node(kind, kind, kind, &[]).unwrap();
        }
        writer.push_edge(0, "r", 2).unwrap();
        writer.push_edge(1, "r", 2).unwrap();
        writer.finish(&KbMeta::default(), &mut |_, _| true).unwrap();
        let mut manifest = Manifest::read(&kb_dir).unwrap();
        manifest.types = types.map(str::to_owned).to_vec();
        manifest.relations = vec![relation.to_owned()];
        manifest.checksum = String::new();
        let unsigned = serde_json::to_vec(&manifest).unwrap();
        manifest.checksum = blake3::hash(&unsigned).to_hex().to_string();
        fs::write(kb_dir.join("manifest.json"), serde_json::to_vec(&manifest).unwrap()).unwrap();
        let kb = Kb::open(&kb_dir).unwrap();
        index::build(&kb, &index_dir, &|_| {}, &AtomicBool::new(false)).unwrap();
        let base = IndexedBase::open(&kb_dir, &index_dir, "other").unwrap();
        (dir, base)
    }

    fn plan() -> Plan {
        let steps = vec![Step { relation: RelationId(0), direction: Direction::Out }];
        let branch = |start| Branch {
            linked: LinkedBy::Either,
            start: TypeId(start),
            steps: steps.clone(),
            sums: true,
        };
        Plan { target: Some(TypeId(2)), branches: vec![branch(0), branch(1)] }
    }

    /// Renders the plan of [`plan`] for a base, checks that the program compiles, and returns its
    /// source.
    fn compiled(base: &IndexedBase) -> String {
        let source = render(base, &plan(), true).source().to_owned();
        let sandbox = RhaiSandbox::new(std::sync::Arc::new(Workers::new(1).unwrap()));
        let compiled = sandbox.compile(Code::Rhai(&source), &Limits::default());
        assert!(compiled.is_ok(), "{:?}\n{source}", compiled.err());
        source
    }

    #[test]
    fn no_name_of_a_base_becomes_code() {
        let own = "fn retrieve(query, candidates, params) { #{} }";
        for end in ["\n", "\r", "\r\n", "\u{85}", "\u{2028}", "\"\n", "*/ "] {
            let name = |letter: &str| format!("{letter}{end}{own}\n//");
            let types = [name("a"), name("b"), name("c")];
            let (_dir, base) = base(types.each_ref().map(String::as_str), &name("r"));
            let source = compiled(&base);
            let defined =
                source.lines().filter(|line| line.trim_start().starts_with("fn retrieve"));
            assert_eq!(defined.count(), 1, "{source}");
            assert!(!source.contains(['\r', '\u{85}', '\u{2028}']), "{source}");
        }
    }

    #[test]
    fn types_have_variables_of_their_own() {
        // As many letters of another script; parameters of a program; words of the language.
        for types in [
            ["\u{e01}\u{e33}", "\u{e02}\u{e33}", "z"],
            ["Param", "param", "z"],
            ["a", "e\u{301}", "query"],
        ] {
            let (_dir, base) = base(types, "r");
            let source = compiled(&base);
            let is_let = |line: &&str| line.starts_with("    let ");
            let names: Vec<&str> = source
                .lines()
                .filter(is_let)
                .filter_map(|line| line.trim_start_matches("    let ").split(' ').next())
                .collect();
            let distinct: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!(names.len(), distinct.len(), "{source}");
            assert!(NO_VARIABLES.iter().all(|name| !distinct.contains(name)), "{source}");
        }
    }

    #[test]
    fn names_of_any_length_and_those_of_parameters_make_parameters() {
        let long = |last: char| format!("{}{last}", "a_long_name_".repeat(MAX_LABEL_BYTES / 12));
        let long = ['x', 'y', 'z'].map(long);
        let relation = "r".repeat(MAX_LABEL_BYTES);
        for types in [long.each_ref().map(String::as_str), ["text", "names", "z"], ["both"; 3]] {
            let (_dir, base) = base(types, &relation);
            let source = compiled(&base);
            let sandbox = RhaiSandbox::new(std::sync::Arc::new(Workers::new(1).unwrap()));
            let limits = Limits::default();
            let program = sandbox.compile(Code::Rhai(&source), &limits).unwrap();
            let declared = sandbox.declared_params(&program, &limits);
            assert!(declared.is_ok(), "{declared:?}\n{source}");
        }
    }
}
