//! What answers: opened bases with the bundle that answers on each, exchanged while questions are
//! answered. Must not know HTTP.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicBool},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use serde::Serialize;
use utoipa::ToSchema;

use agent_app::systems::{check_served, needs_base_alone};
use agent_ask::Analyst;
use agent_dataset::{Base, DatasetError, Home, LabelledQuery, Split, Summary, load_split};
use agent_index::{Access, IndexError, IndexedBase};
use agent_infer::{
    Runtime,
    bundle::{Bundle, Category, Fit},
};
use agent_kb::Kb;
use agent_optimize::journal::PREFIX_DIGITS;
use agent_retrieve::Retriever;
use agent_sandbox::{Origin, Place, SandboxOptions, Workers, program::Program};
use agent_systems::{self as systems, Opener, SYSTEMS, SystemError, bundle::Effort};
use agent_tools::{Assistant, ToolCache};

/// Systems of a base that are kept open.
pub(super) const MAX_OPEN: usize = 32;
/// Bundles beside the active one that are kept open; each has threads and a cache of its own.
pub(super) const MAX_OPEN_BUNDLES: usize = 3;
/// Memory for answers of tool calls of programs that clients send, bytes.
pub(super) const LAB_CACHE_BYTES: usize = 16 << 20;

/// Where programs of an origin run.
pub type Places = Arc<dyn Fn(Origin<'_>) -> SandboxOptions + Send + Sync>;

/// One base that is served.
pub struct Served {
    /// Its name in requests.
    pub name: String,
    now: ArcSwap<Opened>,
    /// Held while base or bundle are exchanged, so that no exchange undoes another.
    changing: Mutex<()>,
    opening: Opening,
}

/// A version of a base, with all that answers on it.
pub(super) struct Opened {
    /// The base with its indexes.
    pub(super) base: Arc<IndexedBase>,
    /// Where it is installed; keeps its files.
    pub(super) dataset: Base,
    active: ArcSwapOption<Active>,
    /// The names of all systems that were asked for, opened once.
    systems: Mutex<HashMap<String, Arc<dyn Retriever>>>,
    /// Further bundles by their digests, the one asked for last at the end.
    bundles: Mutex<Vec<(String, Arc<dyn Retriever>)>>,
    queries: Mutex<HashMap<String, Arc<Vec<LabelledQuery>>>>,
    analyst: OnceLock<Analyst>,
    summary: OnceLock<Arc<Summary>>,
    /// What programs of clients run on.
    lab: Mutex<Option<Arc<Runtime>>>,
    opening: Opening,
}

/// What bundles and systems are opened with.
#[derive(Clone)]
pub struct Opening {
    /// Threads that programs of one bundle run on.
    pub threads: usize,
    /// Where they run.
    pub places: Places,
    /// What embedders may need.
    pub access: Access,
    /// Set when programs are to end.
    pub stop: Arc<AtomicBool>,
    /// Who helps bundles to answer, if anybody.
    pub helper: Option<Helper>,
}

/// A language model that helps bundles to answer.
#[derive(Clone)]
pub struct Helper {
    /// Who is asked.
    pub assistant: Arc<Assistant>,
    /// How far questions lean on it at most, and where they do not say.
    pub effort: Effort,
    /// Whether answers that it knows from memory are ignored where it reads a question.
    pub no_known_answers: bool,
    /// Questions that it helps with at a time.
    pub at_a_time: usize,
}

/// Why a base is not exchanged; the one before goes on answering.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotExchanged {
    /// It is not installed any more, or its record is damaged.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Its index is not there, or damaged.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The bundle cannot answer on it.
    #[error(transparent)]
    Bundle(#[from] SystemError),
}

/// The bundle that answers on a base.
pub(super) struct Active {
    pub(super) about: AboutBundle,
    bundle: Bundle,
    alone: Arc<dyn Retriever>,
    helped: Option<Helped>,
}

/// A bundle with a language model.
struct Helped {
    /// Where its programs ask the model: the bundle with no other effort.
    plain: Option<Arc<dyn Retriever>>,
    read: Arc<dyn Retriever>,
    judged: Arc<dyn Retriever>,
}

impl Active {
    /// What answers without a model.
    pub(super) fn alone(&self) -> Arc<dyn Retriever> {
        self.alone.clone()
    }

    /// What answers with a model; none where nothing asks it with this effort.
    pub(super) fn helped(&self, effort: Effort) -> Option<Arc<dyn Retriever>> {
        let helped = self.helped.as_ref()?;
        match effort {
            Effort::None => helped.plain.clone(),
            Effort::Reads => Some(helped.read.clone()),
            Effort::Judges => Some(helped.judged.clone()),
        }
    }

    /// Whether its programs ask a model.
    pub(super) fn asks(&self) -> bool {
        self.bundle.asks()
    }

    /// Its categories with their programs, in its order.
    pub(super) fn categories(&self) -> &[Category] {
        &self.bundle.categories
    }

    /// One of its programs, by at least six digits of its id.
    pub(super) fn program(&self, id: &str) -> Option<&Program> {
        let mut programs = self.bundle.categories.iter().map(|category| &category.program);
        programs.find(|program| id.len() >= PREFIX_DIGITS && program.id().starts_with(id))
    }
}

/// A bundle, as it is told.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct AboutBundle {
    /// The beginning of its digest.
    pub(super) id: String,
    /// The base that it answers on.
    pub(super) base: String,
    /// Its file.
    pub(super) file: String,
    /// Its categories, in its order.
    pub(super) categories: Vec<AboutCategory>,
}

