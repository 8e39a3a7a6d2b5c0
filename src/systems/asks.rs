//! Bounds on the number of requests that a system makes to a language model for one query.

use crate::{
    SystemError, answer, ask,
    bundle::{self, Effort},
    expand::{InnerUse, inner_use},
    find, late, multi, prf, react, rerank,
};
use agent_ask::ASK_ASKS;
use agent_infer::{
    REACT_REQUESTS, READ_REQUESTS, RERANK_REQUESTS, RequestBounds, expand_requests,
    rag::{CHECK_REQUESTS, WRITE_REQUESTS},
};

/// Returns bounds on the number of requests that the system `name` makes to a language model for
/// one query; the total is the sum over the list. Requests by inner systems are included; requests
/// by programs are not.
///
/// # Errors
/// As [`find`]; [`SystemError::Arguments`] if the arguments of the system or of an inner system are
/// invalid.
pub fn request_bounds(name: &str, effort: Effort) -> Result<Vec<RequestBounds>, SystemError> {
    let (spec, arguments) = find(name)?;
    if let Some(InnerUse { method, inner, times }) = inner_use(spec, arguments)? {
        let own = method.map(|(method, texts)| expand_requests(method, texts)).unwrap_or_default();
        let below = vec![request_bounds(inner, effort)?; times].concat();
        return Ok([below, own].concat());
    }
    let of_candidates = |candidates: Option<(&str, usize)>| {
        candidates.map_or(Ok(Vec::new()), |(inner, _)| request_bounds(inner, effort))
    };
    Ok(match spec.name {
        name if name == bundle::SPEC.name => match effort {
            Effort::None => Vec::new(),
            Effort::Reads => vec![READ_REQUESTS],
            Effort::Judges => vec![READ_REQUESTS, RERANK_REQUESTS],
        },
        name if name == rerank::SPEC.name => {
            let (inner, depth) = rerank::parts(arguments)?;
            [request_bounds(inner, effort)?, vec![depth.requests()]].concat()
        }
        _ if multi::is_one(spec) => of_candidates(multi::candidates_of(spec, arguments)?)?,
        name if name == late::COLBERT.name => of_candidates(late::parts(arguments)?.candidates)?,
        name if name == react::SPEC.name => vec![REACT_REQUESTS],
        name if name == ask::SPEC.name && effort > Effort::None => vec![ASK_ASKS],
        name if name == prf::SPEC.name => request_bounds(prf::parts(arguments).1, effort)?,
        name if name == answer::SPEC.name => {
            let (checked, inner) = answer::parts(arguments)?;
            let check = checked.then_some(CHECK_REQUESTS);
            [request_bounds(inner, effort)?, vec![WRITE_REQUESTS], check.into_iter().collect()]
                .concat()
        }
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judged_bundle_is_read_and_judged_and_a_baseline_asks_nothing() {
        let max = |name: &str, effort| -> usize {
            request_bounds(name, effort).unwrap().iter().map(|bounds| bounds.max).sum()
        };
        assert_eq!(max("hybrid", Effort::Judges), 0);
        assert_eq!(max("bundle:x", Effort::None), 0);
        assert_eq!(max("bundle:x", Effort::Reads), READ_REQUESTS.max);
        let judged = READ_REQUESTS.max + RERANK_REQUESTS.max;
        assert_eq!(max("bundle:x", Effort::Judges), judged);
        assert_eq!(max("rerank:bundle:x", Effort::Judges), judged + RERANK_REQUESTS.max);
        assert_eq!(max("react:llm-tools", Effort::None), REACT_REQUESTS.max);
        assert_eq!(max("ask", Effort::None), 0);
        assert_eq!(max("ask", Effort::Reads), ASK_ASKS.max);
        assert!(request_bounds("nothing", Effort::None).is_err());
    }

    #[test]
    fn what_expands_counts_its_own_requests_and_those_of_the_system_below_it() {
        let min = |name: &str| -> usize {
            request_bounds(name, Effort::None).unwrap().iter().map(|bounds| bounds.min).sum()
        };
        let counts = [
            ("kar:graph", 0),
            ("prf", 0),
            ("expand:prf:bm25", 0),
            ("expand:hyde:dense", 1),
            ("expand:rar", 1),
            ("expand:kar=5,3,names", 2),
            ("expand:kar=5,3,no-graph:dense", 2),
            ("expand:kar=5,3,samples", 4),
            ("expand:agr", 5),
            ("answer", 1),
            ("answer=check:expand:kar", 4),
        ];
        for (name, n) in counts {
            assert_eq!(min(name), n, "{name}");
        }
        let judged = RERANK_REQUESTS.min;
        assert_eq!(min("expand:hyde:rerank:bm25"), 1 + judged);
        assert_eq!(min("expand:rar:rerank:bm25"), 1 + 2 * judged);
        assert_eq!(min("prf:rerank:bm25"), judged);
        assert_eq!(min("multi:top3:candidates=rerank:bm25:20"), judged);
        assert_eq!(min("late:candle:x:candidates=rerank:bm25:20"), judged);
        assert_eq!(min("rerank:dense:k=20"), 2);
        assert_eq!(min("rerank:k=5"), 1);
        assert_eq!(min("rerank:rerank:dense:k=100"), 10 + judged);
        assert!(request_bounds("expand:hyde=9", Effort::None).is_err());
    }
}
