//! The systems `expand:METHOD[=..][:SYSTEM]`, which expand the query of another system, and
//! `kar:graph`, which raises scores near linked entities without a language model.

use crate::{Need, Opener, SystemError, SystemSpec};
use agent_infer::Expander;
use agent_retrieve::{
    Retriever,
    expand::{
        Boost, Filter, GraphBoost, Method, NO_GRAPH, ONCE, QueryShare, SAMPLES, TEXTS, TextPlan,
    },
};

pub(super) const PRF: SystemSpec = SystemSpec {
    name: "expand:prf",
    arguments: "[=DOCUMENTS[,once]][:SYSTEM]",
    summary: "another system, with a query expanded by its first documents; the query is repeated \
              until it is half of the words or, with once, not repeated (=3,once is the PRF of the \
              KAR paper) [default: 3 documents and bm25+names]",
    needs: &[],
    open: |arguments, opener| {
        let Some((documents, share, inner)) = feedback_of(arguments) else {
            let why = "needs a number of documents from 1 to 7, optionally followed by once";
            return Err(PRF.wrong(arguments, why));
        };
        let inner = opener.inner(inner)?;
        Ok(Box::new(Expander::feedback(opener.base.clone(), inner, documents, share)))
    },
};

pub(super) const HYDE: SystemSpec = SystemSpec {
    name: "expand:hyde",
    arguments: "[=N[,samples]][:SYSTEM]",
    summary: "another system, with a query expanded by N texts: answers that a language model writes, \
              all in one reply or, with samples, each in its own reply [default: 3 texts and \
              bm25+names]",
    needs: &[Need::Model],
    open: |arguments, opener| by_model(&HYDE, arguments, opener),
};

pub(super) const RAR: SystemSpec = SystemSpec {
    name: "expand:rar",
    summary: "as expand:hyde; the model also gets the first 3 documents",
    open: |arguments, opener| by_model(&RAR, arguments, opener),
    ..HYDE
};

pub(super) const AGR: SystemSpec = SystemSpec {
    name: "expand:agr",
    summary: "as expand:hyde, with one text: the model analyses the query, writes N drafts, rewrites \
              them with documents that they find, and merges them",
    open: |arguments, opener| by_model(&AGR, arguments, opener),
    ..HYDE
};

pub(super) const KAR: SystemSpec = SystemSpec {
    name: "expand:kar",
    arguments: "[=K,N,FILTER[,samples]][:SYSTEM]",
    summary: "as expand:hyde; the model also gets the linked entities and K neighbours of each, chosen \
              by FILTER (documents by the embedder, or words by BM25; ablations: names or no-drf, \
              name-words, unfiltered, no-graph or no-kg) [default: 10,3 and documents; words with the \
              built-in embedder]",
    needs: &[Need::Model],
    open: |arguments, opener| by_model(&KAR, arguments, opener),
};

pub(super) const GRAPH: SystemSpec = SystemSpec {
    name: "kar:graph",
    arguments: "[=K,WEIGHT,FILTER]",
    summary: "bm25+names, with higher scores for nodes within two edges of linked entities: the K best \
              of each entity by FILTER (words, documents, names, name-words), or all (unfiltered) \
              [default: 10,0.5,words]",
    needs: &[],
    open: |arguments, opener| {
        let boost = boost_of(arguments).ok_or_else(|| {
            GRAPH.wrong(arguments, "needs a number from 1 to 40, a weight from 0 to 1 and a filter")
        })?;
        Ok(Box::new(GraphBoost::new(opener.base.clone(), boost)))
    },
};

