//! The open bases, each with its active bundle and other open systems. Bases and bundles can be
//! replaced while questions are answered. Does not depend on HTTP.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicBool},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use serde::Serialize;
use utoipa::ToSchema;

use agent_app::systems::{Places, check_served, needs_base_alone};
use agent_ask::Analyst;
use agent_dataset::{Base, DatasetError, Home, LabelledQuery, Split, Summary, load_split};
use agent_ground::locks::locked;
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

use crate::MAX_PROGRAMS;

/// Maximum number of systems that are kept open on a base. When one more is opened, all others are
/// closed.
pub(super) const MAX_OPEN: usize = 32;
/// Maximum number of bundles that are kept open on a base in addition to the active one; each has
/// its own threads and cache.
pub(super) const MAX_OPEN_BUNDLES: usize = 3;
/// Size, in bytes, of each base's cache for the results of tools that programs of clients call.
pub(super) const LAB_CACHE_BYTES: usize = 16 << 20;
/// Maximum memory in bytes of one call of a client's program.
pub(super) const LAB_MEMORY: u64 = 32 << 20;

/// A base that is served, in its current version.
pub struct Served {
    /// Name of the base in requests.
    pub name: String,
    now: ArcSwap<Opened>,
    /// Held while the base or its bundle is replaced, so that no replacement undoes another.
    changing: Mutex<()>,
    pub(super) opening: Opening,
}

/// One version of a base, with all systems that are open on it.
pub(super) struct Opened {
    /// The base with its indexes.
    pub(super) base: Arc<IndexedBase>,
    /// The installed version of the dataset; its files are not removed while this value lives.
    pub(super) dataset: Base,
    active: ArcSwapOption<Active>,
    /// The open systems, by name.
    systems: Mutex<HashMap<String, Arc<dyn Retriever>>>,
    /// The open bundles other than the active one, with their digests; the most recently used
    /// bundle is last.
    bundles: Mutex<Vec<(String, Arc<dyn Retriever>)>>,
    queries: Mutex<HashMap<String, Arc<Vec<LabelledQuery>>>>,
    analyst: OnceLock<Analyst>,
    summary: OnceLock<Arc<Summary>>,
    /// Runtime of programs that clients send; opened when first used.
    lab: Mutex<Option<Arc<Runtime>>>,
    pub(super) opening: Opening,
}

/// How bundles and systems are opened.
#[derive(Clone)]
pub struct Opening {
    /// Number of threads that run the programs of one bundle.
    pub threads: usize,
    /// Maps the origin of programs to the sandbox in which they run.
    pub places: Places,
    /// Resources of embedders: their cache, service and settings.
    pub access: Access,
    /// When set, running programs stop.
    pub stop: Arc<AtomicBool>,
    /// The language model, if the server has one.
    pub helper: Option<Helper>,
}

/// A language model that helps bundles to answer.
#[derive(Clone)]
pub struct Helper {
    /// The language model with its prompts.
    pub assistant: Arc<Assistant>,
    /// Maximum effort of a question; also the default.
    pub effort: Effort,
    /// Whether to ignore answers that the language model suggests from its own knowledge when it
    /// reads a question.
    pub no_known_answers: bool,
    /// Maximum number of questions that use the model at the same time.
    pub at_a_time: usize,
}

/// Why a base is not replaced by a newer version; the previous version stays current.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotExchanged {
    /// The base is no longer installed, or its record is damaged.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The index of the base is missing or damaged.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The bundle cannot answer on the base.
    #[error(transparent)]
    Bundle(#[from] SystemError),
}

/// The active bundle of a base.
pub(super) struct Active {
    pub(super) about: AboutBundle,
    pub(super) bundle: Bundle,
    /// The variant of the bundle that uses no language model.
    pub(super) alone: Arc<dyn Retriever>,
    /// The variants that use a language model, by effort: for [`Effort::None`], only programs ask
    /// the model; for [`Effort::Reads`], it reads the question; for [`Effort::Judges`], it also
    /// judges the first answers. `None` if the bundle uses no model at this effort.
    pub(super) helped: [Option<Arc<dyn Retriever>>; 3],
}

