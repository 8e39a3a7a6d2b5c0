//! Facets: the values that the nodes of a selection have, and the number of nodes with each value.
//! Every value comes with the condition that narrows the selection to the nodes with that value.
//!
//! The number next to a value is the number of nodes that this condition would leave. Facets read
//! the same values as conditions ([`super`]), so `site` counts both a field and neighbours of that
//! name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::{ANY, Condition, FilterError, Operand, Operator, Own, SEPARATOR, Source, folded};
use crate::{FieldId, Kb, NodeId, NodeSet, RelationId, TypeId, table::value::category};

/// Maximum number of facets in one call.
pub const MAX_FACETS: usize = 30;
/// Maximum number of distinct values of a facet that can be counted.
pub const MAX_FACET_VALUES: usize = 500;
/// Maximum length in bytes of a value in a field that is proposed as a facet.
const MAX_BYTES: usize = 80;
/// Number of nodes that are read to decide whether a field is proposed as a facet; they are evenly
/// spaced.
const SAMPLE: usize = 2_000;
/// Minimum mean number of nodes per value of a proposed facet.
const MIN_REPEATED: usize = 2;

/// The values of one attribute in a selection of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facet {
    /// The left side of the conditions of this facet: a field, a relation, or the type of
    /// neighbours.
    pub name: String,
    /// Number of nodes of the selection with a value.
    pub nodes: usize,
    /// Number of distinct values, not counting differences in case.
    pub n_values: usize,
    /// The most frequent values: by descending number of nodes, ties by ascending value.
    pub values: Vec<FacetValue>,
}

/// One value of a facet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FacetValue {
    /// The value, in the spelling that most nodes have.
    pub value: String,
    /// The condition, as text, that keeps the nodes with this value.
    pub condition: String,
    /// Number of nodes of the selection with this value.
    pub nodes: usize,
}

/// Counts the values that `nodes` have, and returns for each facet at most `k` values, `k` being at
/// least 1. `names` are left sides of conditions. If there are none, the facets are proposed:
/// attributes with values that several nodes share, by descending number of nodes, ties by name.
/// O(nodes * values of a node), for each facet.
///
/// # Errors
/// [`FilterError`] if a name is unknown or has more than [`MAX_FACET_VALUES`] values, or if there
/// are too many names.
pub fn facets(
    kb: &Kb,
    nodes: &NodeSet,
    names: &[String],
    k: usize,
) -> Result<Vec<Facet>, FilterError> {
    if names.len() > MAX_FACETS {
        return Err(FilterError::TooManyFacets(names.len()));
    }
    if !names.is_empty() {
        return names
            .iter()
            .map(|name| match Counts::of(kb, nodes, name)? {
                Some(counts) => Ok(counts.facet(name, k)),
                None => Err(FilterError::TooManyValues(name.clone())),
            })
            .collect();
    }
    let mut facets = Vec::new();
    for name in proposed(kb, nodes) {
        if let Some(counts) = Counts::of(kb, nodes, &name)? {
            facets.push(counts.facet(&name, k));
        }
    }
    facets.retain(|facet| facet.n_values > 1 && facet.nodes >= MIN_REPEATED * facet.n_values);
    facets.sort_by(|a, b| b.nodes.cmp(&a.nodes).then_with(|| a.name.cmp(&b.name)));
    facets.truncate(MAX_FACETS);
    Ok(facets)
}

/// Returns names of attributes with values that several nodes are likely to share: fields, judged
/// by an evenly spaced sample of the nodes, and relations or types, judged by the number of nodes
/// to which they lead.
fn proposed(kb: &Kb, nodes: &NodeSet) -> BTreeSet<String> {
    let types: BTreeSet<TypeId> = nodes.as_slice().iter().map(|&node| kb.node_type(node)).collect();
    let mut names: BTreeSet<String> =
        fields(kb, nodes).iter().map(|field| folded(kb.field_name(*field))).collect();
    if types.len() > 1 {
        names.insert("type".to_owned());
    }
    let mut to: BTreeMap<TypeId, BTreeSet<RelationId>> = BTreeMap::new();
    for tuple in kb.tuples() {
        for (own, end) in [(tuple.source, tuple.target), (tuple.target, tuple.source)] {
            if types.contains(&own) && kb.nodes_of_type(end).len() <= MAX_FACET_VALUES {
                to.entry(end).or_default().insert(tuple.relation);
            }
        }
    }
    for (end, relations) in to {
        // If several relations lead to one type, each is a facet, because they have different
        // meanings.
        if relations.len() == 1 {
            names.insert(folded(kb.type_name(end)));
        } else {
            names.extend(relations.iter().map(|&relation| folded(kb.relation_name(relation))));
        }
    }
    names
}

/// Returns the fields with short values that repeat in an evenly spaced sample of the nodes.
fn fields(kb: &Kb, nodes: &NodeSet) -> Vec<FieldId> {
    let step = nodes.len().div_ceil(SAMPLE).max(1);
    let mut seen: BTreeMap<FieldId, Option<(usize, BTreeSet<&str>)>> = BTreeMap::new();
    for &node in nodes.as_slice().iter().step_by(step) {
        for (field, text) in kb.fields(node) {
            let seen = seen.entry(field).or_insert_with(|| Some(Default::default()));
            let Some((n, values)) = seen else { continue };
            *n += 1;
            values.extend(text.split(SEPARATOR));
            let is_long = text.split(SEPARATOR).any(|value| value.len() > MAX_BYTES);
            if is_long || values.len() > MAX_FACET_VALUES {
                *seen = None;
            }
        }
    }
    let repeats = |(field, seen): (FieldId, Option<(usize, BTreeSet<&str>)>)| {
        let (n, values) = seen?;
        (n >= MIN_REPEATED * values.len()).then_some(field)
    };
    seen.into_iter().filter_map(repeats).collect()
}

