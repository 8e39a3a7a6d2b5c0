//! Ablations: parts of the optimizer that can be disabled to measure their effect.

use serde::{Deserialize, Serialize};

/// A part of the optimizer that can be disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ablation {
    /// Mining of metapaths; without it, only text search remains.
    Mining,
    /// Tuning of parameters; without it, programs run with declared values.
    Tuning,
    /// Relaxation of metapaths; without it, only nodes that all metapaths reach are ranked.
    Relaxation,
    /// The router; without it, every query uses the category that is best overall.
    Router,
    /// The cache of tool calls; changes only the time.
    Cache,
    /// Improvement of programs by operators.
    Mutation,
}

impl Ablation {
    /// All parts.
    pub const ALL: [Self; 6] =
        [Self::Mining, Self::Tuning, Self::Relaxation, Self::Router, Self::Cache, Self::Mutation];

    /// Its name in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mining => "mining",
            Self::Tuning => "tuning",
            Self::Relaxation => "relaxation",
            Self::Router => "router",
            Self::Cache => "cache",
            Self::Mutation => "mutation",
        }
    }

    /// Whether it is a part of the search actor.
    pub fn is_search_part(self) -> bool {
        matches!(self, Self::Mining | Self::Relaxation | Self::Mutation)
    }
}

/// Why these parts cannot be disabled together; `searches` is true if the search actor runs.
pub fn conflict(without: &[Ablation], searches: bool) -> Option<String> {
    if let Some(part) = without.iter().find(|part| part.is_search_part() && !searches) {
        let part = part.name();
        return Some(format!("{part} is a part of the search actor; use --actor search,llm"));
    }
    let has = |part| without.contains(&part);
    if has(Ablation::Mining) && has(Ablation::Relaxation) {
        return Some("without mining there are no metapaths to relax; disable only one".to_owned());
    }
    if has(Ablation::Mining) && has(Ablation::Mutation) {
        return Some(
            "without mining there are no metapaths to mutate; disable only one".to_owned(),
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_that_say_nothing_are_refused() {
        use Ablation::{Cache, Mining, Mutation, Relaxation, Router, Tuning};
        assert_eq!(conflict(&[], true), None);
        assert_eq!(conflict(&[Tuning, Router, Cache, Mutation, Relaxation], true), None);
        assert!(conflict(&[Mining, Relaxation], true).is_some());
        assert!(conflict(&[Mining, Mutation], true).is_some());
        assert_eq!(conflict(&[Tuning, Router], false), None);
        assert!(conflict(&[Mutation], false).is_some());
    }
}
