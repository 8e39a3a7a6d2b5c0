//! The schema of a base, prepared for matching words of questions: words in the names of types,
//! relations and fields, samples of field values, and metapaths between types.
//!
//! Does not depend on how questions are split or read.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use crate::lexicon::is_filler;
use agent_ground::words::{is_person, is_stop_word, name_words, spelled_out};
use agent_index::IndexedBase;
use agent_infer::bundle::lexicon::{Synonyms, all_synonyms};
use agent_kb::{
    Direction, FieldId, Kb, MetapathStep, NodeId, RelationId, Tuple, TypeId, distinct,
    table::{
        Sample, sample, sampled,
        value::{TRUTHS, category, quantity},
    },
};

/// Maximum number of steps in a metapath between two types.
const MAX_STEPS: usize = 3;
/// Maximum number of unfinished metapaths that are kept after each step of the search.
const MAX_PATHS: usize = 200;
/// Minimum length in bytes of the shorter of two stems, one of which begins with the other, for
/// both to count as forms of one word.
const MIN_BEGINNING: usize = 4;
/// Maximum number of bytes by which one stem may be longer than another form of the same word.
const MAX_ENDING: usize = 3;
/// Approximate number of nodes of a type whose names are sampled.
const NAMES_LOOKED_AT: usize = 100;
/// A step is ignored if the most frequent step from the same type has more than this many times as
/// many edges.
const MUCH_RARER: u64 = 10;
/// Score of each mentioned word of a relation's name; a mentioned synonym scores 1.
const OWN_WORD: i32 = 4;
/// Maximum total score for mentioned synonyms of a relation.
const MAX_SYNONYMS: i32 = 3;
/// Score of a relation if the question mentions only a word that excludes it.
const EXCLUDED: i32 = -8;

/// Maximum number of values in the sample of a field; if there are more, the field's values are not
/// searched in questions.
const MAX_VALUES: usize = 500;

/// A value that nodes of one type have in a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldValue {
    /// The type of the nodes that have this value.
    pub kind: TypeId,
    /// The field.
    pub field: FieldId,
    /// The normalised value.
    pub key: String,
}

/// Field values by their first folded word, each with all its folded words.
type ByFirstWord = HashMap<String, Vec<(Vec<String>, FieldValue)>>;

/// The words in the name of a type, field or relation.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    /// The folded words, stop words included, without abbreviations; `ReferenceCount` has two.
    pub words: Vec<String>,
    /// The folded words as written, joined without spaces.
    pub joined: String,
    /// The stems of the words, without stop words.
    pub stems: Vec<String>,
}

impl Words {
    /// Returns the noun of the name: the word before `of`, or else the last word.
    pub(crate) fn noun(&self) -> Option<&str> {
        let of = self.words.iter().position(|word| word == "of");
        self.words[..of.unwrap_or(self.words.len())].last().map(String::as_str)
    }

    /// Whether a stem is a form of a word in the name.
    pub(crate) fn says(&self, stem: &str) -> bool {
        self.stems.iter().any(|own| is_form(own, stem))
    }

    /// Whether a stem is a form of the last word in the name, or of any word if the name lists
    /// several things (`effect or phenotype`): a `cust_type` is a type, not a customer.
    pub(crate) fn is_headed_by(&self, stem: &str) -> bool {
        let is_several = self.words.iter().any(|word| word == "or" || word == "and");
        match self.stems.last() {
            // A contributor is not a contribution.
            Some(last) if !is_several => {
                is_form(last, stem) && !matches!(stem.strip_prefix(&**last), Some("or" | "er"))
            }
            _ => self.says(stem),
        }
    }
}

/// A base with its schema.
pub(crate) struct Schema {
    /// The base.
    pub base: Arc<IndexedBase>,
    /// The words in each type's name, indexed by [`TypeId`].
    pub types: Vec<Words>,
    /// The words in each field's name, indexed by [`FieldId`].
    pub fields: Vec<Words>,
    /// The words in each relation's name, indexed by [`RelationId`].
    pub relations: Vec<Words>,
    /// For each relation, the words in its name except fillers and words in names of
    /// types: `manager` of `has_manager`, `target` of `drug_target_gene`.
    pub nouns: Vec<Vec<String>>,
    type_synonyms: Vec<Synonyms>,
    relation_synonyms: Vec<Synonyms>,
    samples: Vec<OnceLock<Vec<Sample>>>,
    values: OnceLock<ByFirstWord>,
    /// The types whose nodes stand for values of a column.
    pub value_types: Vec<TypeId>,
    value_words: OnceLock<HashSet<String>>,
    /// The steps that begin at each type, as [`links`] returns them.
    links: Vec<Vec<(MetapathStep, u64)>>,
}

