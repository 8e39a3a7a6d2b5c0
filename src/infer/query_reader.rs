//! A language model reads the query: which category it belongs to, which entities it names, what is
//! wanted, under which constraints. What it reads is mixed into what the bundle does by itself, by
//! the probability that the model gives its own reading, and replaces nothing of it.
//!
//! Must not know: programs, how rankings are joined, which answers are right.

use serde_json::{Value as Json, json};

use crate::{
    index::{IndexedBase, TextPart},
    infer::{Asks, Miss, ROUTER_ROLE, shown::Linked},
    kb::{Combine, Direction, NodeId, RelationId, Scores, TypeId},
    llm::LlmError,
    retrieve::{Ranking, RetrieveError},
    tools::{Assistant, AssistantError},
};

/// The prompt.
const PROMPT: &str = "router/read";
/// A query is read by one request, and its repair.
pub const READ_ASKS: Asks =
    Asks { role: ROUTER_ROLE, prompt: PROMPT, later: None, least: 1, most: 2 };
/// Entities of a reading that count.
const MAX_ENTITIES: usize = 4;
/// Constraints of a reading that count, and characters of each.
const MAX_CONSTRAINTS: usize = 8;
const MAX_CONSTRAINT_CHARS: usize = 200;
/// Neighbours of a node by one relation that are followed.
const MAX_NEIGHBORS: usize = 2_000;
/// Nodes in the middle of two steps that are followed.
const MAX_MIDDLES: usize = 500;
/// Nodes that the constraints put forward.
const FOUND: usize = 200;
/// Nodes of the ranking that a reading gives.
const RANKED: usize = 200;
/// What two steps count beside one.
const TWO_STEPS: f32 = 0.5;

/// A category, for the model.
pub(super) struct Offered<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
}

/// How a model reads a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReadQuery {
    /// The category, and how sure the model is of its reading; none if it names none.
    pub(super) category: Option<(usize, f32)>,
    /// How sure it is of its reading, in `0..=1`.
    pub(super) probability: f32,
    /// The entities that the query names.
    pub(super) entities: Vec<NodeId>,
    /// The type of what is wanted.
    pub(super) target: Option<TypeId>,
    /// What else is said of it.
    pub(super) constraints: Vec<String>,
}

