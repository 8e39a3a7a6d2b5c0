//! Adapts the examples in tool descriptions to a given base: replaces types, relations and fields
//! of the example base by corresponding ones. Does not depend on the implementation of the tools.

use crate::source::literal;
use agent_kb::{FieldId, Kb, Tuple};

/// Approximate maximum number of nodes sampled to choose a field.
const SAMPLED_NODES: usize = 200;

/// Names in the example base, each with the corresponding name in the given base; `None` if the
/// given base has no counterpart.
pub(super) struct BaseNames(Vec<(&'static str, Option<String>)>);

impl BaseNames {
    /// Chooses names of the base for examples: a relation from a candidate type to another type,
    /// both types, a further relation and type, and fields of the candidate type.
    pub(super) fn new(kb: &Kb) -> Self {
        let rank = |tuple: &&Tuple| {
            (
                kb.candidate_types().contains(&tuple.source),
                tuple.source != tuple.target,
                tuple.edges,
            )
        };
        let edge = kb.tuples().iter().max_by_key(rank);
        let other =
            kb.tuples().iter().filter(|tuple| edge.is_none_or(|e| e.relation != tuple.relation));
        let other = other.max_by_key(rank).or(edge);
        let is_third = |name: &&String| {
            edge.is_none_or(|e| {
                **name != kb.type_name(e.source) && **name != kb.type_name(e.target)
            })
        };
        let third = kb.types().iter().find(is_third).or(kb.types().last());
        let relation =
            |tuple: Option<&Tuple>| tuple.map(|t| kb.relation_name(t.relation).to_owned());
        let is_number = |text: &str| text.trim().parse::<f64>().is_ok();
        Self(vec![
            ("product", edge.map(|edge| kb.type_name(edge.source).to_owned())),
            ("brand", edge.map(|edge| kb.type_name(edge.target).to_owned())),
            ("category", third.cloned()),
            ("has_brand", relation(edge)),
            ("also_buy", relation(other)),
            ("description", edge.and_then(|edge| field(kb, edge, |text| !is_number(text)))),
            ("price", edge.and_then(|edge| field(kb, edge, is_number))),
        ])
    }

    /// Rewrites an example with the corresponding names in the given base; `None` if a name has no
    /// counterpart.
    pub(super) fn example(&self, example: &str) -> Option<String> {
        let mut out = String::new();
        // Examples have no escaped quotation marks, so the parts with odd positions are the quoted
        // texts.
        for (index, part) in example.split('"').enumerate() {
            let (name, rest) = part.split_once(':').map_or((part, ""), |(name, rest)| (name, rest));
            match self.0.iter().find(|pair| index % 2 == 1 && pair.0 == name) {
                Some((_, None)) => return None,
                Some((_, Some(name))) => {
                    let colon = if rest.is_empty() { "" } else { ":" };
                    out.push_str(&literal(&format!("{name}{colon}{rest}")));
                }
                None if index % 2 == 1 => out.push_str(&format!("\"{part}\"")),
                None => out.push_str(part),
            }
        }
        Some(out)
    }
}

/// Returns the field with the most bytes of suitable text in sampled nodes of the edge's source
/// type; of several such fields, the first. `None` if no field has suitable text.
fn field(kb: &Kb, edge: &Tuple, suits: impl Fn(&str) -> bool) -> Option<String> {
    let nodes = kb.nodes_of_type(edge.source);
    let mut letters = vec![0_usize; kb.field_names().len()];
    for &node in nodes.iter().step_by((nodes.len() / SAMPLED_NODES).max(1)) {
        let fields: Vec<(FieldId, usize)> = kb
            .fields(node)
            .filter(|pair| suits(pair.1))
            .map(|(field, text)| (field, text.len()))
            .collect();
        fields.iter().for_each(|&(field, n)| letters[usize::from(field.0)] += n);
    }
    let best = (0..letters.len()).rev().max_by_key(|&field| letters[field])?;
    (letters[best] > 0).then(|| kb.field_names()[best].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_take_the_names_of_the_base() {
        let names = |price: Option<&str>| {
            BaseNames(vec![
                ("brand", Some("maker\"s".to_owned())),
                ("has_brand", Some("made_by".to_owned())),
                ("price", price.map(str::to_owned)),
            ])
        };
        let example = |text: &str| names(None).example(text);
        assert_eq!(
            example(r#"walk(link(query, "brand"), ["has_brand:in", "steel"])"#).as_deref(),
            Some(r#"walk(link(query, "maker\"s"), ["made_by:in", "steel"])"#)
        );
        assert_eq!(example("brand(price)").as_deref(), Some("brand(price)"));
        assert_eq!(example(r#"with_number(nodes([0]), "price", 5, 20)"#), None);
    }
}