impl Active {
    /// Returns the first program of the bundle whose id begins with `id`; `None` if there is none,
    /// or if `id` has fewer than [`PREFIX_DIGITS`] digits.
    pub(super) fn program(&self, id: &str) -> Option<&Program> {
        let mut programs = self.bundle.categories.iter().map(|category| &category.program);
        programs.find(|program| id.len() >= PREFIX_DIGITS && program.id().starts_with(id))
    }
}

/// Description of a bundle for clients.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct AboutBundle {
    /// Id of the bundle: the first 12 hexadecimal digits of its digest.
    pub(super) id: String,
    /// Name of the base that the bundle answers on.
    pub(super) base: String,
    /// Path of the bundle's file.
    pub(super) file: String,
    /// The bundle's categories, in the order of the bundle.
    pub(super) categories: Vec<AboutCategory>,
}

/// Description of a bundle's category for clients.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct AboutCategory {
    /// Name of the category.
    pub(super) name: String,
    /// First 12 hexadecimal digits of the id of the category's program.
    pub(super) program: String,
}

/// Description of a base for clients.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct AboutBase {
    /// Name of the base in requests.
    name: String,
    /// Title of the base.
    title: String,
    /// Licence of the data.
    licence: String,
    /// Number of nodes.
    nodes: u32,
    /// Number of edges.
    edges: u64,
    /// The types of nodes.
    types: Vec<AboutType>,
    /// Names of all relations.
    relations: Vec<String>,
    /// Names of all fields of nodes.
    fields: Vec<String>,
    /// Fingerprint of this version of the base and its index.
    fingerprint: String,
}

/// A type of nodes, with the number of its nodes.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct AboutType {
    /// Name of the type.
    name: String,
    /// Number of nodes of the type.
    nodes: usize,
    /// Whether nodes of the type can be answers.
    candidate: bool,
}

impl Served {
    /// Serves a base under the name of its dataset, at first without a bundle.
    pub fn new(dataset: Base, base: Arc<IndexedBase>, opening: Opening) -> Served {
        let name = dataset.name.clone();
        let now = ArcSwap::from_pointee(Opened::new(dataset, base, opening.clone()));
        Served { name, now, changing: Mutex::default(), opening }
    }

    /// Returns the current version of the base. A request calls this only once, so that it sees a
    /// single version.
    pub(super) fn now(&self) -> Arc<Opened> {
        self.now.load_full()
    }

    /// Reads a bundle and makes it the active one. The bundle must be made for this base or an
    /// earlier version of the base, and all its programs must compile. Questions in progress are
    /// still answered with the previous bundle.
    ///
    /// # Errors
    /// If the bundle is invalid, or if its programs ask a language model and the server has none.
    /// The previous bundle then stays active.
    pub fn activate(&self, file: &Path) -> Result<(), SystemError> {
        let _changing = locked(&self.changing);
        let (bundle, now) = (Bundle::read(file)?, self.now());
        if bundle.fit(&now.base)? == Fit::Updated {
            tracing::warn!("{}", bundle.updated());
        }
        now.activate(bundle, &file.display().to_string(), true)
    }

    /// Opens the installed version of the base and verifies all its files. Opens a bundle on it
    /// (`bundle`, or else the active one), and makes both current in one step. Questions in
    /// progress are still answered with the previous version. With `force`, the bundle may be made
    /// for another version.
    ///
    /// # Errors
    /// [`NotExchanged`]; the previous version then stays current.
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

    /// Returns the name of the base in requests.
    pub(super) fn name(&self) -> &str {
        &self.dataset.name
    }

    fn activate(&self, bundle: Bundle, file: &str, force: bool) -> Result<(), SystemError> {
        if !force {
            bundle.check_base(&self.base)?;
        }
        let alone = self.with_opener(|opener| systems::bundle::open(&bundle, opener))?;
        let helped = self.helped(&bundle)?;
        let of_category = |category: &Category| AboutCategory {
            name: category.name.clone(),
            program: category.program.short_id().to_owned(),
        };
        let about = AboutBundle {
            id: bundle.digest.get(..12).unwrap_or(&bundle.digest).to_owned(),
            base: self.name().to_owned(),
            file: file.to_owned(),
            categories: bundle.categories.iter().map(of_category).collect(),
        };
        let alone = Arc::from(alone.answers);
        self.active.store(Some(Arc::new(Active { about, bundle, alone, helped })));
        Ok(())
    }

