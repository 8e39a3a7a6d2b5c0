//! Templates of questions about a base, read from a JSON file:
//!
//! ```text
//! {"templates": [{
//!     "id": "papers-by-institution", "target_type": "paper",
//!     "slots": [{"name": "institution", "type": "institution", "branch": 0}],
//!     "branches": [{"metapath": ["institution", "affiliated_with", "in", "author",
//!                                "writes", "out", "paper"]}],
//!     "exclude_slot_nodes_from_answers": false,
//!     "text": "Which papers come from {institution}?"}]}
//! ```
//!
//! A metapath is a type, followed by relation, direction (`out`, `in` or `any`) and type for each
//! step; `a|b` stands for either of two relations. The `branch` of a slot is the index of the
//! branch that starts at the slot; several branches are written as `"0+1"`. A branch with
//! `"quantifier": "not_exists"` starts at the answers: a node from which its end can be reached is
//! not an answer. Other keys are ignored; `text` is optional.

use serde::Deserialize;

use self::EntryError::{Missing, Wrong};
use agent_kb::{
    Direction, Kb, NodeId, TypeId,
    metapath::{self, Branch, Step, in_words},
};

/// The templates of the STaRK benchmark, as the text of a JSON file.
pub const BENCHMARK: &str = include_str!("data/benchmark.json");
/// Maximum number of templates of a file; a template with alternative relations counts once per
/// choice.
pub(super) const MAX_TEMPLATES: usize = 1_000;
/// Maximum number of edges that one branch follows; a filled template with more edges is dropped.
pub(super) const MAX_EDGES: usize = 50_000;

/// A template of questions about one base.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Id of the template; the templates made from one entry with alternative relations have the
    /// same id.
    pub id: String,
    /// Type of the answers.
    pub target: TypeId,
    /// Node type of each slot; empty for a textual question.
    pub slots: Vec<TypeId>,
    /// Metapaths from the slots to the answers, and negated metapaths from the answers.
    pub branches: Vec<Branch<Step>>,
    /// Whether nodes that fill slots are excluded from the answers.
    pub exclude_slots: bool,
    /// Wording from the template file, in which `{0}` and `{1}` stand for the names of the slot
    /// nodes; `None` uses the general patterns.
    pub text: Option<String>,
    /// Weight of the template in draws; the probability of a template is proportional to its
    /// weight.
    pub weight: f64,
}

impl Template {
    /// Returns the answers for the given slot nodes, ascending; `None` if a branch would follow
    /// more than 50,000 edges.
    pub fn answers(&self, kb: &Kb, slots: &[NodeId]) -> Option<Vec<NodeId>> {
        let mut nodes = metapath::execute(kb, &self.branches, slots, MAX_EDGES)?;
        if self.exclude_slots {
            nodes.retain(|node| !slots.contains(node));
        }
        Some(nodes)
    }

    /// Describes the template's branches in words, joined by `&`.
    pub fn in_words(&self, kb: &Kb) -> String {
        let branch = |branch: &Branch<Step>| {
            let not = if branch.slot.is_none() { "NOT " } else { "" };
            format!("{not}{}", in_words(kb, &branch.steps))
        };
        self.branches.iter().map(branch).collect::<Vec<_>>().join(" & ")
    }
}

/// Why templates could not be read.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum TemplateError {
    /// The file is not valid JSON of the expected form, or has too many templates.
    #[error("{file}: {message}")]
    Form {
        /// Name of the file.
        file: String,
        /// What is wrong, with the line if the JSON is invalid.
        message: String,
    },
    /// An entry of the file is invalid.
    #[error("{file}: template {id:?} {message}")]
    Entry {
        /// Name of the file.
        file: String,
        /// Id of the invalid entry.
        id: String,
        /// What is wrong with the entry, and how to correct it.
        message: String,
    },
    /// No entry of the file fits this base.
    #[error(
        "{file}: none of {n} templates fits this base; it has no {missing}, which template {id:?} needs: \
         give templates with the types and relations of the base"
    )]
    NoneFits {
        /// Name of the file.
        file: String,
        /// Number of entries in the file.
        n: usize,
        /// A type or relation that the base lacks, such as `type "paper"`.
        missing: String,
        /// Id of the first entry that needs that type or relation.
        id: String,
    },
}

