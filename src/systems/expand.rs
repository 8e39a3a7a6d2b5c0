//! The systems `expand:METHOD[=..][:SYSTEM]`, which expand the query of another system, and
//! `kar:graph`, which raises scores near linked entities without a language model.

use crate::{Need, Opener, SystemError, SystemSpec};
use agent_infer::Expander;
use agent_retrieve::{
    Retriever,
    expand::{Boost, Filter, GraphBoost, Method, NO_GRAPH, ONCE, QueryShare, TEXTS},
};

pub(super) const PRF: SystemSpec = SystemSpec {
    name: "expand:prf",
    arguments: "[=DOCUMENTS[,once]][:SYSTEM]",
    summary: "another system, with a query expanded by its first documents; the query is repeated until \
              half of the words are its own, with once it is not (=3,once is the PRF of the KAR paper) \
              [default: 3 documents and bm25+names]",
    needs: &[],
    open: |arguments, opener| {
        let Some((documents, share, inner)) = feedback_of(arguments) else {
            let why = "needs a number of documents from 1 to 7, then once or nothing";
            return Err(PRF.wrong(arguments, why));
        };
        let inner = opener.inner(inner)?;
        Ok(Box::new(Expander::feedback(opener.base.clone(), inner, documents, share)))
    },
};

pub(super) const HYDE: SystemSpec = SystemSpec {
    name: "expand:hyde",
    arguments: "[=N][:SYSTEM]",
    summary: "another system, with a query expanded by N texts that a language model writes to answer it \
              [default: 3 texts and bm25+names]",
    needs: &[Need::Model],
    open: |arguments, opener| by_model(&HYDE, arguments, opener),
};

pub(super) const RAR: SystemSpec = SystemSpec {
    name: "expand:rar",
    arguments: "[=N][:SYSTEM]",
    summary: "as expand:hyde; the model also gets the first 3 documents",
    needs: &[Need::Model],
    open: |arguments, opener| by_model(&RAR, arguments, opener),
};

pub(super) const AGR: SystemSpec = SystemSpec {
    name: "expand:agr",
    arguments: "[=N][:SYSTEM]",
    summary: "as expand:hyde, with one text that the model refines from N texts by an analysis and by \
              documents found with them",
    needs: &[Need::Model],
    open: |arguments, opener| by_model(&AGR, arguments, opener),
};

pub(super) const KAR: SystemSpec = SystemSpec {
    name: "expand:kar",
    arguments: "[=K,N,FILTER][:SYSTEM]",
    summary: "as expand:hyde; the model also gets the linked entities and K neighbours of each, chosen \
              by FILTER (documents, names, unfiltered, no-graph) [default: 10,3,documents]",
    needs: &[Need::Model],
    open: |arguments, opener| by_model(&KAR, arguments, opener),
};

pub(super) const GRAPH: SystemSpec = SystemSpec {
    name: "kar:graph",
    arguments: "[=K,WEIGHT,FILTER]",
    summary: "bm25+names, with higher scores within two edges of linked entities: of each the K best \
              neighbours by FILTER (documents, names), or all (unfiltered) [default: \
              10,0.5,documents]",
    needs: &[],
    open: |arguments, opener| {
        let boost = boost_of(arguments).ok_or_else(|| {
            GRAPH.wrong(arguments, "needs a number from 1 to 40, a weight from 0 to 1, a filter")
        })?;
        Ok(Box::new(GraphBoost::new(opener.base.clone(), boost)))
    },
};

/// The systems that expand queries with a language model.
const BY_MODEL: [&SystemSpec; 4] = [&HYDE, &RAR, &AGR, &KAR];
/// Name of the inner system if the arguments name none.
const INNER: &str = "bm25+names";
/// Maximum number of texts (written by a model, or documents) that expand a query.
const MAX_TEXTS: usize = 7;
/// Default number of neighbours that are used of each linked entity.
const NEIGHBORS: usize = 10;
/// Maximum number of neighbours that are used of each linked entity.
const MAX_NEIGHBORS: usize = 40;