    /// Opens the variants of a bundle that use the language model, see [`Active::helped`].
    ///
    /// # Errors
    /// If programs of the bundle ask a language model and the server has none, or if the bundle
    /// cannot be opened.
    fn helped(&self, bundle: &Bundle) -> Result<[Option<Arc<dyn Retriever>>; 3], SystemError> {
        let asks = bundle.asks();
        let Some(helper) = &self.opening.helper else {
            return if asks { Err(SystemError::NoServerModel) } else { Ok(Default::default()) };
        };
        if !asks && helper.effort == Effort::None {
            return Ok(Default::default());
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
        Ok([plain, Some(most.routed), Some(Arc::from(most.answers))])
    }

    /// Returns the summary of the base. The first call computes the summary from all nodes.
    pub(super) fn summary(&self) -> Arc<Summary> {
        self.summary.get_or_init(|| Arc::new(Summary::compute(&self.base.kb, &[]))).clone()
    }

    /// Returns the active bundle; `None` if there is none.
    pub(super) fn active(&self) -> Option<Arc<Active>> {
        self.active.load_full()
    }

    /// Returns the system with this name, which must need nothing but this base. The system stays
    /// open for further requests.
    ///
    /// # Errors
    /// If no system has this name; if the system needs a file, a model or labelled queries, or
    /// wraps another system that has arguments; if the index does not have a part that the system
    /// needs.
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

    /// Returns the bundle in a file as a system, whether it is active or not. The
    /// [`MAX_OPEN_BUNDLES`] most recently used bundles stay open.
    ///
    /// # Errors
    /// If the bundle cannot be read or was made for another base, or if one of its programs does
    /// not compile or asks a language model.
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

    /// Returns the labelled queries of a split. The first call for a split reads them from disk.
    ///
    /// # Errors
    /// The error of [`load_split`], which also fails for the test split.
    pub(super) fn queries(&self, split: &Split) -> Result<Arc<Vec<LabelledQuery>>, DatasetError> {
        let name = split.to_string();
        if let Some(queries) = locked(&self.queries).get(&name) {
            return Ok(queries.clone());
        }
        let queries = Arc::new(load_split(&self.dataset, split)?);
        locked(&self.queries).insert(name, queries.clone());
        Ok(queries)
    }

    /// Returns the analyst, which answers questions over many nodes.
    pub(super) fn analyst(&self) -> &Analyst {
        self.analyst.get_or_init(|| Analyst::new(self.base.clone()))
    }

    /// Returns the runtime of programs that clients send; it always runs them in WebAssembly.
    ///
    /// # Errors
    /// If the operating system refuses to start threads.
    pub(super) fn lab(&self) -> Result<Arc<Runtime>, SystemError> {
        let mut lab = locked(&self.lab);
        if let Some(runtime) = &*lab {
            return Ok(runtime.clone());
        }
        let workers = Workers::new(MAX_PROGRAMS).map_err(SystemError::Threads)?;
        let cache = Arc::new(ToolCache::new(LAB_CACHE_BYTES));
        let code_dir = self.opening.places.of(Origin::Elsewhere).code_dir;
        let options = SandboxOptions { place: Place::Wasm, code_dir };
        let runtime =
            Runtime::in_sandbox(self.base.clone(), Arc::new(workers), Some(cache), &options)
                .stoppable(self.opening.stop.clone())
                .with_memory(LAB_MEMORY);
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
            sandbox: &|origin| places.of(origin),
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

/// Returns the names of the systems that a server offers, with their arguments, as in requests.
pub(super) fn offered() -> Vec<String> {
    let alone = SYSTEMS.iter().filter(|spec| needs_base_alone(spec));
    alone.filter(|spec| !spec.arguments.contains("SYSTEM")).map(|spec| spec.written()).collect()
}