#[derive(Deserialize)]
struct File {
    templates: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    target_type: String,
    slots: Vec<Slot>,
    branches: Vec<BranchEntry>,
    #[serde(default)]
    exclude_slot_nodes_from_answers: bool,
    #[serde(default)]
    text: Option<String>,
}

#[derive(Deserialize)]
struct Slot {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    branch: StartBranches,
}

/// Index of the branch, or indices of the branches, that start at a slot.
#[derive(Deserialize)]
#[serde(untagged)]
enum StartBranches {
    One(usize),
    Several(String),
}

impl StartBranches {
    fn includes(&self, branch: usize) -> bool {
        match self {
            StartBranches::One(only) => *only == branch,
            StartBranches::Several(text) => {
                text.split('+').any(|part| part.trim().parse() == Ok::<usize, _>(branch))
            }
        }
    }
}

#[derive(Deserialize)]
struct BranchEntry {
    metapath: Vec<String>,
    #[serde(default)]
    quantifier: Option<String>,
}

/// Why an entry yields no templates.
enum EntryError {
    /// The base lacks this type or relation, such as `type "paper"`.
    Missing(String),
    /// What is wrong with the entry, and how to correct it.
    Wrong(String),
}

/// The templates of a file that fit a base.
#[derive(Debug, PartialEq)]
pub struct LoadedTemplates {
    /// Templates that fit the base.
    pub templates: Vec<Template>,
    /// Number of entries of the file that need a type or relation which the base lacks.
    pub foreign: usize,
}

/// Reads templates from the text of a template file; `file` is the name of the file in error
/// messages.
///
/// # Errors
/// [`TemplateError`] for a malformed file, an invalid entry, or if no entry fits the base.
pub fn read(kb: &Kb, text: &str, file: &str) -> Result<LoadedTemplates, TemplateError> {
    let form = |message: String| TemplateError::Form { file: file.to_owned(), message };
    let read: File = serde_json::from_str(text).map_err(|error| form(error.to_string()))?;
    let n = read.templates.len();
    let (mut templates, mut first_missing, mut foreign) = (Vec::new(), None, 0);
    for entry in read.templates {
        match read_entry(kb, &entry) {
            Ok(read) => templates.extend(read),
            Err(Missing(missing)) => {
                foreign += 1;
                first_missing.get_or_insert((missing, entry.id));
            }
            Err(Wrong(message)) => {
                return Err(TemplateError::Entry { file: file.to_owned(), id: entry.id, message });
            }
        }
        if templates.len() > MAX_TEMPLATES {
            return Err(form(format!("more than {MAX_TEMPLATES} templates; give fewer")));
        }
    }
    match (templates.is_empty(), first_missing) {
        (true, Some((missing, id))) => {
            Err(TemplateError::NoneFits { file: file.to_owned(), n, missing, id })
        }
        (true, None) => Err(form("it contains no templates".to_owned())),
        (false, _) => Ok(LoadedTemplates { templates, foreign }),
    }
}

fn wrong<T>(message: impl Into<String>) -> Result<T, EntryError> {
    Err(Wrong(message.into()))
}

/// Returns the type of the base with this name.
fn type_of(kb: &Kb, name: &str) -> Result<TypeId, EntryError> {
    kb.type_id(name).ok_or_else(|| Missing(format!("type {name:?}")))
}

