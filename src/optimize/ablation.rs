//! Ablations: parts of the optimizer that can be disabled to measure their effect.

use serde::{Deserialize, Serialize};

use crate::Actors;

/// A part of the optimizer that can be disabled to measure its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ablation {
    /// Mining of metapaths. Without mining, programs of the search actor use text search alone.
    Mining,
    /// Tuning of parameters. Without tuning, programs run with the parameters' declared values.
    Tuning,
    /// Relaxation of metapaths. Without relaxation, a program ranks only nodes that all its
    /// metapaths reach.
    Relaxation,
    /// The router. Without a router, the category with the best program overall answers every
    /// query.
    Router,
    /// The cache of tool calls. Without the cache, a run gives the same results but takes longer.
    Cache,
    /// Improvement of programs by the operators of the search actor, such as adding a metapath.
    Mutation,
    /// The comparator of the llm actor. Without the comparator, a model improves a program without
    /// advice and execution traces, from the program's score and earlier attempts.
    Comparator,
    /// Steps in which a model improves programs. Without these steps, the model's first programs
    /// are only repaired until they run, neither revised nor rewritten.
    Steps,
    /// The questions about relations that a model writes. Without them, the lexicon has only
    /// general English questions.
    Lexicon,
}

impl Ablation {
    /// Returns the part's name in options and files, such as `mining`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mining => "mining",
            Self::Tuning => "tuning",
            Self::Relaxation => "relaxation",
            Self::Router => "router",
            Self::Cache => "cache",
            Self::Mutation => "mutation",
            Self::Comparator => "comparator",
            Self::Steps => "steps",
            Self::Lexicon => "lexicon",
        }
    }
}

/// Returns a message that says why the parts in `without` cannot be disabled together in a run of
/// `actors`; `None` if they can.
pub fn conflict(without: &[Ablation], actors: Actors) -> Option<String> {
    let absent = |part: &Ablation| {
        let actor = match part {
            Ablation::Mining | Ablation::Relaxation | Ablation::Mutation if !actors.search => {
                "search"
            }
            Ablation::Comparator | Ablation::Steps | Ablation::Lexicon if !actors.llm => "llm",
            _ => return None,
        };
        let part = part.name();
        Some(format!("{part} belongs to the {actor} actor; use --actor search,llm"))
    };
    let exclusive = [
        (Ablation::Mining, Ablation::Relaxation, "without mining there are no metapaths to relax"),
        (Ablation::Mining, Ablation::Mutation, "without mining there are no metapaths to mutate"),
        (Ablation::Comparator, Ablation::Steps, "without steps the comparator is never asked"),
    ];
    let has = |part| without.contains(&part);
    let mut both = exclusive.iter().filter(|(first, second, _)| has(*first) && has(*second));
    let conflict = || Some(format!("{}; disable only one", both.next()?.2));
    without.iter().find_map(absent).or_else(conflict)
}

#[cfg(test)]
mod tests {
    use super::{
        Ablation::{
            Cache, Comparator, Lexicon, Mining, Mutation, Relaxation, Router, Steps, Tuning,
        },
        *,
    };

    #[test]
    fn combinations_that_say_nothing_are_refused() {
        let actors = |names: &str| Actors::named(names).unwrap();
        let both = actors("search,llm");
        assert_eq!(conflict(&[], both), None);
        assert_eq!(conflict(&[Tuning, Router, Cache, Mutation, Relaxation, Steps], both), None);
        assert!(conflict(&[Mining, Relaxation], both).is_some());
        assert!(conflict(&[Mining, Mutation], both).is_some());
        assert!(conflict(&[Comparator, Steps], both).is_some());
        assert_eq!(conflict(&[Tuning, Router, Comparator], actors("llm")), None);
        let why = conflict(&[Mutation], actors("llm")).unwrap();
        assert_eq!(why, "mutation belongs to the search actor; use --actor search,llm");
        for part in [Comparator, Steps, Lexicon] {
            let why = conflict(&[Tuning, part], actors("search")).unwrap();
            let part = part.name();
            assert_eq!(why, format!("{part} belongs to the llm actor; use --actor search,llm"));
        }
    }

    #[test]
    fn names_are_those_of_files() {
        for part in
            [Mining, Tuning, Relaxation, Router, Cache, Mutation, Comparator, Steps, Lexicon]
        {
            assert_eq!(serde_json::to_value(part).unwrap(), part.name());
        }
    }
}