/// Arguments of a system that expands queries, such as `=10,3,names:dense`, after parsing.
struct ParsedArguments<'a, const N: usize> {
    /// The numbers; a default for each number that is not given.
    numbers: [usize; N],
    /// The word after the numbers, such as `names`; `None` if there is none.
    word: Option<&'a str>,
    /// Name of the inner system.
    inner: &'a str,
}

impl<'a, const N: usize> ParsedArguments<'a, N> {
    /// Parses up to `N` numbers, then, only if all `N` are given, a word; then the inner system.
    /// `bounds` holds the default and the maximum of each number; the minimum is 1. `None` if the
    /// arguments are invalid.
    fn read(arguments: &'a str, bounds: [(usize, usize); N]) -> Option<Self> {
        let (own, inner) = arguments.split_once(':').unwrap_or((arguments, INNER));
        let mut parsed = Self { numbers: bounds.map(|bound| bound.0), word: None, inner };
        let Some(own) = own.strip_prefix('=') else { return Some(parsed) };
        for (at, part) in own.split(',').enumerate() {
            match (parsed.numbers.get_mut(at), bounds.get(at)) {
                (Some(number), Some(&(_, max))) => {
                    *number = part.parse().ok().filter(|number| (1..=max).contains(number))?;
                }
                _ if at == N => parsed.word = Some(part),
                _ => return None,
            }
        }
        Some(parsed)
    }
}

/// Finds a filter by its name; `None` if no filter has the name.
fn filter_of(name: &str) -> Option<Filter> {
    Filter::ALL.into_iter().find(|filter| filter.name() == name)
}

/// Parses the arguments of [`PRF`] into the number of documents, the query's share of the expanded
/// query, and the name of the inner system; `None` if the arguments are invalid.
fn feedback_of(arguments: &str) -> Option<(usize, QueryShare, &str)> {
    let ParsedArguments { numbers: [documents], word, inner } =
        ParsedArguments::read(arguments, [(TEXTS, MAX_TEXTS)])?;
    let share = match word {
        None => QueryShare::Half,
        Some(ONCE) => QueryShare::Once,
        Some(_) => return None,
    };
    Some((documents, share, inner))
}

/// Parses the arguments of [`GRAPH`]; `None` if the arguments are invalid.
fn boost_of(arguments: &str) -> Option<Boost> {
    let mut boost = Boost::default();
    let Some(own) = arguments.strip_prefix('=') else { return Some(boost) };
    let mut parts = own.split(',');
    boost.k = parts.next()?.parse().ok().filter(|k| (1..=MAX_NEIGHBORS).contains(k))?;
    if let Some(weight) = parts.next() {
        boost.weight = weight.parse().ok().filter(|weight| (0.0..=1.0).contains(weight))?;
    }
    if let Some(filter) = parts.next() {
        boost.filter = filter_of(filter)?;
    }
    parts.next().is_none().then_some(boost)
}

/// Parses the arguments of one of [`BY_MODEL`] into the method, the number of texts, and the name
/// of the inner system. Fails if the arguments are invalid.
fn method_of<'a>(
    spec: &SystemSpec,
    arguments: &'a str,
) -> Result<(Method, usize, &'a str), SystemError> {
    let wrong = || spec.wrong(arguments, "has invalid arguments, or a number out of bounds");
    if spec.name == KAR.name {
        let bounds = [(NEIGHBORS, MAX_NEIGHBORS), (TEXTS, MAX_TEXTS)];
        let parsed = ParsedArguments::read(arguments, bounds).ok_or_else(wrong)?;
        let filter = match parsed.word {
            None => Some(Filter::Documents),
            Some(NO_GRAPH) => None,
            Some(name) => Some(filter_of(name).ok_or_else(wrong)?),
        };
        let [k, n] = parsed.numbers;
        return Ok((Method::Kar { k, filter }, n, parsed.inner));
    }
    let parsed = ParsedArguments::read(arguments, [(TEXTS, MAX_TEXTS)]).ok_or_else(wrong)?;
    if parsed.word.is_some() {
        return Err(wrong());
    }
    let method = match spec.name {
        name if name == RAR.name => Method::Rar,
        name if name == AGR.name => Method::Agr,
        _ => Method::Hyde,
    };
    let [n] = parsed.numbers;
    Ok((method, n, parsed.inner))
}

