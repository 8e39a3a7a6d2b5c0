//! The language model of a run: whether it takes part, its name and its cost. Requests over a
//! network use the server's model. Does not depend on what the model is asked.

use std::{collections::BTreeMap, sync::Arc};

use super::{Actor, Request, run::Run};
use crate::{App, Explain, LlmArgs, Result, llm};
use agent_llm::{
    Role,
    ledger::{Price, Spending},
};
use agent_optimize::{ACTOR_ROLE, Actors};
use agent_tools::Assistant;

/// The actors of a new run, and the model that one of them needs.
pub(super) struct Start {
    pub(super) actors: Actors,
    /// The model of the llm actor; `None` if this actor does not take part.
    pub(super) model: Option<Described>,
}

/// Name of a language model, and prices by model, as a run's configuration records them.
#[derive(Default)]
pub(super) struct Described {
    pub(super) name: Option<String>,
    pub(super) prices: BTreeMap<String, Price>,
}

/// The language model of a run, ready for requests.
pub(super) struct Model {
    pub(super) opened: llm::Opened,
    /// Spending before this run: 0, or the server's earlier spending on its model.
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

    /// Returns the run's spending on the model, earlier processes of the run included; for a
    /// request over a network, only the spending of this process.
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

/// Returns the actors that a request names; `None` if it names none.
pub(super) fn named_actors(request: &Request) -> Option<Actors> {
    let has = |actor| request.actor.contains(&actor);
    (!request.actor.is_empty()).then(|| Actors { search: has(Actor::Search), llm: has(Actor::Llm) })
}

/// Returns the actors of a new run: those that the request names, or else the search actor, with
/// the llm actor if a language model is configured.
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

/// Returns the actors of a new run and their model. Checks that the model is usable if an actor
/// needs it.
///
/// # Errors
/// If an actor needs a model and the model is not usable.
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
    Ok(Described { name, prices: configured.settings.llm.prices })
}

/// Opens the language model of a run; `None` if the llm actor does not take part. Reuses the
/// replies in the run's journal, and counts their cost against the budget; for a request over a
/// network, does neither.
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

/// Opens the language model to estimate the cost of a run, without sending requests.
///
/// # Errors
/// As [`llm::open_unasked`]; for a request over a network, as [`llm::open`].
pub(super) fn unasked(request: &Request, app: &App) -> Result<Arc<Assistant>> {
    let opened = match app.network {
        Some(_) => llm::open(&request.llm, None, app)?,
        None => llm::open_unasked(&request.llm, app)?,
    };
    Ok(opened.assistant)
}
