//! How often a system asks a language model for one query, before any is asked. Must not know what a
//! request costs.

use crate::{
    ask::ASK_ASKS,
    infer::{Asks, REACT_ASKS, READ_ASKS, RERANK_ASKS},
    retrieve::System,
    systems::{SystemError, ask, bundle, bundle::Effort, find, react, rerank},
};

/// What the system of a name asks for one query. What programs ask by themselves is not counted.
///
/// # Errors
/// As [`find`].
pub fn asks(name: &str, effort: Effort) -> Result<Vec<Asks>, SystemError> {
    let (spec, arguments) = find(name)?;
    Ok(match spec.name {
        name if name == bundle::SPEC.name => match effort {
            Effort::None => Vec::new(),
            Effort::Reads => vec![READ_ASKS],
            Effort::Judges => vec![READ_ASKS, RERANK_ASKS],
        },
        name if name == rerank::SPEC.name => {
            let inner = arguments.strip_prefix(':').unwrap_or(System::Hybrid.name());
            [asks(inner, effort)?, vec![RERANK_ASKS]].concat()
        }
        name if name == react::SPEC.name => vec![REACT_ASKS],
        name if name == ask::SPEC.name && effort > Effort::None => vec![ASK_ASKS],
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judged_bundle_is_read_and_judged_and_a_baseline_asks_nothing() {
        let most = |name: &str, effort| -> usize {
            asks(name, effort).unwrap().iter().map(|asks| asks.most).sum()
        };
        assert_eq!(most("hybrid", Effort::Judges), 0);
        assert_eq!(most("bundle:x", Effort::None), 0);
        assert_eq!(most("bundle:x", Effort::Reads), READ_ASKS.most);
        let judged = READ_ASKS.most + RERANK_ASKS.most;
        assert_eq!(most("bundle:x", Effort::Judges), judged);
        assert_eq!(most("rerank:bundle:x", Effort::Judges), judged + RERANK_ASKS.most);
        assert_eq!(most("react:llm-tools", Effort::None), REACT_ASKS.most);
        assert_eq!(most("ask", Effort::None), 0);
        assert_eq!(most("ask", Effort::Reads), ASK_ASKS.most);
        assert!(asks("nothing", Effort::None).is_err());
    }
}
