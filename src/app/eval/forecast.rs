//! How often systems would ask a language model, and how many tokens that may take. Nothing is asked.
//! Must not know how systems are measured.

use anyhow::anyhow;
use serde::Serialize;

use super::systems::Chosen;
use crate::{
    App, Explain, Result,
    llm::{self, LlmArgs},
    systems::Effort,
};
use agent_llm::ledger::Price;
use agent_systems as systems;
use agent_tools::Assistant;

/// What one system would ask.
#[derive(Debug, Serialize)]
pub struct Forecast {
    /// What the system is called.
    pub system: String,
    /// Least and most requests.
    pub calls: [usize; 2],
    /// Most tokens sent.
    pub tokens_in: u64,
    /// Most tokens received.
    pub tokens_out: u64,
    /// Most USD; none without the price of a model.
    pub usd: Option<f64>,
}

/// What one system would ask for one question.
///
/// # Errors
/// That a system is not known, or that no model is configured where one is asked.
pub fn of_one(system: &str, args: &LlmArgs, app: &App) -> Result<Vec<Forecast>> {
    let (label, system) = (system.to_owned(), system.to_owned());
    let effort = Effort::default();
    all(&[Chosen { label, system, effort, no_known_answers: false }], 1, args, app)
}

/// What each system would ask for `n` queries: least and most requests, most tokens, most USD. What
/// programs ask by themselves is not counted; ceilings hold for all.
///
/// # Errors
/// That no model is configured, or a name is wrong.
pub(super) fn all(chosen: &[Chosen], n: usize, args: &LlmArgs, app: &App) -> Result<Vec<Forecast>> {
    let Some(opened) = llm::open_if_configured(args, false, app)? else {
        return Err(anyhow!("without a language model nothing is asked"))
            .hint("name a model with --model");
    };
    chosen.iter().map(|one| forecast(one, n, &opened.assistant)).collect()
}

fn forecast(one: &Chosen, n: usize, assistant: &Assistant) -> Result<Forecast> {
    let (system, usd) = (one.label.clone(), Some(0.0));
    let mut forecast = Forecast { system, calls: [0, 0], tokens_in: 0, tokens_out: 0, usd };
    for asks in systems::request_bounds(&one.system, one.effort)? {
        let role = assistant.llm().role(&asks.role.role());
        let received = u64::from(role.map_or(asks.role.max_tokens, |role| role.max_tokens));
        let longest =
            |name: &str| assistant.prompts().describe(name).map_or(0, |p| p.budget_tokens);
        // What goes on from a reply sends that again, and all before it.
        let later = asks.later.map_or(0, |(name, n)| n as u64 * (longest(name) + received));
        let most = (n * asks.max) as u64;
        let sent = most * (longest(asks.prompt) + received + later);
        let received = most * received;
        let price = role.and_then(|role| assistant.llm().ledger().price(&role.model));
        let dollars =
            |price: Price| (sent as f64 * price.input + received as f64 * price.output) / 1e6;
        forecast.usd = forecast.usd.zip(price.map(dollars)).map(|(sum, usd)| sum + usd);
        forecast.calls[0] += n * asks.min;
        forecast.calls[1] += n * asks.max;
        forecast.tokens_in += sent;
        forecast.tokens_out += received;
    }
    Ok(forecast)
}
