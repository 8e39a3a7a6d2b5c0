//! An opened base: its nodes, its labelled queries, and the systems that search it.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use agent::{
    app::private::sandbox_of_user,
    ask::{Analyst, AskRecord},
    bundle::{Bundle, BundleError},
    dataset::{self, Home, ResolvedDataset, Split, load_split},
    index::IndexedBase,
    infer::{ParamValues, ProgramRetriever},
    kb::NodeId,
    program::Program,
    retrieve::{Retriever, check_query},
    sandbox::{Origin, Place, SandboxOptions},
    systems::{self, Opener, SYSTEMS, SystemError, bundle::Effort},
};
use pyo3::prelude::*;

use crate::{
    failure::{Failure, without_gil},
    system::System,
};

/// A base with its indexes, shared by all systems that are opened on it.
#[pyclass(frozen)]
pub(crate) struct Base {
    /// Keeps the opened version from being removed.
    pub(crate) installed: dataset::Base,
    pub(crate) indexed: Arc<IndexedBase>,
    pub(crate) home: Home,
}

/// Returns the names of all systems, as the command line takes them, each with a description.
#[pyfunction(name = "systems")]
pub(crate) fn all_systems() -> Vec<(String, &'static str)> {
    SYSTEMS.iter().map(|spec| (spec.written(), spec.summary)).collect()
}

/// Resolves where programs in Rhai run: the place with this name, or without a name the place that
/// the origin of the program allows.
fn sandbox(name: Option<&str>, origin: Origin<'_>) -> Result<SandboxOptions, Failure> {
    let by_rule = sandbox_of_user(origin);
    let place = match name {
        None => by_rule.place,
        Some("rhai") => Place::Process,
        Some("wasm") => Place::Wasm,
        Some(other) => {
            return Err(Failure::hinted(
                format!("unknown sandbox {other:?}"),
                "give \"rhai\", \"wasm\" or None",
            ));
        }
    };
    Ok(SandboxOptions { place, ..by_rule })
}

impl Base {
    /// Opens a system on the base; `open` gets the opener of systems, which has no language model.
    fn opened<T>(
        &self,
        place: Option<&str>,
        open: impl FnOnce(&Opener<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // An unknown place is an error before anything is opened.
        sandbox(place, Origin::Elsewhere)?;
        let stop = Arc::new(AtomicBool::new(false));
        open(&Opener {
            base: &self.indexed,
            assistant: None,
            effort: Effort::None,
            no_known_answers: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            sandbox: &|origin| sandbox(place, origin).unwrap_or_default(),
            queries: &[],
            notice: &|_| {},
            stop: &stop,
            level: 0,
        })
    }

    fn system_of(&self, answers: Box<dyn Retriever>) -> System {
        System { base: self.indexed.clone(), answers: answers.into() }
    }

    fn node_id(&self, node: NodeId) -> Result<NodeId, Failure> {
        let n = self.indexed.kb.n_nodes();
        match node < n {
            true => Ok(node),
            false => Err(Failure::hinted(
                format!("there is no node {node}"),
                format!("the base has {n} nodes, from 0"),
            )),
        }
    }
}

#[pymethods]
impl Base {
    /// Opens an installed base, or a directory that was imported before.
    #[staticmethod]
    fn open(py: Python<'_>, name: String, home: Option<PathBuf>) -> PyResult<Self> {
        without_gil(py, || {
            let home = match home.or_else(Home::platform_default) {
                Some(path) => Home::new(path),
                None => {
                    return Err(Failure::hinted(
                        "this platform has no data directory for the user",
                        "give home=DIR or set AGENT_HOME",
                    ));
                }
            };
            let installed = match home.resolve(&name)? {
                ResolvedDataset::Installed(base) | ResolvedDataset::ImportedDirectory(base) => base,
                ResolvedDataset::NewDirectory { .. } => {
                    return Err(Failure::hinted(
                        format!("{name} is a directory that was not imported"),
                        format!("run `agent data import --from {name}` and `agent index` first"),
                    ));
                }
            };
            let (kb, index) = (installed.kb_dir(), installed.index_dir());
            let indexed = Arc::new(IndexedBase::open(&kb, &index, &installed.name)?);
            Ok(Self { installed, indexed, home })
        })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.installed.name
    }

