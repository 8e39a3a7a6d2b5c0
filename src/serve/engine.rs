//! What answers: opened bases with the bundle that answers on each, exchanged while questions are
//! answered. Must not know HTTP.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
};

use arc_swap::ArcSwapOption;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    bundle::Bundle,
    index::IndexedBase,
    kb::Kb,
    retrieve::Retriever,
    sandbox::{Origin, SandboxOptions},
    systems::{
        self, Need, Opener, SYSTEMS, SystemError,
        bundle::{Effort, OpenedBundle},
    },
};

/// Systems of a base that are kept open.
const MAX_OPEN: usize = 32;

/// Where programs of an origin run.
pub type Places = Arc<dyn Fn(Origin<'_>) -> SandboxOptions + Send + Sync>;

/// One base that is served.
pub struct Served {
    /// Its name in requests.
    pub name: String,
    /// The base.
    pub base: Arc<IndexedBase>,
    active: ArcSwapOption<Active>,
    /// The names of all systems that were asked for, opened once.
    systems: Mutex<HashMap<String, Arc<dyn Retriever>>>,
    opening: Opening,
}

/// What bundles and systems are opened with.
#[derive(Clone)]
pub struct Opening {
    /// Threads that programs of one bundle run on.
    pub threads: usize,
    /// Where they run.
    pub places: Places,
    /// Set when programs are to end.
    pub stop: Arc<AtomicBool>,
}

/// The bundle that answers on a base.
pub(super) struct Active {
    pub(super) about: AboutBundle,
    pub(super) opened: OpenedBundle,
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
    /// A base without a bundle.
    pub fn new(name: &str, base: Arc<IndexedBase>, opening: Opening) -> Served {
        let (active, systems) = (ArcSwapOption::empty(), Mutex::default());
        Served { name: name.to_owned(), base, active, systems, opening }
    }

    /// Reads a bundle, checks that it was made for this base and that all its programs compile, and
    /// lets it answer from now on; questions under way are finished by the one before.
    ///
    /// # Errors
    /// What is wrong with it; the bundle before goes on answering.
    pub fn activate(&self, file: &Path) -> Result<(), SystemError> {
        let bundle = Bundle::read(file)?;
        bundle.check_base(&self.base)?;
        let opened = self.with_opener(|opener| systems::bundle::open(&bundle, opener))?;
        let about = AboutBundle {
            id: bundle.digest.get(..12).unwrap_or(&bundle.digest).to_owned(),
            base: self.name.clone(),
            file: file.display().to_string(),
            categories: bundle.categories.iter().map(about_category).collect(),
        };
        self.active.store(Some(Arc::new(Active { about, opened })));
        Ok(())
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
        let mut open = self.systems.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(system) = open.get(name) {
            return Ok(system.clone());
        }
        let (spec, _) = systems::find(name)?;
        if !stands_alone(spec.needs) || name.contains(':') && spec.arguments.contains("SYSTEM") {
            return Err(SystemError::NotServed(name.to_owned()));
        }
        let system: Arc<dyn Retriever> =
            Arc::from(self.with_opener(|opener| systems::open(name, opener))?);
        if open.len() >= MAX_OPEN {
            open.clear();
        }
        open.insert(name.to_owned(), system.clone());
        Ok(system)
    }

    fn with_opener<T>(
        &self,
        open: impl FnOnce(&Opener<'_>) -> Result<T, SystemError>,
    ) -> Result<T, SystemError> {
        let Opening { threads, places, stop } = &self.opening;
        open(&Opener {
            base: &self.base,
            assistant: None,
            effort: Effort::None,
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
            name: self.name.clone(),
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

fn about_category(category: &crate::bundle::Category) -> AboutCategory {
    let (name, program) = (category.name.clone(), category.program.short_id().to_owned());
    AboutCategory { name, program }
}

/// Whether a system needs nothing that a server has not: parts of the index only.
fn stands_alone(needs: &[Need]) -> bool {
    needs.iter().all(|need| matches!(need, Need::Part(_)))
}

/// The systems that a server offers, as they are written.
pub(super) fn offered() -> Vec<String> {
    let alone = SYSTEMS.iter().filter(|spec| stands_alone(spec.needs));
    alone.filter(|spec| !spec.arguments.contains("SYSTEM")).map(|spec| spec.written()).collect()
}

/// How a bundle is found by the name that a request gives.
pub type Find = Arc<dyn Fn(&str) -> Result<PathBuf, String> + Send + Sync>;