fn by_model(
    spec: &SystemSpec,
    arguments: &str,
    opener: &Opener<'_>,
) -> Result<Box<dyn Retriever>, SystemError> {
    let (method, n, inner) = method_of(spec, arguments)?;
    let assistant = opener.model(&format!("{}{arguments}", spec.name))?;
    let inner = opener.inner(inner)?;
    Ok(Box::new(Expander::new(opener.base.clone(), inner, assistant, method, n)))
}

/// How a system that expands queries uses its inner system.
pub(super) struct InnerUse<'a> {
    /// The method of expansion; `None` if it asks no language model.
    pub(super) method: Option<Method>,
    /// Name of the inner system.
    pub(super) inner: &'a str,
    /// Number of times that the inner system is called for one query.
    pub(super) times: usize,
}

/// Returns how the system `spec` uses its inner system; `None` if the system does not expand
/// queries.
///
/// # Errors
/// [`SystemError::Arguments`] if the arguments of a system that asks a language model are invalid.
pub(super) fn inner_use<'a>(
    spec: &SystemSpec,
    arguments: &'a str,
) -> Result<Option<InnerUse<'a>>, SystemError> {
    if spec.name == PRF.name {
        let inner = arguments.split_once(':').map_or(INNER, |pair| pair.1);
        return Ok(Some(InnerUse { method: None, inner, times: 2 }));
    }
    if BY_MODEL.iter().all(|other| other.name != spec.name) {
        return Ok(None);
    }
    let (method, _, inner) = method_of(spec, arguments)?;
    let times = if method == Method::Hyde { 1 } else { 2 };
    Ok(Some(InnerUse { method: Some(method), inner, times }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_filters_and_systems_are_read_within_their_bounds() {
        let kar = |arguments| method_of(&KAR, arguments).ok();
        let by = |k, filter| Method::Kar { k, filter };
        assert_eq!(kar(""), Some((by(10, Some(Filter::Documents)), 3, "bm25+names")));
        assert_eq!(kar("=40,1,names:dense"), Some((by(40, Some(Filter::Names)), 1, "dense")));
        assert_eq!(kar("=5:hybrid"), Some((by(5, Some(Filter::Documents)), 3, "hybrid")));
        assert_eq!(kar("=5,7,no-graph"), Some((by(5, None), 7, "bm25+names")));
        assert_eq!(method_of(&HYDE, "=1:rerank:bm25").ok(), Some((Method::Hyde, 1, "rerank:bm25")));
        for wrong in ["=0", "=41", "=3,8", "=3,0", "=3,3,x", "=3,3,names,1", "=", "=,3"] {
            assert_eq!(kar(wrong), None, "{wrong}");
        }
        assert!(method_of(&RAR, "=3,names").is_err() && method_of(&AGR, "=8").is_err());
        assert_eq!(feedback_of(""), Some((3, QueryShare::Half, "bm25+names")));
        assert_eq!(feedback_of("=5:dense"), Some((5, QueryShare::Half, "dense")));
        assert_eq!(feedback_of("=3,once:bm25"), Some((3, QueryShare::Once, "bm25")));
        for wrong in ["=once", "=0,once", "=8", "=3,twice", "=3,once,1", "=3,"] {
            assert_eq!(feedback_of(wrong), None, "{wrong}");
        }
        let boost = Boost { k: 20, weight: 0.25, filter: Filter::None };
        assert_eq!(boost_of("=20,0.25,unfiltered"), Some(boost));
        for wrong in ["=", "=0", "=1,nan", "=1,2", "=1,1,no-graph", "=1,1,names,1"] {
            assert_eq!(boost_of(wrong), None, "{wrong}");
        }
    }
}