/// Reads one entry of a template file; returns one template for each choice of alternative
/// relations.
fn read_entry(kb: &Kb, entry: &Entry) -> Result<Vec<Template>, EntryError> {
    let target = type_of(kb, &entry.target_type)?;
    let slots = entry.slots.iter().map(|slot| type_of(kb, &slot.kind));
    let slots: Vec<TypeId> = slots.collect::<Result<_, _>>()?;
    if entry.branches.is_empty() || slots.is_empty() {
        return wrong("has no slots or no branches; give at least one of each");
    }
    let mut choices: Vec<Vec<Branch<Step>>> = vec![Vec::new()];
    for (index, branch) in entry.branches.iter().enumerate() {
        let negated = match branch.quantifier.as_deref() {
            None | Some("exists") => false,
            Some("not_exists") => true,
            Some(other) => {
                return wrong(format!(
                    "has quantifier {other:?}; use \"exists\" or \"not_exists\""
                ));
            }
        };
        let slot = entry.slots.iter().position(|slot| slot.branch.includes(index));
        let slot = slot.filter(|_| !negated);
        if slot.is_none() && !negated {
            return wrong(format!("has no slot that starts branch {index}; name one"));
        }
        let start = slot.map_or(target, |slot| slots[slot]);
        let paths = paths(kb, &branch.metapath)?;
        let fits = |steps: &Vec<Step>| {
            let ends = (steps.first().map(|step| step.from), steps.last().map(|step| step.to));
            ends.0 == Some(start) && (negated || ends.1 == Some(target))
        };
        if !paths.iter().all(fits) {
            return wrong(format!(
                "has branch {index} that does not lead from its slot to the answers"
            ));
        }
        let with = |before: &Vec<Branch<Step>>| -> Vec<Vec<Branch<Step>>> {
            let add = |steps: &Vec<Step>| {
                let branch = Branch { slot, steps: steps.clone() };
                before.iter().cloned().chain([branch]).collect()
            };
            paths.iter().map(add).collect()
        };
        choices = choices.iter().flat_map(with).collect();
        if choices.len() > MAX_TEMPLATES {
            return wrong(format!(
                "has more than {MAX_TEMPLATES} choices of relations; write fewer"
            ));
        }
    }
    if entry.branches.iter().all(|branch| branch.quantifier.as_deref() == Some("not_exists")) {
        return wrong("has only branches with not_exists; add one that leads to answers");
    }
    let numbered = |text: &String| {
        let slots = entry.slots.iter().enumerate();
        slots.fold(text.clone(), |text, (index, slot)| {
            text.replace(&format!("{{{}}}", slot.name), &format!("{{{index}}}"))
        })
    };
    let weight = 1.0 / choices.len() as f64;
    let template = |branches: Vec<Branch<Step>>| Template {
        id: entry.id.clone(),
        target,
        slots: slots.clone(),
        exclude_slots: entry.exclude_slot_nodes_from_answers,
        text: entry.text.as_ref().map(numbered),
        weight,
        branches,
    };
    Ok(choices.into_iter().map(template).collect())
}

/// Returns the steps of a metapath for each choice of alternative relations.
fn paths(kb: &Kb, words: &[String]) -> Result<Vec<Vec<Step>>, EntryError> {
    let Some((first, rest)) =
        words.split_first().filter(|(_, rest)| !rest.is_empty() && rest.len().is_multiple_of(3))
    else {
        let message = "has a malformed metapath; write a type, then relation, direction, type for \
                       each step";
        return wrong(message);
    };
    let mut from = type_of(kb, first)?;
    let mut paths: Vec<Vec<Step>> = vec![Vec::new()];
    for step in rest.chunks_exact(3) {
        let [relations, direction, to] = step else { continue };
        let to_type = type_of(kb, to)?;
        let direction = match direction.as_str() {
            "out" => Direction::Out,
            "in" => Direction::In,
            "any" => Direction::Any,
            other => {
                return wrong(format!("has direction {other:?}; write \"out\", \"in\" or \"any\""));
            }
        };
        let mut next = Vec::new();
        for relation in relations.split('|') {
            let missing = || Missing(format!("relation {relation:?}"));
            let relation = kb.relation_id(relation).ok_or_else(missing)?;
            let step = Step { from, relation, direction, to: to_type };
            next.extend(paths.iter().map(|path| path.iter().copied().chain([step]).collect()));
        }
        (paths, from) = (next, to_type);
    }
    Ok(paths)
}