    #[getter]
    fn title(&self) -> &str {
        self.indexed.kb.title()
    }

    #[getter]
    fn fingerprint(&self) -> &str {
        &self.installed.record.fingerprint
    }

    #[getter]
    fn n_nodes(&self) -> u32 {
        self.indexed.kb.n_nodes()
    }

    #[getter]
    fn types(&self) -> Vec<String> {
        self.indexed.kb.types().to_vec()
    }

    #[getter]
    fn relations(&self) -> Vec<String> {
        self.indexed.kb.relations().to_vec()
    }

    /// Returns key, type, name, document, and fields of a node.
    #[expect(clippy::type_complexity, reason = "a tuple for Python, read in one place")]
    fn node(
        &self,
        py: Python<'_>,
        node: NodeId,
    ) -> PyResult<(String, String, String, String, Vec<(String, String)>)> {
        without_gil(py, || {
            let (kb, node) = (&self.indexed.kb, self.node_id(node)?);
            let names = kb.field_names();
            let field = |(field, text): (agent::kb::FieldId, &str)| {
                (names[usize::from(field.0)].clone(), text.to_owned())
            };
            Ok((
                kb.key(node).into_owned(),
                kb.type_name(kb.node_type(node)).to_owned(),
                kb.name(node).to_owned(),
                kb.text(node).to_owned(),
                kb.fields(node).map(field).collect(),
            ))
        })
    }

    /// Loads the labelled queries of a split or a file: id, text, answers.
    fn queries(&self, py: Python<'_>, split: String) -> PyResult<Vec<(i64, String, Vec<NodeId>)>> {
        without_gil(py, || {
            let Ok(split) = split.parse::<Split>();
            let queries = load_split(&self.installed, &split)?;
            Ok(queries.into_iter().map(|one| (one.id, one.text, one.answers)).collect())
        })
    }

    /// Opens a system by its name on the command line.
    fn system(&self, py: Python<'_>, name: String, place: Option<String>) -> PyResult<System> {
        without_gil(py, || {
            let answers =
                self.opened(place.as_deref(), |opener| Ok(systems::open(&name, opener)?))?;
            Ok(self.system_of(answers))
        })
    }

    /// Opens a frozen bundle from its file; with `force` also a bundle of another base.
    fn bundle(
        &self,
        py: Python<'_>,
        file: PathBuf,
        force: bool,
        place: Option<String>,
    ) -> PyResult<System> {
        without_gil(py, || {
            let bundle = Bundle::read(&file).map_err(SystemError::from)?;
            match bundle.check_base(&self.indexed) {
                Err(BundleError::OtherBase { .. }) if force => {}
                checked => checked.map_err(SystemError::from)?,
            }
            let opened = self
                .opened(place.as_deref(), |opener| Ok(systems::bundle::open(&bundle, opener)?))?;
            Ok(self.system_of(opened.answers))
        })
    }

    /// Compiles a program: its source in Rhai, or the bytes of a WebAssembly module.
    fn program(
        &self,
        py: Python<'_>,
        source: Vec<u8>,
        parameters: ParamValues,
        place: Option<String>,
    ) -> PyResult<System> {
        without_gil(py, || {
            let program = match source.starts_with(b"\0asm") {
                true => Program::module(&source),
                false => Program::new(&String::from_utf8(source)?),
            };
            let answers = self.opened(place.as_deref(), |opener| {
                let runtime = opener.runtime(Origin::Elsewhere)?;
                let opened = ProgramRetriever::new(runtime, &program, parameters);
                opened.map_err(|failure| Failure::Told(failure.to_string(), None))
            })?;
            Ok(self.system_of(Box::new(answers)))
        })
    }

    /// Answers a question over many nodes; returns the JSON that `agent ask --json` prints.
    fn ask(&self, py: Python<'_>, question: String) -> PyResult<String> {
        without_gil(py, || {
            let (question, analyst) = (check_query(&question)?, Analyst::new(self.indexed.clone()));
            let began = Instant::now();
            let answered = analyst.ask(question)?;
            let ms = began.elapsed().as_secs_f64() * 1e3;
            let record = AskRecord::new(question, &answered, &self.indexed.kb, usize::MAX, ms);
            Ok(serde_json::to_string(&record)?)
        })
    }
}