/// Whether two stems are forms of one word: they are equal, or one begins with the other and is at
/// most [`MAX_ENDING`] bytes longer.
pub(crate) fn is_form(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    short == long
        || short.len() >= MIN_BEGINNING
            && long.len() <= short.len() + MAX_ENDING
            && long.starts_with(short)
}

/// Adds to steps within one type, for each of their relations, a step that follows edges in both
/// directions ([`Direction::Any`]).
pub(crate) fn with_both_ways(mut steps: Vec<MetapathStep>) -> Vec<MetapathStep> {
    let both = steps.iter().map(|step| MetapathStep { direction: Direction::Any, ..*step });
    steps.extend(distinct(both.collect()));
    steps
}

/// Returns the folded words of a text, in order.
pub(crate) fn words_of(text: &str) -> Vec<String> {
    name_words(text).map(|(_, word)| word.into_owned()).collect()
}

/// Returns the types of a base.
pub(crate) fn types_of(kb: &Kb) -> impl Iterator<Item = TypeId> + use<> {
    (0..kb.types().len()).map(|kind| TypeId(kind as u16))
}

/// Returns the steps that begin at a type, each with the number of edges that the step can follow.
pub(crate) fn links(kb: &Kb, from: TypeId) -> Vec<(MetapathStep, u64)> {
    let mut steps = Vec::new();
    for &Tuple { source, relation, target, edges } in kb.tuples() {
        for (begin, direction, to) in
            [(source, Direction::Out, target), (target, Direction::In, source)]
        {
            if begin == from {
                steps.push((MetapathStep { relation, direction, to }, edges));
            }
        }
    }
    steps
}

/// Drops the last word of a type's name if it only says that the type is a table: `lot_hdr` is a
/// lot.
fn without_table(mut name: Words) -> Words {
    const TABLES: [&str; 6] = ["header", "master", "table", "tbl", "record", "data"];
    if name.stems.len() > 1 && name.words.pop_if(|last| TABLES.contains(&last.as_str())).is_some() {
        name.stems.pop();
    }
    name
}

impl Schema {
    /// Reads the schema of a base; field values are sampled when they are first needed.
    pub(crate) fn new(base: Arc<IndexedBase>) -> Self {
        let in_words = |name: &String| {
            let words = words_of(&spelled_out(name));
            let stems = words.iter().filter(|word| !is_stop_word(word));
            let stems = stems.map(|word| base.stems.stem(word).into_owned()).collect();
            Words { joined: words_of(name).concat(), words, stems }
        };
        let kb = &base.kb;
        let types: Vec<Words> = kb.types().iter().map(in_words).map(without_table).collect();
        let relations: Vec<Words> = kb.relations().iter().map(in_words).collect();
        let says = |word: &String| {
            let is_type = types.iter().any(|kind| kind.words.contains(word));
            !is_type && !is_filler(word)
        };
        let noun = |own: &Words| own.words.iter().filter(|word| says(word)).cloned().collect();
        let [type_synonyms, relation_synonyms] = all_synonyms(&base);
        Self {
            nouns: relations.iter().map(noun).collect(),
            types,
            fields: kb.field_names().iter().map(in_words).collect(),
            relations,
            type_synonyms,
            relation_synonyms,
            samples: kb.types().iter().map(|_| OnceLock::new()).collect(),
            values: OnceLock::new(),
            value_types: kb.value_types(),
            value_words: OnceLock::new(),
            links: types_of(kb).map(|kind| links(kb, kind)).collect(),
            base,
        }
    }

    /// Returns the words in the name of a field.
    pub(crate) fn field(&self, field: FieldId) -> &Words {
        &self.fields[usize::from(field.0)]
    }

    /// Returns the words in the name of a relation.
    pub(crate) fn relation(&self, relation: RelationId) -> &Words {
        &self.relations[usize::from(relation.0)]
    }

