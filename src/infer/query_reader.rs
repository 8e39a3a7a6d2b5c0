//! Query reading by a language model: category, entities, relations to the answers, target type,
//! constraints, conditions, and answers that the model knows. The reading is mixed into the
//! bundle's ranking with the probability that the model states. It removes no node; nodes that meet
//! its conditions come first. Names without a node in the base are ignored.
//!
//! Known answers use the model's knowledge as the hypothetical documents of HyDE do: Gao et al.,
//! *Precise Zero-Shot Dense Retrieval without Relevance Labels*, 2022.

use std::cmp::Reverse;

use rustc_hash::FxHashSet;
use serde_json::{Value as Json, json};

use crate::{
    ROUTER_ROLE, RequestBounds, assist_failure,
    bundle::conditions::Conditions,
    shown::{Entity, LinkedEntities},
};
use agent_index::{IndexedBase, TextPart};
use agent_kb::{
    Combine, Direction, NodeId, RelationId, Scores, Tuple, TypeId, best,
    table::{ColumnKind, Sample, sample},
};
use agent_retrieve::{AssistFailure, Ranking, RetrieveError};
use agent_tools::Assistant;

/// Name of the prompt.
const PROMPT: &str = "router/read";
/// Request bounds for reading a query: one request and its repair.
pub const READ_REQUESTS: RequestBounds =
    RequestBounds { role: ROUTER_ROLE, prompt: PROMPT, later: None, min: 1, max: 2 };
/// Maximum number of entities of a reading.
const MAX_ENTITIES: usize = 4;
/// Maximum number of names in a reading: entities that the prompt does not list.
const MAX_NAMES: usize = 4;
/// Maximum number of known answers of a reading.
const MAX_ANSWERS: usize = 5;
/// Maximum number of relations of a reading.
const MAX_RELATIONS: usize = 6;
/// Maximum number of constraints of a reading.
const MAX_CONSTRAINTS: usize = 8;
/// Maximum number of conditions of a reading.
const MAX_CONDITIONS: usize = 6;
/// Maximum number of excluded phrases of a reading.
const MAX_EXCLUDED: usize = 4;
/// Maximum number of fields in the prompt.
const MAX_FIELDS: usize = 40;
/// Maximum number of relations that the prompt shows with their types; a relation counts once for
/// each pair of types. If there are more, the prompt shows only names of relations.
const MAX_TUPLES: usize = 30;
/// Maximum number of relations that the prompt shows by name.
const MAX_SHOWN_RELATIONS: usize = 60;
/// Maximum number of values of a field in the prompt.
const MAX_VALUES: usize = 4;
/// Maximum length in characters of the relations of an entity in the prompt.
const ENTITY_CHARS: usize = 400;
/// Maximum length in characters of one text in a reading.
const MAX_CHARS: usize = 200;
/// Maximum number of nodes linked to one name.
const BEARERS: usize = 2;
/// Minimum link strength of a name.
const MIN_STRENGTH: f32 = 0.5;
/// Minimum link strength of a further node of a name, as a share of the strongest node's.
const MIN_SHARE: f32 = 0.9;
/// Maximum number of neighbours that are followed from one node along one relation.
const MAX_NEIGHBORS: usize = 2_000;
/// Maximum number of nodes from which one step along relations is followed.
const MAX_MIDDLES: usize = 500;
/// Number of nodes that text search returns for the constraints.
const FOUND: usize = 200;
/// Maximum number of nodes in the ranking of a reading.
const RANKED: usize = 200;
/// Score of a node that is linked to all entities of the reading. For comparison, the first known
/// answer has the score 1, and a full match of the constraints 2.
const LINKED: f32 = 2.0;
/// Score of a node that is two steps from an entity over relations that the reading does not name.
/// Nodes at one step, or over named relations, have the score 1.
const OTHER_STEPS: f32 = 0.5;
/// Factor between the scores of consecutive known answers.
const NEXT_ANSWER: f32 = 0.8;
/// Weight of the reading's ranking in the mixed ranking if the reading's probability is 1.
const SURE_SHARE: f32 = 0.85;
/// Number added to the ranks of the bundle's ranking in the mixed score, see [`mix_in`].
const RANK_OFFSET: f32 = 5.0;