/// A category of a bundle, as it is told.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct AboutCategory {
    /// Its name.
    pub(super) name: String,
    /// The beginning of its program's id.
    pub(super) program: String,
}

/// A base, as it is told.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct AboutBase {
    /// Its name in requests.
    name: String,
    /// Its title.
    title: String,
    /// Its licence.
    licence: String,
    /// Nodes.
    nodes: u32,
    /// Edges.
    edges: u64,
    /// Types, with their nodes.
    types: Vec<AboutType>,
    /// Names of relations.
    relations: Vec<String>,
    /// Names of fields.
    fields: Vec<String>,
    /// Which version of base and index this is.
    fingerprint: String,
}

/// A type of nodes.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct AboutType {
    /// Its name.
    name: String,
    /// Its nodes.
    nodes: usize,
    /// Whether its nodes can be answers.
    candidate: bool,
}

impl Served {
    /// A base without a bundle, named as it is installed.
    pub fn new(dataset: Base, base: Arc<IndexedBase>, opening: Opening) -> Served {
        let name = dataset.name.clone();
        let now = ArcSwap::from_pointee(Opened::new(dataset, base, opening.clone()));
        Served { name, now, changing: Mutex::default(), opening }
    }

    /// Who helps its bundles to answer.
    pub(super) fn helper(&self) -> Option<&Helper> {
        self.opening.helper.as_ref()
    }

    /// What answers now; a request takes it once, so that it sees one version.
    pub(super) fn now(&self) -> Arc<Opened> {
        self.now.load_full()
    }

    /// Reads a bundle, checks that it was made for this base, or an earlier version of it, and that all its programs compile, and
    /// lets it answer from now on; questions under way are finished by the one before.
    ///
    /// # Errors
    /// What is wrong with it, or that its programs ask a model and there is none; the bundle before
    /// goes on answering.
    pub fn activate(&self, file: &Path) -> Result<(), SystemError> {
        let _changing = locked(&self.changing);
        let (bundle, now) = (Bundle::read(file)?, self.now());
        if bundle.fit(&now.base)? == Fit::Updated {
            tracing::warn!("{}", bundle.updated());
        }
        now.activate(bundle, &file.display().to_string(), true)
    }

