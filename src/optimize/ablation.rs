//! Parts of the search actor and of the loop that can be left out, to measure what they are worth.

use serde::{Deserialize, Serialize};

/// A part that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ablation {
    /// Metapaths from training answers: only search by words is left.
    Mining,
    /// Other values of parameters than the declared ones.
    Tuning,
    /// Nodes that miss a metapath or were found by words alone: only what all metapaths reach is
    /// ranked.
    Relaxation,
    /// What a query says and names: all queries are sent where most are answered best.
    Router,
    /// Answers of tool calls that are kept for the next program; changes no result, only the time.
    Cache,
    /// Changes of programs after the categories are found.
    Mutation,
}

impl Ablation {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Mining, Self::Tuning, Self::Relaxation, Self::Router, Self::Cache, Self::Mutation];

    /// Its name, for people and files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Mining => "mining",
            Self::Tuning => "tuning",
            Self::Relaxation => "relaxation",
            Self::Router => "router",
            Self::Cache => "cache",
            Self::Mutation => "mutation",
        }
    }

    /// Whether it is a part of the search actor, so that it says nothing where that takes no part.
    pub fn is_of_search(self) -> bool {
        matches!(self, Self::Mining | Self::Relaxation | Self::Mutation)
    }
}

/// Why parts cannot be left out together; none when they can.
pub fn nonsense(without: &[Ablation], searches: bool) -> Option<String> {
    if let Some(part) = without.iter().find(|part| part.is_of_search() && !searches) {
        let part = part.word();
        return Some(format!("{part} is a part of the search actor; add --actor search,llm"));
    }
    let has = |part| without.contains(&part);
    if has(Ablation::Mining) && has(Ablation::Relaxation) {
        return Some("without mining there are no metapaths to relax".to_owned());
    }
    if has(Ablation::Mining) && has(Ablation::Mutation) {
        return Some("without mining there are no metapaths to mutate; leave out one".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_that_say_nothing_are_refused() {
        use Ablation::{Cache, Mining, Mutation, Relaxation, Router, Tuning};
        assert_eq!(nonsense(&[], true), None);
        assert_eq!(nonsense(&[Tuning, Router, Cache, Mutation, Relaxation], true), None);
        assert!(nonsense(&[Mining, Relaxation], true).is_some());
        assert!(nonsense(&[Mining, Mutation], true).is_some());
        assert_eq!(nonsense(&[Tuning, Router], false), None);
        assert!(nonsense(&[Mutation], false).is_some());
    }
}