/// Names of ablations in the KAR paper: "w/o DRF" (document-based relation filtering), "w/o KG".
const NO_DRF: &str = "no-drf";
const NO_KG: &str = "no-kg";
/// The systems that expand queries with a language model.
const BY_MODEL: [&SystemSpec; 4] = [&HYDE, &RAR, &AGR, &KAR];
/// Name of the inner system if the arguments name none.
const INNER: &str = "bm25+names";
/// Maximum number of texts (written by a model, or documents) that expand a query.
const MAX_TEXTS: usize = 7;
/// Default number of neighbours used per linked entity.
const NEIGHBORS: usize = 10;
/// Maximum number of neighbours used per linked entity.
const MAX_NEIGHBORS: usize = 40;

/// Arguments of a system that expands queries, such as `=10,3,names:dense`, after parsing.
struct ParsedArguments<'a, const N: usize> {
    /// The numbers, with the default in place of each number that is not given.
    numbers: [usize; N],
    /// The words after the numbers, such as `names`.
    words: Vec<&'a str>,
    /// Name of the inner system.
    inner: &'a str,
}

impl<'a, const N: usize> ParsedArguments<'a, N> {
    /// Parses up to `N` numbers, then words (only after all `N` numbers), then the inner system.
    /// `bounds` holds the default and the maximum of each number; the minimum is 1. `None` if the
    /// arguments are invalid.
    fn read(arguments: &'a str, bounds: [(usize, usize); N]) -> Option<Self> {
        let (own, inner) = arguments.split_once(':').unwrap_or((arguments, INNER));
        let mut parsed = Self { numbers: bounds.map(|bound| bound.0), words: Vec::new(), inner };
        let Some(own) = own.strip_prefix('=') else { return Some(parsed) };
        for (at, part) in own.split(',').enumerate() {
            match (parsed.numbers.get_mut(at), bounds.get(at)) {
                (Some(number), Some(&(_, max))) => {
                    *number = part.parse().ok().filter(|number| (1..=max).contains(number))?;
                }
                _ => parsed.words.push(part),
            }
        }
        Some(parsed)
    }

    /// Removes the word [`SAMPLES`] from the end; returns whether it was there.
    fn is_sampled(&mut self) -> bool {
        self.words.pop_if(|word| *word == SAMPLES).is_some()
    }
}

/// Finds a filter by its name, or by the name of the paper's ablation; `None` if there is no such
/// filter.
fn filter_of(name: &str) -> Option<Filter> {
    let name = if name == NO_DRF { Filter::Names.name() } else { name };
    Filter::ALL.into_iter().find(|filter| filter.name() == name)
}

/// Parses the arguments of [`PRF`] into the number of documents, the query's share of the expanded
/// query, and the name of the inner system; `None` if the arguments are invalid.
fn feedback_of(arguments: &str) -> Option<(usize, QueryShare, &str)> {
    let ParsedArguments { numbers: [documents], words, inner } =
        ParsedArguments::read(arguments, [(TEXTS, MAX_TEXTS)])?;
    let share = match *words {
        [] => QueryShare::Half,
        [ONCE] => QueryShare::Once,
        _ => return None,
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

/// Parses the arguments of one of [`BY_MODEL`] into the method, its [`TextPlan`], and the name of
/// the inner system; `filter` is the default filter of KAR. Fails if the arguments are invalid.
fn method_of<'a>(
    spec: &SystemSpec,
    arguments: &'a str,
    filter: Filter,
) -> Result<(Method, TextPlan, &'a str), SystemError> {
    let wrong = || spec.wrong(arguments, "has invalid arguments, or a number out of bounds");
    if spec.name == KAR.name {
        let bounds = [(NEIGHBORS, MAX_NEIGHBORS), (TEXTS, MAX_TEXTS)];
        let mut parsed = ParsedArguments::read(arguments, bounds).ok_or_else(wrong)?;
        let sampled = parsed.is_sampled();
        let filter = match *parsed.words {
            [] => Some(filter),
            [NO_GRAPH | NO_KG] => None,
            [name] => Some(filter_of(name).ok_or_else(wrong)?),
            _ => return Err(wrong()),
        };
        let [k, n] = parsed.numbers;
        return Ok((Method::Kar { k, filter }, TextPlan { n, sampled }, parsed.inner));
    }
    let mut parsed = ParsedArguments::read(arguments, [(TEXTS, MAX_TEXTS)]).ok_or_else(wrong)?;
    let sampled = parsed.is_sampled();
    if !parsed.words.is_empty() {
        return Err(wrong());
    }
    let method = match spec.name {
        name if name == RAR.name => Method::Rar,
        name if name == AGR.name => Method::Agr,
        _ => Method::Hyde,
    };
    let [n] = parsed.numbers;
    Ok((method, TextPlan { n, sampled }, parsed.inner))
}

fn by_model(
    spec: &SystemSpec,
    arguments: &str,
    opener: &Opener<'_>,
) -> Result<Box<dyn Retriever>, SystemError> {
    let (method, texts, inner) = method_of(spec, arguments, Filter::of(opener.base))?;
    let assistant = opener.model(&format!("{}{arguments}", spec.name))?;
    let inner = opener.inner(inner)?;
    Ok(Box::new(Expander::new(opener.base.clone(), inner, assistant, method, texts)))
}

/// How a system that expands queries uses its inner system.
pub(super) struct InnerUse<'a> {
    /// The method of expansion, and how many texts the model writes for it; `None` if the system
    /// uses no language model.
    pub(super) method: Option<(Method, TextPlan)>,
    /// Name of the inner system.
    pub(super) inner: &'a str,
    /// Number of times that the inner system is called for one query.
    pub(super) times: usize,
}