    /// Opens the version of the base that is installed now, reads and checks all its files, opens a
    /// bundle on it (the one given, or the one that answers), and lets both answer from now on, in
    /// one step. Questions under way are finished on the version before. `force` takes a bundle that
    /// was made for another version.
    ///
    /// # Errors
    /// [`NotExchanged`]; the version before goes on answering.
    pub(super) fn exchange(
        &self,
        home: &Home,
        bundle: Option<&Path>,
        force: bool,
    ) -> Result<(), NotExchanged> {
        let _changing = locked(&self.changing);
        let before = self.now();
        let dataset = home.get(&self.name)?;
        let access = self.opening.access.clone();
        let (kb, index) = (dataset.kb_dir(), dataset.index_dir());
        let base = IndexedBase::open_with(&kb, &index, &self.name, access)?;
        base.verify(&mut |_| ())?;
        let opened = Opened::new(dataset, Arc::new(base), self.opening.clone());
        match (bundle, before.active()) {
            (Some(file), _) => {
                let bundle = Bundle::read(file).map_err(SystemError::from)?;
                opened.activate(bundle, &file.display().to_string(), force)?;
            }
            (None, Some(active)) => {
                opened.activate(active.bundle.clone(), &active.about.file, force)?;
            }
            (None, None) => {}
        }
        self.now.store(Arc::new(opened));
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Opened {
    fn new(dataset: Base, base: Arc<IndexedBase>, opening: Opening) -> Opened {
        Opened {
            base,
            dataset,
            active: ArcSwapOption::empty(),
            systems: Mutex::default(),
            bundles: Mutex::default(),
            queries: Mutex::default(),
            analyst: OnceLock::new(),
            summary: OnceLock::new(),
            lab: Mutex::default(),
            opening,
        }
    }

    /// Its name in requests.
    pub(super) fn name(&self) -> &str {
        &self.dataset.name
    }

    fn activate(&self, bundle: Bundle, file: &str, force: bool) -> Result<(), SystemError> {
        if !force {
            bundle.check_base(&self.base)?;
        }
        let alone = self.with_opener(|opener| systems::bundle::open(&bundle, opener))?;
        let helped = self.helped(&bundle)?;
        let about = AboutBundle {
            id: bundle.digest.get(..12).unwrap_or(&bundle.digest).to_owned(),
            base: self.name().to_owned(),
            file: file.to_owned(),
            categories: bundle.categories.iter().map(about_category).collect(),
        };
        let alone = Arc::from(alone.answers);
        self.active.store(Some(Arc::new(Active { about, bundle, alone, helped })));
        Ok(())
    }

    /// The bundle with the model, where it is to be asked.
    fn helped(&self, bundle: &Bundle) -> Result<Option<Helped>, SystemError> {
        let asks = bundle.asks();
        let Some(helper) = &self.opening.helper else {
            return if asks { Err(SystemError::NoServerModel) } else { Ok(None) };
        };
        if !asks && helper.effort == Effort::None {
            return Ok(None);
        }
        let open = |effort| {
            let assistant = Some(&helper.assistant);
            self.with_opener(|opener| {
                let no_known_answers = helper.no_known_answers;
                let opener = Opener { assistant, effort, no_known_answers, ..*opener };
                systems::bundle::open(bundle, &opener)
            })
        };
        let most = open(helper.effort)?;
        let plain: Option<Arc<dyn Retriever>> = match helper.effort {
            _ if !asks => None,
            Effort::None => Some(most.routed.clone()),
            _ => Some(open(Effort::None)?.routed),
        };
        Ok(Some(Helped { plain, read: most.routed, judged: Arc::from(most.answers) }))
    }

    /// What is in the base; counted by a look at all nodes when it is first asked for.
    pub(super) fn summary(&self) -> Arc<Summary> {
        self.summary.get_or_init(|| Arc::new(Summary::compute(&self.base.kb, &[]))).clone()
    }

    /// The bundle that answers now.
    pub(super) fn active(&self) -> Option<Arc<Active>> {
        self.active.load_full()
    }

    /// A system of the registry that stands on this base alone, opened once.
    ///
    /// # Errors
    /// That there is none of that name, that it needs a file, a model or labelled queries, or a part
    /// of the index that is not there.
    pub(super) fn system(&self, name: &str) -> Result<Arc<dyn Retriever>, SystemError> {
        if let Some(system) = locked(&self.systems).get(name) {
            return Ok(system.clone());
        }
        check_served(name)?;
        let system: Arc<dyn Retriever> =
            Arc::from(self.with_opener(|opener| systems::open(name, opener))?);
        let mut open = locked(&self.systems);
        if open.len() >= MAX_OPEN {
            open.clear();
        }
        open.insert(name.to_owned(), system.clone());
        Ok(system)
    }

    /// The bundle in a file as a system, whether it answers or not; the last ones asked for are kept
    /// open.
    ///
    /// # Errors
    /// That it cannot be read, was made for another base, that a program of it does not compile, or
    /// asks a model.
    pub(super) fn bundle(&self, file: &Path) -> Result<Arc<dyn Retriever>, SystemError> {
        let bundle = Bundle::read(file)?;
        let known = |open: &Vec<(String, Arc<dyn Retriever>)>| {
            open.iter().position(|(digest, _)| *digest == bundle.digest)
        };
        {
            let mut open = locked(&self.bundles);
            if let Some(at) = known(&open) {
                let found = open.remove(at);
                let system = found.1.clone();
                open.push(found);
                return Ok(system);
            }
        }
        bundle.check_base(&self.base)?;
        if bundle.asks() {
            return Err(SystemError::NotServed(format!("bundle:{}", file.display())));
        }
        let opened = self.with_opener(|opener| systems::bundle::open(&bundle, opener))?;
        let system: Arc<dyn Retriever> = Arc::from(opened.answers);
        let mut open = locked(&self.bundles);
        if known(&open).is_none() {
            if open.len() >= MAX_OPEN_BUNDLES {
                open.remove(0);
            }
            open.push((bundle.digest.clone(), system.clone()));
        }
        Ok(system)
    }

    /// The labelled queries of a split, read once.
    ///
    /// # Errors
    /// Those of [`load_split`]; the test split is closed.
    pub(super) fn queries(&self, split: &Split) -> Result<Arc<Vec<LabelledQuery>>, DatasetError> {
        let name = split.to_string();
        if let Some(queries) = locked(&self.queries).get(&name) {
            return Ok(queries.clone());
        }
        let queries = Arc::new(load_split(&self.dataset, split)?);
        locked(&self.queries).insert(name, queries.clone());
        Ok(queries)
    }

    /// The language model that helps, where the server has one.
    pub(super) fn helper(&self) -> Option<&Helper> {
        self.opening.helper.as_ref()
    }

    /// Who answers questions over many nodes.
    pub(super) fn analyst(&self) -> &Analyst {
        self.analyst.get_or_init(|| Analyst::new(self.base.clone()))
    }

    /// What programs of clients run on: always inside WebAssembly.
    ///
    /// # Errors
    /// That the system refuses threads.
    pub(super) fn lab(&self) -> Result<Arc<Runtime>, SystemError> {
        let mut lab = locked(&self.lab);
        if let Some(runtime) = &*lab {
            return Ok(runtime.clone());
        }
        let workers = Workers::new(self.opening.threads).map_err(SystemError::Threads)?;
        let cache = Arc::new(ToolCache::new(LAB_CACHE_BYTES));
        let code_dir = (self.opening.places)(Origin::Elsewhere).code_dir;
        let options = SandboxOptions { place: Place::Wasm, code_dir };
        let runtime =
            Runtime::in_sandbox(self.base.clone(), Arc::new(workers), Some(cache), &options)
                .stoppable(self.opening.stop.clone());
        Ok(lab.insert(Arc::new(runtime)).clone())
    }

    fn with_opener<T>(
        &self,
        open: impl FnOnce(&Opener<'_>) -> Result<T, SystemError>,
    ) -> Result<T, SystemError> {
        let Opening { threads, places, stop, .. } = &self.opening;
        open(&Opener {
            base: &self.base,
            assistant: None,
            effort: Effort::None,
            no_known_answers: false,
            threads: *threads,
            sandbox: &|origin| places(origin),
            queries: &[],
            notice: &|told| tracing::info!("{told}"),
            stop,
            level: 0,
        })
    }

    pub(super) fn about(&self) -> AboutBase {
        let kb: &Kb = &self.base.kb;
        let of_type = |name: &String| {
            let id = kb.type_id(name);
            AboutType {
                name: name.clone(),
                nodes: id.map_or(0, |id| kb.nodes_of_type(id).len()),
                candidate: id.is_some_and(|id| kb.candidate_types().contains(&id)),
            }
        };
        AboutBase {
            name: self.name().to_owned(),
            title: kb.title().to_owned(),
            licence: kb.licence().to_owned(),
            nodes: kb.n_nodes(),
            edges: kb.n_edges(),
            types: kb.types().iter().map(of_type).collect(),
            relations: kb.relations().to_vec(),
            fields: kb.field_names().to_vec(),
            fingerprint: self.base.fingerprint().to_owned(),
        }
    }
}

fn about_category(category: &Category) -> AboutCategory {
    let (name, program) = (category.name.clone(), category.program.short_id().to_owned());
    AboutCategory { name, program }
}

/// The systems that a server offers, as they are written.
pub(super) fn offered() -> Vec<String> {
    let alone = SYSTEMS.iter().filter(|spec| needs_base_alone(spec));
    alone.filter(|spec| !spec.arguments.contains("SYSTEM")).map(|spec| spec.written()).collect()
}

/// How a bundle is found by the name that a request gives.
pub type Find = Arc<dyn Fn(&str) -> Result<PathBuf, String> + Send + Sync>;
