//! What a template of questions is over a base, and how templates are read from a file.
//!
//! The form of a file is JSON:
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
//! A metapath is a type, then relation, direction (`out`, `in` or `any`) and type for each step; of
//! relations written `a|b`, either is meant. A slot's `branch` is the branch that it starts, or
//! several, as in `"0+1"`. A branch with `"quantifier": "not_exists"` starts at the answers, none of
//! which may have an end of it. Other keys are left alone; `text` may be missing.
//!
//! Must not know: how slots are filled, how questions are worded.

use serde::Deserialize;

use agent_kb::{
    Direction, Kb, NodeId, TypeId,
    metapath::{self, Branch, Step, in_words},
};

/// The templates of the STaRK benchmark.
pub const BENCHMARK: &str = include_str!("data/benchmark.json");
/// Templates of a file at most, with each choice of relations counted.
pub(super) const MAX_TEMPLATES: usize = 1_000;
/// Edges that one branch follows at most; what reaches further grounds no question.
pub(super) const MAX_EDGES: usize = 50_000;

/// A template over one base.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Its id, the same for the choices of relations of one entry.
    pub id: String,
    /// Type of the answers.
    pub target: TypeId,
    /// Types of the slots; none for a question about texts alone.
    pub slots: Vec<TypeId>,
    /// Where they lead.
    pub branches: Vec<Branch<Step>>,
    /// Whether slot nodes are no answers.
    pub exclude_slots: bool,
    /// A wording of its own, with the names of the slots in braces as `{0}`, `{1}`.
    pub text: Option<String>,
    /// How often it is asked, relative to others.
    pub weight: f64,
}

impl Template {
    /// The answers of filled slots, ascending; none if a branch would follow more than 50,000 edges.
    pub fn answers(&self, kb: &Kb, slots: &[NodeId]) -> Option<Vec<NodeId>> {
        let mut nodes = metapath::execute(kb, &self.branches, slots, MAX_EDGES)?;
        if self.exclude_slots {
            nodes.retain(|node| !slots.contains(node));
        }
        Some(nodes)
    }

    /// Its branches in words, joined by `&`.
    pub fn in_words(&self, kb: &Kb) -> String {
        let branch = |branch: &Branch<Step>| {
            let not = if branch.slot.is_none() { "NOT " } else { "" };
            format!("{not}{}", in_words(kb, &branch.steps))
        };
        self.branches.iter().map(branch).collect::<Vec<_>>().join(" & ")
    }
}

/// Why a file gave no templates.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum TemplateError {
    /// The file has not the form.
    #[error("{file}: {message}")]
    Form {
        /// The file.
        file: String,
        /// What is wrong, with its line.
        message: String,
    },
    /// An entry makes no sense.
    #[error("{file}: template {id:?} {message}")]
    Entry {
        /// The file.
        file: String,
        /// Its id.
        id: String,
        /// What is wrong, and how to mend it.
        message: String,
    },
    /// No entry is about this base.
    #[error(
        "{file}: none of {n} templates is about this base; it has no {missing}, which template {id:?} \
         needs: give a file of templates with its own types and relations"
    )]
    NoneFits {
        /// The file.
        file: String,
        /// Entries.
        n: usize,
        /// What the base lacks.
        missing: String,
        /// The first entry that needs it.
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
    branches: Vec<Way>,
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
    branch: Starts,
}

/// The branches that a slot starts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Starts {
    One(usize),
    Several(String),
}

impl Starts {
    fn includes(&self, branch: usize) -> bool {
        match self {
            Starts::One(only) => *only == branch,
            Starts::Several(text) => {
                text.split('+').any(|one| one.trim().parse() == Ok::<usize, _>(branch))
            }
        }
    }
}

#[derive(Deserialize)]
struct Way {
    metapath: Vec<String>,
    #[serde(default)]
    quantifier: Option<String>,
}

/// What came of one entry.
enum Read {
    Templates(Vec<Template>),
    /// The base lacks a type or relation.
    Missing(String),
}

/// Templates of a file that are about a base, and how many are not.
#[derive(Debug, PartialEq)]
pub struct FromFile {
    /// Those of the base.
    pub templates: Vec<Template>,
    /// Entries that name a type or relation the base lacks.
    pub foreign: usize,
}