/// Returns how the system `spec` uses its inner system; `None` if the system does not expand
/// queries.
///
/// # Errors
/// [`SystemError::Arguments`] if the arguments of a system that uses a language model are invalid.
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
    // The filter does not matter here, because filters make no requests.
    let (method, texts, inner) = method_of(spec, arguments, Filter::Documents)?;
    let times = if method == Method::Hyde { 1 } else { 2 };
    Ok(Some(InnerUse { method: Some((method, texts)), inner, times }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_filters_and_systems_are_read_within_their_bounds() {
        let read = |spec, arguments| method_of(spec, arguments, Filter::Words).ok();
        let kar = |arguments| read(&KAR, arguments);
        let by = |k, filter| Method::Kar { k, filter };
        let texts = |n| TextPlan { n, sampled: false };
        let sampled = |n| TextPlan { n, sampled: true };
        assert_eq!(kar(""), Some((by(10, Some(Filter::Words)), texts(3), "bm25+names")));
        assert_eq!(
            kar("=40,1,names:dense"),
            Some((by(40, Some(Filter::Names)), texts(1), "dense"))
        );
        assert_eq!(kar("=5:hybrid"), Some((by(5, Some(Filter::Words)), texts(3), "hybrid")));
        assert_eq!(kar("=5,7,no-graph"), Some((by(5, None), texts(7), "bm25+names")));
        assert_eq!(kar("=5,7,no-kg"), kar("=5,7,no-graph"));
        assert_eq!(kar("=5,7,no-drf"), kar("=5,7,names"));
        let documents = by(10, Some(Filter::Documents));
        assert_eq!(kar("=10,3,documents,samples:x"), Some((documents, sampled(3), "x")));
        assert_eq!(kar("=10,2,samples:x"), Some((by(10, Some(Filter::Words)), sampled(2), "x")));
        let hyde = (Method::Hyde, texts(1), "rerank:bm25");
        assert_eq!(read(&HYDE, "=1:rerank:bm25"), Some(hyde));
        assert_eq!(read(&RAR, "=2,samples"), Some((Method::Rar, sampled(2), "bm25+names")));
        for wrong in ["=0", "=41", "=3,8", "=3,0", "=3,3,x", "=3,3,names,1", "=", "=,3"] {
            assert_eq!(kar(wrong), None, "{wrong}");
        }
        assert!(read(&RAR, "=3,names").is_none() && read(&AGR, "=8").is_none());
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
