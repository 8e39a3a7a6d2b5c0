//! The language model of a run: whether it takes part, its name and its cost. Over a network, it is
//! the server's. Must not know the requests.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    App, Explain, Result,
    llm::{self, LlmArgs},
    optimize::{Actor, Request, run::Run},
};
use agent_llm::{
    Role,
    ledger::{Price, Spending},
};
use agent_optimize::{ACTOR_ROLE, Actors};
use agent_tools::Assistant;

/// Actors and model of a new run.
pub(super) struct Start {
    pub(super) actors: Actors,
    /// The model of the llm actor, if it takes part.
    pub(super) model: Option<Described>,
}

/// A model as recorded in a run's configuration.
#[derive(Default)]
pub(super) struct Described {
    pub(super) name: Option<String>,
    pub(super) prices: BTreeMap<String, Price>,
}

/// The opened model of a run.
pub(super) struct Model {
    pub(super) opened: llm::Opened,
    /// Spending before this run: 0, or the server's.
    before: Spending,
}

impl Model {
    /// Returns the model with its prompts.
    pub(super) fn assistant(&self) -> &Arc<Assistant> {
        &self.opened.assistant
    }

    /// Returns the name of the llm actor's model; empty if unknown.
    pub(super) fn name(&self) -> &str {
        name_in(self.assistant()).unwrap_or_default()
    }

    /// Returns the run's spending; except over a network, with that of earlier processes.
    pub(super) fn spent(&self) -> Spending {
        self.assistant().llm().ledger().total().since(self.before)
    }
}

fn name_in(assistant: &Assistant) -> Option<&str> {
    assistant.llm().role(&role()).map(|settings| settings.model.as_str())
}

fn role() -> Role {
    ACTOR_ROLE.role()
}

/// Returns the actors of a request; `None` if it names none.
pub(super) fn named_actors(request: &Request) -> Option<Actors> {
    let has = |actor| request.actor.contains(&actor);
    (!request.actor.is_empty()).then(|| Actors { search: has(Actor::Search), llm: has(Actor::Llm) })
}

/// Returns the actors of a new run.
///
/// # Errors
/// If the settings of the language model are invalid.
pub(super) fn new_actors(request: &Request, app: &App) -> Result<Actors> {
    if let Some(named) = named_actors(request) {
        return Ok(named);
    }
    let is_configured = match &app.network {
        Some(network) => network.model.is_some(),
        None => llm::configured(app, request.llm.model.as_deref())?.is_some(),
    };
    Ok(Actors { search: true, llm: !request.resume && is_configured })
}

/// Returns actors and model of a new run, and checks that a model that takes part is usable.
///
/// # Errors
/// If it is not usable.
pub(super) fn check(request: &Request, app: &App) -> Result<Start> {
    let actors = new_actors(request, app)?;
    let is_needed = !request.resume && actors.llm || request.actor.contains(&Actor::Llm);
    let model = is_needed.then(|| described(request, app)).transpose();
    let model = model.hint("or use --actor search, which needs no language model")?;
    Ok(Start { actors, model })
}

fn described(request: &Request, app: &App) -> Result<Described> {
    if app.network.is_some() {
        let opened = llm::open(&request.llm, None, app)?;
        let name = name_in(&opened.assistant).map(str::to_owned);
        return Ok(Described { name, prices: BTreeMap::new() });
    }
    let configured = llm::check(&request.llm, app)?;
    let name = configured.model(&role()).map(str::to_owned);
    Ok(Described { name, prices: configured.settings.prices })
}

/// Opens the model of a run with the llm actor; `None` without this actor. Replies in the run's
/// journal are reused, and earlier payments count against the budget, but not over a network.
///
/// # Errors
/// As [`llm::open`]; if the journal cannot be read.
pub(super) fn open(request: &Request, run: &Run, app: &App) -> Result<Option<Model>> {
    if !run.options.actors.llm {
        return Ok(None);
    }
    if app.network.is_some() {
        let opened = llm::open(&request.llm, None, app)?;
        let before = opened.assistant.llm().ledger().total();
        return Ok(Some(Model { opened, before }));
    }
    let replies = run.journal.replies()?;
    // A run resumes with its first model, unless the request names another one.
    let begun = || run.journal.config().get("model")?.as_str().map(str::to_owned);
    let model = request.llm.model.clone().or_else(begun);
    let choice = LlmArgs { model, ..request.llm.clone() };
    let opened = llm::open(&choice, Some(replies.clone()), app)?;
    for (_, exchange) in replies.exchanges()? {
        if exchange.paid {
            let (request, usage) = (exchange.request, exchange.reply.usage);
            opened.assistant.llm().ledger().paid(request.role.clone(), &request.model, usage);
        }
    }
    Ok(Some(Model { opened, before: Spending::default() }))
}

/// Opens the model for an estimate, which sends no requests.
///
/// # Errors
/// As [`llm::open_unasked`]; over a network, as [`llm::open`].
pub(super) fn unasked(request: &Request, app: &App) -> Result<Arc<Assistant>> {
    let opened = match app.network {
        Some(_) => llm::open(&request.llm, None, app)?,
        None => llm::open_unasked(&request.llm, app)?,
    };
    Ok(opened.assistant)
}