/// A category, as shown to the model.
pub(super) struct CategoryOption<'a> {
    pub(super) name: &'a str,
    /// Description of the category; `None` if the name describes it.
    pub(super) description: Option<&'a str>,
}

/// The nodes that one mention of an entity may refer to, with the link confidence in `0..=1` (1 for
/// entities listed in the prompt).
#[derive(Clone, Debug, PartialEq)]
struct LinkedMention {
    nodes: Vec<NodeId>,
    strength: f32,
}

/// A model's reading of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReadQuery {
    /// Index of the category, with the probability of the reading; `None` if the model names no
    /// category.
    pub(super) category: Option<(usize, f32)>,
    /// Probability, stated by the model, that the reading is right, in `0..=1`.
    probability: f32,
    /// The entities of the query.
    entities: Vec<LinkedMention>,
    /// Relations between entities and answers; empty if the model names none.
    relations: Vec<RelationId>,
    /// Answers that the model knows, most probable first, with link confidence.
    answers: Vec<(NodeId, f32)>,
    /// Type of the answers; `None` if the model names no type of the base.
    target: Option<TypeId>,
    /// Further constraints on the answers.
    constraints: Vec<String>,
    /// Conditions in the syntax of [`agent_kb::filter`].
    conditions: Vec<String>,
    /// Words that the names of answers do not have.
    excluded: Vec<String>,
}

