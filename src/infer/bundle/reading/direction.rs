//! The direction in which a question follows a relation within a type: "parts of NAME" asks for its
//! parts, "what is NAME a part of" for what it is a part of.
//!
//! A relation is read as "source RELATION target". Where its words precede the name, the name is the
//! target; where they follow, or the name is the subject of the verb before it ("which group is NAME
//! in"), it is the source. "by" beside the name, and words that say the relation from its other end
//! ("contains" for `part_of`), turn this round.

use super::{Metapath, Question};
use agent_kb::{Direction, RelationId};

/// Verbs whose subject follows in a question: "does NAME belong".
const AUXILIARY: [&str; 9] = ["is", "are", "was", "were", "does", "do", "did", "can", "be"];
/// Words between such a verb and its subject.
const ARTICLES: [&str; 3] = ["a", "an", "the"];

impl Question {
    /// The direction from the only name along a relation, if the order of the words says it.
    pub(super) fn direction(&self, relation: RelationId) -> Option<Direction> {
        let ([before], Some(synonyms)) =
            (self.before.as_slice(), self.schema.relation_synonyms.get(usize::from(relation.0)))
        else {
            return None;
        };
        if synonyms.mutual {
            return None;
        }
        let of_type = |stem: &String| self.schema.types.iter().flatten().any(|own| own == stem);
        let means = |stem: &&String| {
            self.schema.relation_means(relation, stem) && !of_type(stem) && stem.len() > 2
        };
        let last = before.iter().rev().find(|stem| !ARTICLES.contains(&stem.as_str()));
        let is_subject = last.is_some_and(|stem| AUXILIARY.contains(&stem.as_str()));
        let (word, names_source, passive) = match before.iter().rev().find(means) {
            Some(word) => (word, is_subject, last.is_some_and(|stem| stem == "by")),
            None => (self.after.iter().find(means)?, true, self.after.iter().any(|s| s == "by")),
        };
        let is_turned = passive != synonyms.reversed.contains(word);
        Some(if names_source != is_turned { Direction::Out } else { Direction::In })
    }

    /// Whether the order of the words says the direction of a metapath of one step within a type.
    pub(super) fn says_direction(&self, metapath: &Metapath) -> Option<bool> {
        match metapath.steps.as_slice() {
            &[(relation, direction)] if metapath.start == metapath.target => {
                Some(self.direction(relation)? == direction)
            }
            _ => None,
        }
    }
}