/// The templates of a file; `file` is its name in messages.
///
/// # Errors
/// [`TemplateError`].
pub fn read(kb: &Kb, text: &str, file: &str) -> Result<FromFile, TemplateError> {
    let form = |message: String| TemplateError::Form { file: file.to_owned(), message };
    let read: File = serde_json::from_str(text).map_err(|error| form(error.to_string()))?;
    let n = read.templates.len();
    let (mut templates, mut first_missing, mut foreign) = (Vec::new(), None, 0);
    for entry in read.templates {
        let id = entry.id.clone();
        let wrong =
            |message| TemplateError::Entry { file: file.to_owned(), id: id.clone(), message };
        match of_entry(kb, &entry).map_err(wrong)? {
            Read::Templates(own) => templates.extend(own),
            Read::Missing(what) => {
                foreign += 1;
                first_missing.get_or_insert((what, entry.id));
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
        (true, None) => Err(form("it holds no templates".to_owned())),
        (false, _) => Ok(FromFile { templates, foreign }),
    }
}

/// The templates of one entry: one for each choice of relations.
fn of_entry(kb: &Kb, entry: &Entry) -> Result<Read, String> {
    let Some(target) = kb.type_id(&entry.target_type) else {
        return Ok(Read::Missing(format!("type {:?}", entry.target_type)));
    };
    let mut slots = Vec::new();
    for slot in &entry.slots {
        match kb.type_id(&slot.kind) {
            Some(kind) => slots.push(kind),
            None => return Ok(Read::Missing(format!("type {:?}", slot.kind))),
        }
    }
    if entry.branches.is_empty() || slots.is_empty() {
        return Err("has no slots or no branches; give at least one of each".to_owned());
    }
    let mut choices: Vec<Vec<Branch<Step>>> = vec![Vec::new()];
    for (at, way) in entry.branches.iter().enumerate() {
        let negated = match way.quantifier.as_deref() {
            None | Some("exists") => false,
            Some("not_exists") => true,
            Some(other) => {
                return Err(format!("has quantifier {other:?}; \"not_exists\" is the only one"));
            }
        };
        let slot = entry.slots.iter().position(|slot| slot.branch.includes(at));
        let slot = slot.filter(|_| !negated);
        let start = match (negated, slot) {
            (true, _) => target,
            (false, Some(slot)) => slots[slot],
            (false, None) => return Err(format!("has no slot that starts branch {at}; name one")),
        };
        let paths = match paths(kb, &way.metapath)? {
            Ok(paths) => paths,
            Err(missing) => return Ok(Read::Missing(missing)),
        };
        let fits = |steps: &Vec<Step>| {
            let ends = (steps.first().map(|step| step.from), steps.last().map(|step| step.to));
            ends.0 == Some(start) && (negated || ends.1 == Some(target))
        };
        if !paths.iter().all(fits) {
            return Err(format!("has branch {at} that does not lead from its slot to the answers"));
        }
        let with = |before: &Vec<Branch<Step>>| -> Vec<Vec<Branch<Step>>> {
            let add = |steps: &Vec<Step>| {
                let mut branches = before.clone();
                branches.push(Branch { slot, steps: steps.clone() });
                branches
            };
            paths.iter().map(add).collect()
        };
        choices = choices.iter().flat_map(with).collect();
        if choices.len() > MAX_TEMPLATES {
            return Err(format!("has more than {MAX_TEMPLATES} choices of relations; write fewer"));
        }
    }
    if entry.branches.iter().all(|way| way.quantifier.as_deref() == Some("not_exists")) {
        return Err("has only branches that must not exist; give one that leads to answers".into());
    }
    let numbered = |text: &String| {
        let slots = entry.slots.iter().enumerate();
        slots.fold(text.clone(), |text, (at, slot)| {
            text.replace(&format!("{{{}}}", slot.name), &format!("{{{at}}}"))
        })
    };
    let template = |branches: Vec<Branch<Step>>| Template {
        id: entry.id.clone(),
        target,
        slots: slots.clone(),
        exclude_slots: entry.exclude_slot_nodes_from_answers,
        text: entry.text.as_ref().map(numbered),
        weight: 1.0 / choices_of(entry),
        branches,
    };
    Ok(Read::Templates(choices.into_iter().map(template).collect()))
}

/// The number of choices of relations of an entry.
fn choices_of(entry: &Entry) -> f64 {
    let relations = entry.branches.iter().flat_map(|way| way.metapath.iter().skip(1).step_by(3));
    relations.map(|relation| relation.split('|').count() as f64).product()
}

/// The steps of a metapath for each choice of relations, or what the base lacks.
fn paths(kb: &Kb, words: &[String]) -> Result<Result<Vec<Vec<Step>>, String>, String> {
    let Some((first, rest)) =
        words.split_first().filter(|(_, rest)| !rest.is_empty() && rest.len().is_multiple_of(3))
    else {
        return Err("has a metapath that is not a type and then relation, direction and type for \
                    each step"
            .to_owned());
    };
    let Some(mut from) = kb.type_id(first) else { return Ok(Err(format!("type {first:?}"))) };
    let mut paths: Vec<Vec<Step>> = vec![Vec::new()];
    for step in rest.chunks_exact(3) {
        let [relations, direction, to] = step else { continue };
        let Some(to_type) = kb.type_id(to) else { return Ok(Err(format!("type {to:?}"))) };
        let direction = match direction.as_str() {
            "out" => Direction::Out,
            "in" => Direction::In,
            "any" => Direction::Any,
            other => {
                return Err(format!("has direction {other:?}; write \"out\", \"in\" or \"any\""));
            }
        };
        let mut next = Vec::new();
        for relation in relations.split('|') {
            let Some(relation) = kb.relation_id(relation) else {
                return Ok(Err(format!("relation {relation:?}")));
            };
            let step = Step { from, relation, direction, to: to_type };
            next.extend(paths.iter().map(|path| path.iter().copied().chain([step]).collect()));
        }
        (paths, from) = (next, to_type);
    }
    Ok(Ok(paths))
}