/// Asks a model to read a query. The prompt shows the categories, and the fields and relations as
/// [`fields_text`] describes them. The inner error is an outage or an unusable reply.
///
/// # Errors
/// [`RetrieveError::Llm`] if a ceiling is reached or the run is stopped, since every further
/// request fails too; [`RetrieveError::Program`] if the prompt cannot be rendered.
pub(super) fn read_query(
    base: &IndexedBase,
    assistant: &Assistant,
    query: &str,
    categories: &[CategoryOption<'_>],
    fields: &str,
) -> Result<Result<ReadQuery, AssistFailure>, RetrieveError> {
    let linked = LinkedEntities::link(base, query);
    let offered = (1..).zip(categories).map(
        |(n, category)| json!({"n": n, "name": category.name, "description": category.description}),
    );
    let types: Vec<&str> =
        base.kb.candidate_types().iter().map(|&kind| base.kb.type_name(kind)).collect();
    let inputs = json!({
        "categories": offered.collect::<Vec<Json>>(),
        "types": types,
        "fields": fields,
        "entities": linked.shown(ENTITY_CHARS),
        "query": query,
    });
    let reply = match assistant.json(ROUTER_ROLE.role(), PROMPT, inputs) {
        Ok(reply) => reply,
        Err(error) => return assist_failure(&ROUTER_ROLE, error, "").map(Err),
    };
    Ok(Ok(ReadQuery::from_reply(base, &reply, &linked, categories.len())))
}

/// Describes the fields of candidates that a condition may check, with kind and common values, and
/// the relations, most edges first. The relations have their types, one relation per line; if there
/// are many, only their names are listed.
pub(super) fn fields_text(base: &IndexedBase) -> String {
    let kb = &base.kb;
    let of_type = |&kind: &TypeId| sample(kb, kind).into_iter().map(move |field| (kind, field));
    let field = |(kind, field): (TypeId, Sample)| {
        let of = match field.kind {
            ColumnKind::Category | ColumnKind::Categories => None,
            ColumnKind::Text => return None,
            kind => Some(kind.name()),
        };
        let common = field.values.iter().take(MAX_VALUES).map(String::as_str);
        let about: Vec<&str> = of.into_iter().chain(common).collect();
        let name = kb.field_name(field.field);
        Some(format!("{name} of {}: {}", kb.type_name(kind), about.join(", ")))
    };
    let mut lines: Vec<String> =
        kb.candidate_types().iter().flat_map(of_type).filter_map(field).take(MAX_FIELDS).collect();
    let mut tuples: Vec<&Tuple> = kb.tuples().iter().collect();
    tuples.sort_by_key(|tuple| Reverse(tuple.edges));
    if tuples.len() <= MAX_TUPLES {
        lines.extend(tuples.iter().map(|tuple| {
            let (source, target) = (kb.type_name(tuple.source), kb.type_name(tuple.target));
            let relation = Direction::Out.arrow(kb.relation_name(tuple.relation));
            format!("{source} {relation} {target}")
        }));
    } else {
        let mut names: Vec<&str> = Vec::new();
        for name in tuples.iter().map(|tuple| kb.relation_name(tuple.relation)) {
            if !names.contains(&name) && names.len() < MAX_SHOWN_RELATIONS {
                names.push(name);
            }
        }
        lines.push(format!("relations: {}", names.join(", ")));
    }
    lines.join("\n")
}

impl ReadQuery {
    /// Parses a reply; unknown numbers, names, types and relations are ignored.
    fn from_reply(
        base: &IndexedBase,
        reply: &Json,
        linked: &LinkedEntities<'_>,
        n_categories: usize,
    ) -> Self {
        let place = |number: &Json, n: usize| {
            let number = number.as_u64().and_then(|n| usize::try_from(n).ok())?;
            (1..=n).contains(&number).then(|| number - 1)
        };
        // A reading without a probability has no weight.
        let probability = reply["probability"].as_f64().unwrap_or(0.0).clamp(0.0, 1.0) as f32;
        let list = |name: &str| reply[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts = |name: &str, limit: usize| -> Vec<String> {
            let texts = list(name).iter().filter_map(Json::as_str).map(str::trim);
            let cut = |text: &str| text.chars().take(MAX_CHARS).collect();
            texts.filter(|text| !text.is_empty()).take(limit).map(cut).collect()
        };
        let target = reply["type"].as_str().and_then(|name| base.kb.type_id(name));
        let target = target.filter(|kind| base.kb.candidate_types().contains(kind));
        let numbers = list("entities").iter();
        let listed = numbers.filter_map(|number| place(number, linked.entities.len()));
        let listed = listed.map(|at| {
            let Entity { node, namesakes, .. } = &linked.entities[at];
            [*node].iter().chain(namesakes).map(|&node| (node, 1.0)).collect()
        });
        let names = texts("names", MAX_NAMES);
        let named = names.iter().map(|name| {
            let (name, kind) = with_type(base, name);
            nodes_named(base, name, kind.as_slice())
        });
        let known = texts("answers", MAX_ANSWERS);
        let relation = |text: String| base.kb.relation_id(text.trim_matches(['<', '-', '>', ' ']));
        let relations = texts("relations", MAX_RELATIONS).into_iter().filter_map(relation);
        Self {
            category: place(&reply["category"], n_categories).map(|at| (at, probability)),
            probability,
            entities: linked_mentions(listed.chain(named)),
            relations: relations.collect(),
            answers: distinct(
                known.iter().flat_map(|name| nodes_named(base, name, &target_types(base, target))),
            ),
            target,
            constraints: texts("constraints", MAX_CONSTRAINTS),
            conditions: texts("conditions", MAX_CONDITIONS),
            excluded: texts("excluded", MAX_EXCLUDED),
        }
    }

    /// Removes the answers that the model knows.
    pub(super) fn without_answers(self) -> Self {
        Self { answers: Vec::new(), ..self }
    }

    /// Returns the conditions of the reading, which replace `read`, the conditions that were read
    /// without the model.
    pub(super) fn conditions(&self, base: &IndexedBase, read: Conditions) -> Conditions {
        read.replaced(base, &self.conditions, &self.excluded)
    }

    /// Returns the nodes of all mentions, with link confidence.
    pub(super) fn linked_nodes(&self) -> impl Iterator<Item = (NodeId, f32)> {
        self.entities.iter().flat_map(|one| one.nodes.iter().map(|&node| (node, one.strength)))
    }

    /// Ranks at most 200 nodes of the target type. A node's score has three parts: its links to the
    /// entities (2 if it is linked to all of them), its place among the known answers (1 for the
    /// first), and the match of its document and its neighbours' names with the constraints (1 for
    /// the best BM25 score, and 1 if all words occur). Empty if the reading has no entities, known
    /// answers or constraints.
    pub(super) fn ranking(&self, base: &IndexedBase) -> Ranking {
        let target_types = target_types(base, self.target);
        let all: f32 = self.entities.iter().map(|one| one.strength).sum();
        let mut scores = Scores::default();
        for LinkedMention { nodes, strength } in &self.entities {
            let of_each = nodes.iter().map(|&node| reachable(base, node, &self.relations));
            let of_any = of_each.reduce(|some, more| some.combine(&more, Combine::Max));
            let share = LINKED * strength / all.max(1.0);
            scores = scores.combine(&of_any.unwrap_or_default().scale(share), Combine::Sum);
        }
        let known = (0..).zip(&self.answers);
        let known = known.map(|(at, &(node, strength))| (node, strength * NEXT_ANSWER.powi(at)));
        scores = scores.combine(&Scores::new(known.collect()), Combine::Sum);
        let text = self.constraints.join(" ");
        if !text.is_empty() {
            let found = base.text.search(&text, TextPart::DocumentWithNames, &target_types, FOUND);
            scores = scores.combine(&Scores::new(found).normalized(), Combine::Sum);
            let terms = base.terms.query(&base.stems, &text);
            scores = scores.map(|node, score| score + base.terms.coverage(&terms, node));
        }
        let is_known = |node| self.answers.iter().any(|pair| pair.0 == node);
        let is_meant = |node| self.entities.iter().any(|one| one.nodes.contains(&node));
        // An entity is not an answer itself, unless the model names it as one.
        let may_answer = |node| is_known(node) || !is_meant(node);
        let of_type = |node: NodeId| target_types.contains(&base.kb.node_type(node));
        scores.filter(|node, _| of_type(node) && may_answer(node)).top(RANKED).ranking()
    }

    /// Returns the weight of the reading's ranking in [`mix_in`]: 0.85 times the reading's
    /// probability.
    pub(super) fn weight(&self) -> f32 {
        SURE_SHARE * self.probability
    }
}

/// Mixes `own`, the ranking of a reading, into `ranking`. A node scores `w r + (1 - w) 6 / (5 +
/// rank)`: `r` is its score in `own` divided by the best score there, and `rank` its rank in
/// `ranking`; `w` is `weight`. Best first, ties by ascending id. No node is removed; with an empty
/// `own` or a weight of 0, `ranking` is returned unchanged.
pub(super) fn mix_in(ranking: Ranking, own: &Ranking, weight: f32) -> Ranking {
    if own.is_empty() || weight <= 0.0 {
        return ranking;
    }
    let by_rank =
        |(rank, (node, _))| (node, (1.0 - weight) * (RANK_OFFSET + 1.0) / (RANK_OFFSET + rank));
    let ranks = (1u32..).map(|rank| rank as f32);
    let given = Scores::new(ranks.zip(ranking).map(by_rank).collect());
    let own = Scores::new(own.clone()).normalized().scale(weight);
    given.combine(&own, Combine::Sum).ranking()
}

/// Returns the target type, or all candidate types if there is none.
fn target_types(base: &IndexedBase, target: Option<TypeId>) -> Vec<TypeId> {
    target.map_or_else(|| base.kb.candidate_types().to_vec(), |kind| vec![kind])
}

/// Splits a name such as "WWW (venue)" into name and type; the type is `None` if there is none.
fn with_type<'a>(base: &IndexedBase, name: &'a str) -> (&'a str, Option<TypeId>) {
    let parts = name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("));
    let typed = parts.and_then(|(name, kind)| Some((name, base.kb.type_id(kind)?)));
    typed.map_or((name, None), |(name, kind)| (name, Some(kind)))
}

/// Links a name to its strongest node, and to a second node of nearly the same strength.
fn nodes_named(base: &IndexedBase, name: &str, types: &[TypeId]) -> Vec<(NodeId, f32)> {
    let linked = base.entities.link(&base.kb, name, types, BEARERS);
    let mut found = best(linked.as_slice().to_vec(), BEARERS);
    let first = found.first().map_or(0.0, |pair| pair.1);
    found.retain(|pair| pair.1 >= MIN_STRENGTH.max(first * MIN_SHARE));
    found
}

/// Makes mentions from lists of candidate nodes, at most [`MAX_ENTITIES`]. A node of two mentions
/// belongs to the first; mentions without nodes are dropped.
fn linked_mentions(named: impl Iterator<Item = Vec<(NodeId, f32)>>) -> Vec<LinkedMention> {
    let mut seen = FxHashSet::default();
    let entity = |mut nodes: Vec<(NodeId, f32)>| {
        nodes.retain(|pair| seen.insert(pair.0));
        let strength = nodes.first()?.1;
        Some(LinkedMention { nodes: nodes.into_iter().map(|pair| pair.0).collect(), strength })
    };
    named.filter_map(entity).take(MAX_ENTITIES).collect()
}

/// Removes repeated nodes; keeps the first occurrence of each, in order.
fn distinct(nodes: impl IntoIterator<Item = (NodeId, f32)>) -> Vec<(NodeId, f32)> {
    let mut seen = FxHashSet::default();
    nodes.into_iter().filter(|pair| seen.insert(pair.0)).collect()
}

/// Scores the nodes within two steps of `from`: 1 at one step, or at two steps along relations of
/// `way`; 0.5 at any other two steps.
fn reachable(base: &IndexedBase, from: NodeId, way: &[RelationId]) -> Scores {
    let kb = &base.kb;
    let beside = |nodes: &[NodeId], relations: Option<&[RelationId]>| -> Vec<NodeId> {
        let mut found: Vec<NodeId> = Vec::new();
        for &node in nodes.iter().take(MAX_MIDDLES) {
            for &relation in relations.unwrap_or(kb.relations_of(kb.node_type(node))) {
                let known = kb.neighbors(node, relation, Direction::Any);
                found.extend(known.iter().take(MAX_NEIGHBORS));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    };
    let first = beside(&[from], None);
    let on_way = beside(&beside(&[from], Some(way)), Some(way));
    let second = beside(&first, None);
    let scored = |nodes: Vec<NodeId>, score: f32| {
        Scores::new(nodes.into_iter().map(|node| (node, score)).collect())
    };
    scored(first, 1.0)
        .combine(&scored(on_way, 1.0), Combine::Max)
        .combine(&scored(second, OTHER_STEPS), Combine::Max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_testing::example_base;

    fn reading(reply: Json) -> ReadQuery {
        let base = example_base();
        let linked = LinkedEntities::link(&base, "a steel bottle by Tidewell");
        ReadQuery::from_reply(&base, &reply, &linked, 2)
    }

    #[test]
    fn of_a_reply_only_what_was_offered_counts() {
        let base = example_base();
        let read = reading(json!({
            "category": 2, "probability": 7.5, "entities": [1, 1, 99, -1, "x"],
            "relations": ["-has_brand->", "has_wings", 4], "names": ["Nobody of that name"],
            "type": "product", "constraints": [" steel ", "", 3], "answers": ["Tidewell", 7],
        }));
        assert_eq!((read.category, read.probability), (Some((1, 1.0)), 1.0));
        let meant: Vec<&str> = read.linked_nodes().map(|pair| base.kb.name(pair.0)).collect();
        assert_eq!(meant, ["Tidewell"]);
        assert_eq!(read.relations, [base.kb.relation_id("has_brand").unwrap()]);
        assert_eq!(read.target, base.kb.type_id("product"));
        assert_eq!(read.constraints, ["steel"]);
        assert!(read.answers.is_empty(), "a brand is no product");
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
        let by_brand = base.kb.neighbors(read.entities[0].nodes[0], relation, Direction::In);
        assert!(by_brand.contains(&ranking[0].0), "{ranking:?}");
    }

    #[test]
    fn a_name_that_is_not_listed_is_looked_up() {
        let base = example_base();
        let named = |names: &[&str]| {
            reading(json!({"probability": 1.0, "names": names, "type": "product"})).entities
        };
        let listed = reading(json!({"probability": 1.0, "entities": [1]})).entities;
        let tidewell = named(&["Tidewell", "tidewell"]);
        assert_eq!(tidewell.len(), 1, "two spellings of one node");
        assert_eq!(tidewell[0].nodes, listed[0].nodes);
        assert!((MIN_STRENGTH..1.0).contains(&tidewell[0].strength), "{tidewell:?}");
        let product = base.kb.nodes_of_type(base.kb.type_id("product").unwrap())[0];
        let name = base.kb.name(product);
        let place =
            |reply: Json| reading(reply).ranking(&base).iter().position(|pair| pair.0 == product);
        assert_eq!(place(json!({"probability": 1.0, "answers": [name]})), Some(0));
        assert_eq!(place(json!({"probability": 1.0, "names": [name]})), None);
        let both = json!({"probability": 1.0, "names": [name], "answers": [name]});
        assert!(place(both).is_some(), "what is named as both may answer");
    }

    #[test]
    fn what_a_field_can_check_and_what_is_excluded_are_conditions() {
        let base = example_base();
        let read = reading(json!({
            "conditions": ["price<20", "has_brand!=Tidewell", "wings=2", "price<1", "cheap"],
            "excluded": ["steel mugs", " - "],
        }));
        let of_question = Conditions::read(&base, "without handles");
        let conditions = read.conditions(&base, of_question);
        let texts: Vec<String> = conditions.all.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["price<20", "has_brand!=Tidewell"], "what nothing fulfils is left out");
        let products = base.kb.nodes_of_type(base.kb.type_id("product").unwrap());
        let first = conditions.fulfilled(&base, products.to_vec());
        let names: Vec<&str> = first.iter().map(|&node| base.kb.name(node)).collect();
        assert!(names.contains(&"Trail Wool Socks"), "{names:?}");
        for wrong in ["Summit Steel Bottle", "Ridge Steel Mug"] {
            assert!(!names.contains(&wrong), "{names:?}");
        }
    }

    #[test]
    fn a_name_may_state_its_type() {
        let base = example_base();
        let named = |name: &str| {
            reading(json!({"probability": 1.0, "names": [name]})).linked_nodes().count()
        };
        assert_eq!(named("Tidewell (brand)"), 1);
        assert_eq!(named("Tidewell (product)"), 0);
        assert_eq!(with_type(&base, "Bottle (steel)"), ("Bottle (steel)", None));
    }

    #[test]
    fn two_steps_count_whole_along_the_relations_of_the_way() {
        let base = example_base();
        let relation = base.kb.relation_id("has_brand").unwrap();
        let brand = base.kb.nodes_of_type(base.kb.type_id("brand").unwrap())[0];
        let products = base.kb.neighbors(brand, relation, Direction::In);
        let from = products[0];
        let any = reachable(&base, from, &[]);
        // Of the same brand, and nothing else joins them.
        let other = products.iter().find(|&&node| any.get(node) == Some(OTHER_STEPS)).unwrap();
        assert_eq!(reachable(&base, from, &[relation]).get(*other), Some(1.0));
        assert_eq!(any.get(brand), Some(1.0));
    }

    #[test]
    fn a_reading_weighs_as_much_as_it_is_believed() {
        assert!((reading(json!({"probability": 0.8})).weight() - 0.68).abs() < 1e-6);
        let nodes = |ranking: Ranking| ranking.into_iter().map(|pair| pair.0).collect::<Vec<_>>();
        let given: Ranking = vec![(2, 5.0), (1, 4.0), (9, 3.0)];
        let own: Ranking = vec![(7, 3.0), (8, 2.0), (9, 1.0)];
        assert_eq!(mix_in(given.clone(), &own, 0.0), given);
        assert_eq!(mix_in(given.clone(), &Ranking::new(), 0.75), given);
        // 9: a quarter of three quarters, and 6/8 of the last quarter.
        let sure = mix_in(given.clone(), &own, 0.75);
        assert_eq!(sure[0], (7, 0.75));
        assert_eq!(nodes(sure), [7, 8, 9, 2, 1], "no node is left out");
        assert_eq!(nodes(mix_in(given, &own, 0.01)), [2, 1, 9, 7, 8]);
    }
}