    /// Whether a name contains the stem of one of `words`.
    pub(crate) fn is_called(&self, name: &Words, words: &[&str]) -> bool {
        words.iter().any(|word| name.stems.iter().any(|own| *own == self.base.stems.stem(word)))
    }

    /// Returns the nodes whose whole name is `name`, ignoring case.
    pub(crate) fn nodes_named(&self, name: &str) -> Vec<NodeId> {
        let mentions = self.base.entities.exact_mentions(&format!("\"{name}\""));
        mentions.into_iter().flat_map(|mention| mention.nodes).collect()
    }

    /// Whether more than half of a sample of a type's node names are symbols without small letters,
    /// such as names of genes.
    pub(crate) fn has_symbols(&self, kind: TypeId) -> bool {
        let kb = &self.base.kb;
        let is_symbol = |node: &NodeId| !kb.name(*node).chars().any(char::is_lowercase);
        let (symbols, others): (Vec<NodeId>, Vec<NodeId>) =
            sampled(kb, kind, NAMES_LOOKED_AT).partition(is_symbol);
        symbols.len() > others.len()
    }

    /// Returns a sample of the values of each field of a type; computed at the first call.
    pub(crate) fn samples(&self, kind: TypeId) -> &[Sample] {
        let at = self.samples.get(usize::from(kind.0));
        at.map_or(&[], |known| known.get_or_init(|| sample(&self.base.kb, kind)))
    }

    /// Returns the sample of values of one field of a type; `None` if no sampled node has the
    /// field.
    pub(crate) fn sample(&self, kind: TypeId, field: FieldId) -> Option<&Sample> {
        self.samples(kind).iter().find(|sample| sample.field == field)
    }

    /// Returns the field values that questions may mention, by their first word; collected from
    /// samples at the first call.
    pub(crate) fn values(&self) -> &ByFirstWord {
        self.values.get_or_init(|| {
            let mut values = ByFirstWord::new();
            for kind in types_of(&self.base.kb) {
                for sample in self.samples(kind) {
                    // A number in a question is not taken as a value of a field of 1 and 0.
                    let is_number = |text: &String| quantity(text).is_some();
                    if sample.kind.is_number()
                        || sample.values.len() > MAX_VALUES
                        || sample.values.iter().all(is_number)
                    {
                        continue;
                    }
                    for value in &sample.values {
                        let words = words_of(value);
                        let Some(first) = words.first().cloned() else { continue };
                        let field = FieldValue { kind, field: sample.field, key: category(value) };
                        values.entry(first).or_default().push((words, field));
                    }
                }
            }
            values
        })
    }

    /// Returns the words of all values: names of nodes of [`value_types`](Self::value_types), and
    /// [`values`](Self::values); collected at the first call.
    pub(crate) fn value_words(&self) -> &HashSet<String> {
        self.value_words.get_or_init(|| {
            let kb = &self.base.kb;
            let nodes = self.value_types.iter().flat_map(|&kind| kb.nodes_of_type(kind).iter());
            let names = nodes.flat_map(|&node| words_of(kb.name(node)));
            let fields = self.values().values().flatten().flat_map(|(words, _)| words.clone());
            names.chain(fields).collect()
        })
    }

    /// Returns the normalised values that mean yes and no in a field of a type; `None` if the field
    /// has other values, or none.
    pub(crate) fn truths(&self, kind: TypeId, field: FieldId) -> Option<[&'static str; 2]> {
        let values = &self.sample(kind, field)?.values;
        let has =
            |pair: &[&str; 2]| values.iter().all(|value| pair.contains(&category(value).as_str()));
        TRUTHS.into_iter().find(|pair| (1..=pair.len()).contains(&values.len()) && has(pair))
    }