/// The texts of one attribute, and the nodes that have each text.
#[derive(Default)]
struct Counts {
    texts: Vec<String>,
    /// The words of each text, as conditions compare them.
    folded: Vec<String>,
    by_text: HashMap<String, usize>,
    /// Whether each text is a value. The ids of neighbours are not values of their own, but other
    /// spellings of a value.
    is_value: Vec<bool>,
    /// Pairs (node, position of one of its texts in `texts`), nodes ascending.
    pairs: Vec<(NodeId, usize)>,
}

impl Counts {
    /// Counts the texts of the attribute `name` on `nodes`; `None` if there are more than
    /// [`MAX_FACET_VALUES`] values.
    fn of(kb: &Kb, nodes: &NodeSet, name: &str) -> Result<Option<Self>, FilterError> {
        let source = Source::find(kb, name)?;
        let mut counts = Self::default();
        let mut n_values = 0;
        for &node in nodes.as_slice() {
            for own in &source.own {
                n_values += counts.add(kb, node, (*own, node), true);
            }
            for &(relation, direction) in &source.steps {
                for &end in kb.neighbors(node, relation, direction).iter() {
                    for own in &source.ends {
                        let is_other = *own == Own::Id && source.ends.len() > 1;
                        n_values += counts.add(kb, node, (*own, end), !is_other);
                    }
                }
            }
            if n_values > MAX_FACET_VALUES {
                return Ok(None);
            }
        }
        Ok(Some(counts))
    }

    /// Adds texts to `node`: those of the attribute `own` of the node `end`, which is `node` itself
    /// or a neighbour. Returns the number of new values.
    fn add(&mut self, kb: &Kb, node: NodeId, (own, end): (Own, NodeId), is_value: bool) -> usize {
        let mut n_new = 0;
        own.any(kb, end, |text| {
            // The values of a list are its items.
            let is_list = matches!(own, Own::Field(_)) && text.contains(SEPARATOR);
            let is_value = is_value && !is_list && text != ANY;
            let at = self.index_of(text);
            if let Some(known) = self.is_value.get_mut(at) {
                n_new += usize::from(is_value && !*known);
                *known |= is_value;
            }
            self.pairs.push((node, at));
            // `false` continues with the next text.
            false
        });
        n_new
    }

    /// Returns the position of a text in `texts`; appends the text if it is new.
    fn index_of(&mut self, text: &str) -> usize {
        if let Some(&at) = self.by_text.get(text) {
            return at;
        }
        let at = self.texts.len();
        self.by_text.insert(text.to_owned(), at);
        self.texts.push(text.to_owned());
        self.folded.push(category(text));
        self.is_value.push(false);
        at
    }

    /// Counts the nodes that have at least one text marked in `chosen`, which is parallel to
    /// `texts`.
    fn n_nodes(&self, chosen: &[bool]) -> usize {
        let mut last = None;
        let is_new = |&&(node, at): &&(NodeId, usize)| {
            let is_new = chosen.get(at) == Some(&true) && last != Some(node);
            if is_new {
                last = Some(node);
            }
            is_new
        };
        self.pairs.iter().filter(is_new).count()
    }

    fn facet(&self, name: &str, k: usize) -> Facet {
        let mut n_of_text = vec![0_usize; self.texts.len()];
        for &(_, at) in &self.pairs {
            if let Some(n) = n_of_text.get_mut(at) {
                *n += 1;
            }
        }
        // For each value: the number of nodes over all spellings, the number of nodes with the
        // commonest spelling, and this spelling.
        let mut spellings: BTreeMap<&str, (usize, usize, &str)> = BTreeMap::new();
        let texts = self.texts.iter().zip(&self.folded).zip(&n_of_text).zip(&self.is_value);
        for (((text, folded), &n), _) in texts.filter(|(_, is_value)| **is_value) {
            let key = if folded.is_empty() { text } else { folded };
            let (sum, most, shown) = spellings.entry(key).or_insert((0, 0, text));
            *sum += n;
            if n > *most || (n == *most && text.as_str() < *shown) {
                (*most, *shown) = (n, text);
            }
        }
        let mut shown: Vec<(usize, &str)> =
            spellings.values().map(|&(sum, _, text)| (sum, text)).collect();
        shown.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let values = shown.iter().filter_map(|&(_, text)| self.value(name, text)).take(k);
        let mut values: Vec<FacetValue> = values.collect();
        values.sort_by(|a, b| b.nodes.cmp(&a.nodes).then_with(|| a.value.cmp(&b.value)));
        let nodes = self.n_nodes(&self.is_value);
        Facet { name: name.to_owned(), nodes, n_values: spellings.len(), values }
    }

    /// Returns a value with its condition; `None` if no condition can be written for the value.
    fn value(&self, name: &str, text: &str) -> Option<FacetValue> {
        let condition = Condition::new(name, Operator::Is, vec![text.to_owned()]).to_string();
        let read: Condition = condition.parse().ok()?;
        let operands: Vec<Operand<'_>> =
            read.values.iter().map(|text| Operand::new(text)).collect();
        let holds = |(text, folded): (&String, &String)| {
            operands.iter().any(|own| own.is(own.order(text), text, || *folded == own.folded))
        };
        let chosen: Vec<bool> = self.texts.iter().zip(&self.folded).map(holds).collect();
        let nodes = self.n_nodes(&chosen);
        (nodes > 0).then(|| FacetValue { value: text.to_owned(), condition, nodes })
    }
}
