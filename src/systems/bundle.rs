//! The system `bundle:FILE`: frozen programs; a router chooses a program for each query. All
//! commands open bundles with [`open`].

use std::sync::Arc;

use crate::{Opener, SystemError, SystemSpec, file_of, multi::CANDIDATES};
use agent_infer::{BundleRetriever, Rerank, bundle::Bundle};
use agent_retrieve::Retriever;
use agent_sandbox::Origin;

pub(super) const SPEC: SystemSpec = SystemSpec::of_file(
    "bundle",
    "the programs of a frozen bundle, chosen by its router",
    |arguments, opener| {
        let bundle = Bundle::read(file_of(arguments))?;
        bundle.check_base(opener.base)?;
        Ok(open(&bundle, opener)?.answers)
    },
);

/// How much a bundle or the system `ask` uses a language model; a greater effort makes more
/// requests. For `ask`: with `Reads`, the model plans only the questions that the rules cannot
/// read; with `Judges`, it plans all questions. The variants below describe bundles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// The model is used only by programs that ask it.
    #[default]
    None,
    /// The model also reads the query: its category, entities, target type, conditions.
    Reads,
    /// The model also scores the first 10 answers, and up to 50 if none of these scores high.
    Judges,
}

impl Effort {
    /// Returns the effort with this number, from 0 ([`Effort::None`]) to 2 ([`Effort::Judges`]);
    /// `Option::None` for a larger number.
    pub fn from_number(number: u8) -> Option<Effort> {
        [Self::None, Self::Reads, Self::Judges].get(usize::from(number)).copied()
    }
}

/// A bundle that is opened on a base and can answer queries.
pub struct OpenedBundle {
    /// The bundle's programs with their router.
    pub routed: Arc<BundleRetriever>,
    /// The retriever to use for queries: `routed`, or, with [`Effort::Judges`], a reranker over
    /// `routed`.
    pub answers: Box<dyn Retriever>,
}

/// Whether the system name `name` has the form `bundle:FILE`.
pub fn is_named(name: &str) -> bool {
    SPEC.arguments_of(name).is_some()
}

/// Whether the system name `name` is `bundle:FILE` or contains `bundle:FILE` as an inner system, as
/// `rerank:bundle:FILE` does.
pub fn is_within(name: &str) -> bool {
    let inner = name.split_once(CANDIDATES).or_else(|| name.split_once(':'));
    is_named(name) || inner.is_some_and(|(_, inner)| is_within(inner))
}

/// Opens a bundle on the opener's base. The caller must check that the bundle fits the base, with
/// [`Bundle::check_base`].
///
/// # Errors
/// If a program of the bundle does not compile, if threads cannot be started, or if the effort
/// needs a language model and none is configured.
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