    /// Returns the shortest metapaths from one type to another; all have the same number of steps,
    /// at most [`MAX_STEPS`]. Order: highest score by [`said`](Self::said) first, then most edges
    /// in the rarest step, then ascending by the steps themselves. A metapath visits no type twice,
    /// except that it may be a single step within one type.
    pub(crate) fn paths(
        &self,
        from: TypeId,
        to: TypeId,
        said: &BTreeSet<String>,
    ) -> Vec<Vec<MetapathStep>> {
        let mut found: Vec<(Vec<MetapathStep>, u64)> = Vec::new();
        let mut open: Vec<(Vec<MetapathStep>, u64)> = vec![(Vec::new(), u64::MAX)];
        for _ in 0..MAX_STEPS {
            let mut next = Vec::new();
            for (steps, fewest) in open {
                let at = steps.last().map_or(from, |step| step.to);
                for (step, edges) in self.edges(at) {
                    let returns = step.to == from && !steps.is_empty();
                    if returns || steps.iter().any(|other| other.to == step.to) {
                        continue;
                    }
                    let longer = ([steps.as_slice(), &[step]].concat(), fewest.min(edges));
                    if step.to == to {
                        found.push(longer);
                    } else if step.to != from && next.len() < MAX_PATHS {
                        next.push(longer);
                    }
                }
            }
            if !found.is_empty() {
                break;
            }
            open = next;
        }
        found.sort_by_cached_key(|(steps, fewest)| {
            (Reverse(self.said(steps, said)), Reverse(*fewest), steps.clone())
        });
        found.into_iter().map(|(steps, _)| steps).collect()
    }

    /// Returns the metapaths of [`MAX_STEPS`] outgoing steps from one type to another that visit no
    /// type twice.
    pub(crate) fn chains(&self, from: TypeId, to: TypeId) -> Vec<Vec<MetapathStep>> {
        let mut chains: Vec<Vec<MetapathStep>> = vec![Vec::new()];
        for _ in 0..MAX_STEPS {
            let mut next = Vec::new();
            for steps in chains {
                let end = steps.last().map_or(from, |step| step.to);
                let is_new = |step: &MetapathStep| {
                    step.direction == Direction::Out
                        && step.to != from
                        && end != to
                        && !steps.iter().any(|other| other.to == step.to)
                };
                let own = self.edges(end).map(|(step, _)| step).filter(is_new);
                next.extend(own.map(|step| [steps.as_slice(), &[step]].concat()));
            }
            next.truncate(MAX_PATHS);
            chains = next;
        }
        chains.retain(|steps| steps.last().is_some_and(|step| step.to == to));
        chains
    }

    /// Returns the steps that begin at a type, each with its number of edges.
    fn edges(&self, from: TypeId) -> impl Iterator<Item = (MetapathStep, u64)> {
        self.links.get(usize::from(from.0)).into_iter().flatten().rev().copied()
    }

    /// Returns the step of a relation from a type: among its outgoing steps, or else its incoming
    /// ones, the step with the most edges. `None` if the relation has no step from the type.
    pub(crate) fn step_of(&self, from: TypeId, relation: RelationId) -> Option<MetapathStep> {
        let own = self.edges(from).filter(|(step, _)| step.relation == relation);
        own.max_by_key(|(step, edges)| (step.direction == Direction::Out, *edges))
            .map(|(step, _)| step)
    }

    /// Returns the type to which the step with the most edges leads, among the steps from type `to`
    /// to other types; ties by the highest type id. `None` if there is no such step.
    pub(crate) fn most_linked(&self, to: TypeId) -> Option<TypeId> {
        let others = self.edges(to).filter(|(step, _)| step.to != to);
        others.max_by_key(|(step, edges)| (*edges, step.to)).map(|(step, _)| step.to)
    }

    /// Returns the steps from a type to other types, most edges first. Steps with less than a tenth
    /// of the edges of the first step are left out.
    pub(crate) fn frequent_steps(&self, from: TypeId) -> Vec<MetapathStep> {
        let mut steps: Vec<(MetapathStep, u64)> =
            self.edges(from).filter(|(step, _)| step.to != from).collect();
        steps.sort_by_key(|(step, edges)| (Reverse(*edges), *step));
        let most = steps.first().map_or(0, |step| step.1);
        steps.retain(|step| step.1 * MUCH_RARER >= most);
        steps.into_iter().map(|step| step.0).collect()
    }

    /// Returns the steps that begin at a type, ascending, without duplicates.
    pub(crate) fn steps(&self, from: TypeId) -> Vec<MetapathStep> {
        distinct(self.edges(from).map(|(step, _)| step).collect())
    }

