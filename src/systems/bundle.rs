//! `bundle:FILE`: frozen programs with their router. All commands open bundles here.

use std::sync::Arc;

use crate::{Need, Opener, SystemError, SystemSpec, file_of, multi::CANDIDATES};
use agent_infer::{BundleRetriever, Rerank, bundle::Bundle};
use agent_retrieve::Retriever;
use agent_sandbox::Origin;

pub(super) const SPEC: SystemSpec = SystemSpec {
    name: "bundle",
    arguments: ":FILE",
    summary: "the programs of a frozen bundle, chosen by its router",
    needs: &[Need::File],
    open: |arguments, opener| {
        let bundle = Bundle::read(file_of(arguments))?;
        bundle.check_base(opener.base)?;
        Ok(open(&bundle, opener)?.answers)
    },
};

/// How much a bundle or `ask` uses a language model, in ascending order of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Only programs that ask a model use it.
    #[default]
    None,
    /// The model reads the query: category, linked entities, target type, constraints.
    Reads,
    /// The model also scores the first 20 answers, or the first 50 if none of these scores high.
    Judges,
}

impl Effort {
    /// Returns the effort with a number from 0 to 2; `None` for a larger number.
    pub fn from_number(number: u8) -> Option<Effort> {
        [Self::None, Self::Reads, Self::Judges].get(usize::from(number)).copied()
    }
}

/// A bundle opened on a base.
pub struct OpenedBundle {
    /// The bundle's programs and router.
    pub routed: Arc<BundleRetriever>,
    /// The retriever that answers: `routed`, or a reranker over it.
    pub answers: Box<dyn Retriever>,
}

/// Whether `name` names a bundle, as `bundle:FILE` does.
pub fn is_named(name: &str) -> bool {
    SPEC.arguments_of(name).is_some()
}

/// Whether `name` is `bundle:FILE` or contains it as an inner system, as `rerank:bundle:FILE` does.
pub fn is_within(name: &str) -> bool {
    let inner = name.split_once(CANDIDATES).or_else(|| name.split_once(':'));
    is_named(name) || inner.is_some_and(|(_, inner)| is_within(inner))
}

/// Opens a bundle. The caller must check that it fits the base.
///
/// # Errors
/// If one of its programs does not compile, or the effort needs a language model and there is none.
pub fn open(bundle: &Bundle, opener: &Opener<'_>) -> Result<OpenedBundle, SystemError> {
    let runtime = opener.runtime(Origin::Bundle(&bundle.digest))?;
    let mut routed = BundleRetriever::new(runtime, bundle).map_err(|source| {
        SystemError::Failed { what: "the bundle".to_owned(), source: Box::new(source) }
    })?;
    if opener.effort >= Effort::Reads {
        routed = routed.read_by(opener.model("--effort 1")?);
        if opener.no_known_answers {
            routed = routed.without_known_answers();
        }
    }
    let routed = Arc::new(routed);
    let answers: Box<dyn Retriever> = match opener.effort {
        Effort::Judges => {
            let assistant = opener.model("--effort 2")?;
            Box::new(Rerank::new(opener.base.clone(), Box::new(routed.clone()), assistant))
        }
        _ => Box::new(routed.clone()),
    };
    Ok(OpenedBundle { routed, answers })
}
