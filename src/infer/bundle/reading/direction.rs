//! Determines the direction in which a question follows a relation within a type: "parts of NAME"
//! asks for parts, "what is NAME a part of" for wholes.
//!
//! A relation is read as "source RELATION target". If the words of the relation precede the name,
//! the name is the target. If they follow the name, or the name is the subject of a verb before it
//! ("which group is NAME in"), the name is the source. The word "by" next to the name reverses
//! this, and so do words that state the relation from its other end ("contains" for `part_of`).

use super::{Metapath, Question};
use agent_kb::{Direction, RelationId};

/// Verbs whose subject follows in a question: "does NAME belong".
const AUXILIARY: [&str; 9] = ["is", "are", "was", "were", "does", "do", "did", "can", "be"];
/// Words between an auxiliary verb and its subject.
const ARTICLES: [&str; 3] = ["a", "an", "the"];

impl Question {
    /// Returns the direction in which a question with one name follows a relation from that name;
    /// `None` if the order of words does not determine it.
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

    /// Whether a metapath of one step within a type has the direction that the order of words
    /// determines; `None` if the order determines none, and for other metapaths.
    pub(super) fn says_direction(&self, metapath: &Metapath) -> Option<bool> {
        match metapath.steps.as_slice() {
            &[(relation, direction)] if metapath.start == metapath.target => {
                Some(self.direction(relation)? == direction)
            }
            _ => None,
        }
    }
}