    /// Returns the [`paths`](Self::paths) with the highest score by [`said`](Self::said), in their
    /// order.
    pub(crate) fn best_paths(
        &self,
        from: TypeId,
        to: TypeId,
        said: &BTreeSet<String>,
    ) -> Vec<Vec<MetapathStep>> {
        let mut paths = self.paths(from, to, said);
        let best = paths.first().map(|steps| self.said(steps, said));
        paths.retain(|steps| Some(self.said(steps, said)) == best);
        paths
    }

    /// Scores how strongly a question with the stems `said` mentions the relations of a metapath:
    /// the sum over the steps, higher is stronger. Each mentioned word in a relation's name (except
    /// words in names of types) and each mentioned synonym adds to the score; a relation that is
    /// mentioned only by a word that excludes it has a negative score.
    pub(crate) fn said(&self, steps: &[MetapathStep], said: &BTreeSet<String>) -> i32 {
        steps.iter().map(|step| self.said_of(step.relation, said)).sum()
    }

    fn said_of(&self, relation: RelationId, said: &BTreeSet<String>) -> i32 {
        let is_of_type = |stem: &String| self.types.iter().any(|kind| kind.stems.contains(stem));
        let own = self.relation(relation).stems.iter().filter(|stem| !is_of_type(stem));
        let n_own = own.filter(|stem| said.iter().any(|other| is_form(stem, other))).count();
        let synonyms = &self.relation_synonyms[usize::from(relation.0)];
        let n = |of: &[String]| of.iter().filter(|stem| said.contains(*stem)).count();
        let means = (n(&synonyms.means) as i32).min(MAX_SYNONYMS);
        if n_own == 0 && means == 0 && n(&synonyms.excludes) > 0 {
            return EXCLUDED;
        }
        OWN_WORD * n_own as i32 + means
    }

    /// Returns the only type that a stem is a synonym of; `None` if there is none or more than one.
    pub(crate) fn type_meant(&self, stem: &String) -> Option<TypeId> {
        let mut own = (0u16..).zip(&self.type_synonyms).filter(|(_, own)| own.means.contains(stem));
        match (own.next(), own.next()) {
            (Some((kind, _)), None) => Some(TypeId(kind)),
            _ => None,
        }
    }

    /// Whether the nodes of a type are people, judged by its name.
    pub(crate) fn are_people(&self, kind: TypeId) -> bool {
        let name = self.types.get(usize::from(kind.0));
        name.is_some_and(|own| own.words.iter().any(|word| is_person(word)))
    }

    /// Whether two words name a type, by the first word of its name and a synonym of the type:
    /// `order lines` for `order_details`.
    pub(crate) fn is_called_by(&self, kind: TypeId, first: &str, second: &str) -> bool {
        let at = usize::from(kind.0);
        let (Some(name), Some(synonyms)) = (self.types.get(at), self.type_synonyms.get(at)) else {
            return false;
        };
        name.words.len() > 1
            && name.words.first().is_some_and(|own| own == first)
            && synonyms.means.iter().any(|stem| stem == second)
    }

    /// Returns the steps from a type to itself whose relations the question with the stems `said`
    /// mentions by a word in their names; for each relation, also a step in both directions.
    pub(crate) fn linked_within(&self, kind: TypeId, said: &BTreeSet<String>) -> Vec<MetapathStep> {
        let mut steps = self.steps(kind);
        steps.retain(|step| step.to == kind && self.said_of(step.relation, said) >= OWN_WORD);
        with_both_ways(steps)
    }

    /// Whether a stem is a form of a word in the relation's name, or a synonym of the relation.
    pub(crate) fn is_said_by(&self, relation: RelationId, stem: &str) -> bool {
        let means = &self.relation_synonyms[usize::from(relation.0)].means;
        self.relation(relation).says(stem) || means.iter().any(|own| own == stem)
    }

    /// Whether a stem is a form of a word in any relation's name.
    pub(crate) fn is_of_relation(&self, stem: &str) -> bool {
        self.relations.iter().any(|own| own.says(stem))
    }

    /// Whether a stem is a form of a word in the name of any type, field or relation.
    pub(crate) fn says(&self, stem: &str) -> bool {
        self.names().any(|own| own.says(stem))
    }

    /// Returns the names of all types, fields and relations.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Words> {
        self.types.iter().chain(&self.fields).chain(&self.relations)
    }
}
