//! Forecasts the numbers of requests and tokens that systems would send to a language model,
//! without sending any. Does not depend on how systems are measured.

use anyhow::anyhow;
use serde::Serialize;

use super::systems::Chosen;
use crate::{App, Effort, Explain, LlmArgs, Result, llm};
use agent_llm::ledger::Price;
use agent_systems as systems;
use agent_tools::Assistant;

/// Forecast of the requests that one system would send to a language model.
#[derive(Debug, Serialize)]
pub struct Forecast {
    /// Name of the system in the results.
    pub system: String,
    /// Minimum and maximum number of requests, in this order.
    pub calls: [usize; 2],
    /// Maximum number of tokens sent.
    pub tokens_in: u64,
    /// Maximum number of tokens received.
    pub tokens_out: u64,
    /// Maximum cost in USD; `None` if the price of a model is not known.
    pub usd: Option<f64>,
}

/// Forecasts the requests of one system for one question, with the default effort.
///
/// # Errors
/// If the system is unknown, or no model is configured.
pub fn of_one(system: &str, args: &LlmArgs, app: &App) -> Result<Vec<Forecast>> {
    let (label, system) = (system.to_owned(), system.to_owned());
    let effort = Effort::default();
    all(&[Chosen { label, system, effort, no_known_answers: false }], 1, args, app)
}

/// Forecasts the requests of each system for `n` queries. Leaves out requests by programs, although
/// the budget applies to them too.
///
/// # Errors
/// If no model is configured, or a system is unknown.
pub(super) fn all(chosen: &[Chosen], n: usize, args: &LlmArgs, app: &App) -> Result<Vec<Forecast>> {
    let Some(opened) = llm::open_if_configured(args, false, app)? else {
        return Err(anyhow!("no language model is configured, so there is nothing to forecast"))
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
        // Follow-up requests resend the reply and everything before it.
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