/// How a model reads the query, or why it does not: its reply is missing or cannot be used.
///
/// # Errors
/// [`RetrieveError::Llm`] for ceilings and stops, which no other request would pass either.
pub(super) fn read_query(
    base: &IndexedBase,
    assistant: &Assistant,
    query: &str,
    categories: &[Offered<'_>],
) -> Result<Result<ReadQuery, Miss>, RetrieveError> {
    let linked = Linked::of(base, query);
    let offered = (1..).zip(categories).map(
        |(n, category)| json!({"n": n, "name": category.name, "description": category.description}),
    );
    let types: Vec<&str> =
        base.kb.candidate_types().iter().map(|&kind| base.kb.type_name(kind)).collect();
    let inputs = json!({
        "categories": offered.collect::<Vec<Json>>(),
        "types": types,
        "entities": linked.shown(),
        "query": query,
    });
    let reply = match assistant.json(ROUTER_ROLE.role(), PROMPT, inputs) {
        Ok(reply) => reply,
        Err(AssistantError::Llm(LlmError::Reply { .. })) => return Ok(Err(Miss::Unusable)),
        Err(AssistantError::Llm(error)) if error.is_outage() => return Ok(Err(Miss::Outage)),
        Err(AssistantError::Llm(error)) => return Err(RetrieveError::Llm(error)),
        Err(AssistantError::Prompt(error)) => {
            return Err(RetrieveError::Program(error.to_string()));
        }
    };
    Ok(Ok(ReadQuery::of(base, &reply, &linked, categories.len())))
}

impl ReadQuery {
    /// What of a reply is known: numbers that were offered, types that the base has.
    fn of(base: &IndexedBase, reply: &Json, linked: &Linked<'_>, n_categories: usize) -> Self {
        let place = |number: &Json, n: usize| {
            let number = number.as_u64().and_then(|n| usize::try_from(n).ok())?;
            (1..=n).contains(&number).then(|| number - 1)
        };
        // A model that does not say how sure it is says nothing for its reading.
        let probability = reply["probability"].as_f64().unwrap_or(0.0).clamp(0.0, 1.0) as f32;
        let list = |name: &str| reply[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut entities: Vec<NodeId> = Vec::new();
        for number in list("entities") {
            let entity = place(number, linked.entities.len()).map(|at| linked.entities[at].node);
            entities.extend(entity.filter(|node| !entities.contains(node)));
        }
        entities.truncate(MAX_ENTITIES);
        let constraints = list("constraints").iter().filter_map(Json::as_str).map(str::trim);
        let cut = |text: &str| text.chars().take(MAX_CONSTRAINT_CHARS).collect::<String>();
        let target = reply["type"].as_str().and_then(|name| base.kb.type_id(name));
        Self {
            category: place(&reply["category"], n_categories).map(|at| (at, probability)),
            probability,
            entities,
            target: target.filter(|kind| base.kb.candidate_types().contains(kind)),
            constraints: constraints
                .filter(|text| !text.is_empty())
                .take(MAX_CONSTRAINTS)
                .map(cut)
                .collect(),
        }
    }

    /// The probability of its ranking beside those of the programs: half of what the model holds it
    /// for.
    pub(super) fn weight(&self) -> f32 {
        self.probability / 2.0
    }

    /// The nodes of the wanted type, best first, at most 200: the share of the entities that they
    /// are linked to in one step, or in two for half as much, and how well their documents and the
    /// names of their neighbours fit the constraints. Empty for a reading that says neither.
    pub(super) fn ranking(&self, base: &IndexedBase) -> Ranking {
        let wanted = match self.target {
            Some(kind) => vec![kind],
            None => base.kb.candidate_types().to_vec(),
        };
        let share = 1.0 / self.entities.len().max(1) as f32;
        let mut scores = Scores::default();
        for &entity in &self.entities {
            let reached = reached(base, entity).scale(share);
            scores = scores.combine(&reached, Combine::Sum);
        }
        let text = self.constraints.join(" ");
        if !text.is_empty() {
            let found = base.text.search(&text, TextPart::DocumentWithNames, &wanted, FOUND);
            scores = scores.combine(&Scores::new(found).normalized(), Combine::Sum);
            let terms = base.terms.query(&base.stems, &text);
            scores = scores.map(|node, score| score + base.terms.coverage(&terms, node));
        }
        let of_type = |node: NodeId| wanted.contains(&base.kb.node_type(node));
        let kept = scores.filter(|node, _| of_type(node) && !self.entities.contains(&node));
        kept.top(RANKED).ranking()
    }
}

/// What one step from a node leads to, with 1, and what two lead to, with half of it.
fn reached(base: &IndexedBase, from: NodeId) -> Scores {
    let beside = |node: NodeId| -> Vec<NodeId> {
        let relations = (0..base.kb.relations().len()).map(|at| RelationId(at as u16));
        let mut nodes: Vec<NodeId> = Vec::new();
        for relation in relations {
            let known = base.kb.neighbors(node, relation, Direction::Any);
            nodes.extend(known.iter().take(MAX_NEIGHBORS));
        }
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    };
    let first = beside(from);
    let mut second: Vec<NodeId> =
        first.iter().take(MAX_MIDDLES).flat_map(|&middle| beside(middle)).collect();
    second.sort_unstable();
    second.dedup();
    let scored = |nodes: Vec<NodeId>, score: f32| {
        Scores::new(nodes.into_iter().map(|node| (node, score)).collect())
    };
    scored(first, 1.0).combine(&scored(second, TWO_STEPS), Combine::Max)
}

/// Puts the ranking of a reading among those that answer: it gets its weight, and the others share
/// the rest as before. None of them is left out.
pub(super) fn mixed_in<'a>(rankings: &mut Vec<(f32, &'a Ranking)>, weight: f32, own: &'a Ranking) {
    if own.is_empty() || weight <= 0.0 {
        return;
    }
    rankings.iter_mut().for_each(|(probability, _)| *probability *= 1.0 - weight);
    rankings.push((weight, own));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing::example_base;

    fn reading(reply: Json) -> ReadQuery {
        let base = example_base();
        let linked = Linked::of(&base, "a steel bottle by Tidewell");
        ReadQuery::of(&base, &reply, &linked, 2)
    }

    #[test]
    fn of_a_reply_only_what_was_offered_counts() {
        let base = example_base();
        let read = reading(json!({
            "category": 2, "probability": 7.5, "entities": [1, 1, 99, -1, "x"], "type": "product",
            "constraints": [" steel ", "", 3],
        }));
        assert_eq!((read.category, read.probability), (Some((1, 1.0)), 1.0));
        assert_eq!(read.entities.len(), 1);
        assert_eq!(base.kb.name(read.entities[0]), "Tidewell");
        assert_eq!(read.target, base.kb.type_id("product"));
        assert_eq!(read.constraints, ["steel"]);
        let none = reading(json!({"category": 3, "entities": 1, "type": "planet"}));
        assert_eq!(none, ReadQuery::default());
        assert!(none.ranking(&base).is_empty());
    }

    #[test]
    fn a_reading_ranks_what_is_linked_and_fits() {
        let base = example_base();
        let read = reading(json!({
            "category": null, "probability": 1.0, "entities": [1], "type": "product",
            "constraints": ["insulated steel bottle"],
        }));
        let ranking = read.ranking(&base);
        let product = base.kb.type_id("product").unwrap();
        assert!(ranking.iter().all(|pair| base.kb.node_type(pair.0) == product));
        let relation = base.kb.relation_id("has_brand").unwrap();
        let by_brand = base.kb.neighbors(read.entities[0], relation, Direction::In);
        assert!(by_brand.contains(&ranking[0].0), "{ranking:?}");
        let (first, second) = (vec![(1, 1.0)], vec![(2, 1.0)]);
        let others = vec![(0.75, &first), (0.25, &second)];
        let mut mixed = others.clone();
        mixed_in(&mut mixed, 0.0, &ranking);
        assert_eq!(mixed, others);
        mixed_in(&mut mixed, read.weight(), &ranking);
        let weights: Vec<f32> = mixed.iter().map(|pair| pair.0).collect();
        assert_eq!(weights, [0.375, 0.125, 0.5]);
        assert_eq!(mixed[0].1, others[0].1);
    }
}
