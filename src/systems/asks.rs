//! How often a system asks a language model for one query, before any is asked. Must not know what a
//! request costs.

use crate::{
    SystemError, answer, ask,
    bundle::{self, Effort},
    expand::{StandsOn, stands_on},
    find, prf, react, rerank,
};
use agent_ask::ASK_ASKS;
use agent_infer::{
    Asks, REACT_ASKS, READ_ASKS, RERANK_ASKS, expand_asks,
    rag::{CHECK_ASKS, WRITE_ASKS},
};
use agent_retrieve::System;

/// What the system of a name asks for one query. What programs ask by themselves is not counted.
///
/// # Errors
/// As [`find`].
pub fn asks(name: &str, effort: Effort) -> Result<Vec<Asks>, SystemError> {
    let (spec, arguments) = find(name)?;
    if let Some(StandsOn { method, inner, times }) = stands_on(spec, arguments)? {
        let own = method.map(expand_asks).unwrap_or_default();
        let below = vec![asks(inner, effort)?; times].concat();
        return Ok([below, own].concat());
    }
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
        name if name == prf::SPEC.name => asks(prf::first(arguments), effort)?,
        name if name == answer::SPEC.name => {
            let (check_query, inner) = answer::parts(arguments)?;
            let check = check_query.then_some(CHECK_ASKS);
            [asks(inner, effort)?, vec![WRITE_ASKS], check.into_iter().collect()].concat()
        }
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

    #[test]
    fn what_expands_counts_its_own_requests_and_those_of_the_system_below_it() {
        let least = |name: &str| -> usize {
            asks(name, Effort::None).unwrap().iter().map(|asks| asks.least).sum()
        };
        let counts = [
            ("kar:graph", 0),
            ("prf", 0),
            ("expand:prf:bm25", 0),
            ("expand:hyde:dense", 1),
            ("expand:rar", 1),
            ("expand:kar=5,3,names", 2),
            ("expand:kar=5,3,no-graph:dense", 2),
            ("expand:agr", 5),
            ("answer", 1),
            ("answer=check:expand:kar", 4),
        ];
        for (name, n) in counts {
            assert_eq!(least(name), n, "{name}");
        }
        let judged = RERANK_ASKS.least;
        assert_eq!(least("expand:hyde:rerank:bm25"), 1 + judged);
        assert_eq!(least("expand:rar:rerank:bm25"), 1 + 2 * judged);
        assert_eq!(least("prf:rerank:bm25"), judged);
        assert!(asks("expand:hyde=9", Effort::None).is_err());
    }
}
