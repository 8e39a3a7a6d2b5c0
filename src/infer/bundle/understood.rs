//! Analyses a question for display: named entities, words that are types or relations of the base,
//! and other words.

use std::collections::BTreeSet;

use crate::bundle::{reading::Question, router::SURE_LINK};
use agent_ground::words::{is_part, is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::{NodeId, RelationId};
use agent_retrieve::{LinkedEntity, QueryAnalysis, SchemaWord};

/// Maximum number of nodes listed per exact name, and maximum number of entities listed without an
/// exact name.
const MAX_LISTED: usize = 5;

/// Analyses a question. Entities with exact names come first, in the order of the question; then
/// strongly linked entities, strongest first, ties by ascending id.
pub fn understand(base: &IndexedBase, query: &str) -> QueryAnalysis {
    let question = Question::new(base, query);
    let names = &question.names;
    let linked = base.entities.link(&base.kb, query, &[], 1);
    let spelled = names.iter().flat_map(|nodes| nodes.iter().take(MAX_LISTED));
    let mut entities: Vec<LinkedEntity> = Vec::new();
    for &node in spelled {
        if !entities.iter().any(|known| known.node == node) {
            entities.push(LinkedEntity { node, exact: true, strength: 1.0 });
        }
    }
    // The words of an exact name cannot mean another entity.
    let exact: Vec<NodeId> = entities.iter().map(|one| one.node).collect();
    let rest = base.entities.without_names(query, &exact);
    let sure = base.entities.link(&base.kb, &rest, &[], 1);
    let sure = sure.ranking().into_iter().take_while(|pair| pair.1 >= SURE_LINK);
    entities.extend(sure.take(MAX_LISTED).map(|(node, strength)| LinkedEntity {
        node,
        exact: false,
        strength,
    }));
    let all: Vec<NodeId> = entities.iter().map(|one| one.node).collect();
    let rest = base.entities.without_names(query, &all);
    let schema = &question.schema;
    let (mut words, mut others): (Vec<SchemaWord>, Vec<String>) = Default::default();
    let mut seen = BTreeSet::new();
    for (range, word) in name_words(&rest) {
        let stem = base.stems.stem(&word).into_owned();
        let written = rest.get(range.clone()).unwrap_or_default().to_owned();
        // Question words are not informative, even if a schema name contains them ("directed_by").
        let asks = is_question_word(&word) || is_part(&rest, &range);
        if asks || !seen.insert(stem.clone()) {
            continue;
        }
        let (types, relations) = schema.meanings(&stem);
        if !types.is_empty() || !relations.is_empty() {
            words.push(SchemaWord { word: written, types, relations });
        } else {
            others.push(written);
        }
    }
    let recognised = linked.largest() >= SURE_LINK;
    let excluded = schema.excluded(&question.other_stems, &question.asks);
    let excluded = (0..).map(RelationId).zip(excluded).filter(|pair| pair.1);
    let contrary = excluded.map(|pair| pair.0).collect();
    let (unused, corrected) = (Vec::new(), Vec::new());
    QueryAnalysis { recognised, entities, words, others, unused, corrected, contrary }
}
