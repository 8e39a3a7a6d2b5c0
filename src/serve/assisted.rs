//! Answers questions with a bundle and, if the server has one, a language model. Questions wait for
//! the model in a separate pool, within their deadlines. If the model fails, the bundle answers
//! alone, and the answer gives the reason. Does not depend on the prompts, or on the format of
//! answers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{ApiError, Refused, Result, Server, engine::Active, within::Question};
use agent_llm::LlmError;
use agent_retrieve::{Answer, AssistFailure, RetrieveError};
use agent_systems::bundle::Effort;

/// Time reserved for an answer without the model; at most half of the time left until the deadline.
const KEPT: Duration = Duration::from_secs(1);

impl Server {
    /// Returns the effort for a question: the one that the request asks for, or else the server's.
    ///
    /// # Errors
    /// If the requested effort is unknown or exceeds the server's.
    pub(super) fn effort(&self, asked: Option<u8>) -> Result<Effort> {
        let Some(asked) = asked else { return Ok(self.effort) };
        let offered = Effort::from_number(asked).filter(|effort| *effort <= self.effort);
        offered.ok_or_else(|| {
            let most = self.effort as u8;
            let remedy =
                format!("give 0 to {most}, as the server was started with --effort {most}");
            ApiError::bad(format!("effort {asked} is not available"), remedy)
        })
    }

    /// Answers a question with a bundle, which uses the model up to `effort`; `tell` formats the
    /// answer. If the model fails, the bundle answers without the model.
    ///
    /// # Errors
    /// The error of the bundle or of `tell`, or [`Refused`] if there is no answer in time.
    pub(super) async fn told<T: Send + 'static>(
        &self,
        active: &Active,
        effort: Effort,
        deadline: Instant,
        question: Question,
        tell: impl Fn(Answer) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        let work = Arc::new((question, tell));
        let mut unassisted = None;
        if let Some(bundle) = active.helped[effort as usize].clone() {
            let work = work.clone();
            let helped = move || {
                let answer = match work.0.answer(bundle.as_ref()) {
                    Err(RetrieveError::Llm(error)) => return Err(error),
                    answer => answer,
                };
                let miss = answer.as_ref().map_or(None, |answer| answer.unassisted);
                Ok((answer.map_err(ApiError::from).and_then(|answer| (work.1)(answer)), miss))
            };
            let (told, miss) = match self.by_model(deadline, helped).await {
                Ok((told, miss)) => (Some(told), miss),
                Err(miss) => (None, Some(miss)),
            };
            if !matches!(told, Some(Err(_))) {
                self.metrics.note_helped(miss);
            }
            if let Some(told) = told {
                return told;
            }
            unassisted = miss;
        }
        let bundle = active.alone.clone();
        let alone = move || {
            let answer = work.0.answer(bundle.as_ref())?;
            (work.1)(Answer { unassisted, ..answer })
        };
        self.queue.run(deadline, alone).await?
    }

    /// Runs `ask`, which asks the model, in the pool for such requests; returns its result.
    ///
    /// # Errors
    /// The reason why the model did not help, such as a timeout or a spent budget.
    pub(super) async fn with_model<T: Send + 'static>(
        &self,
        deadline: Instant,
        ask: impl FnOnce() -> Result<T, LlmError> + Send + 'static,
    ) -> Result<T, AssistFailure> {
        let asked = self.by_model(deadline, ask).await;
        self.metrics.note_helped(asked.as_ref().err().copied());
        asked
    }

    /// Runs `ask` like [`Server::with_model`], without counting its outcome.
    async fn by_model<T: Send + 'static>(
        &self,
        deadline: Instant,
        ask: impl FnOnce() -> Result<T, LlmError> + Send + 'static,
    ) -> Result<T, AssistFailure> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.helped.run(deadline - KEPT.min(left / 2), ask).await {
            Ok(asked) => asked.map_err(|error| miss_of(&error)),
            Err(Refused::Expired) => Err(AssistFailure::Late),
            Err(Refused::Busy(_) | Refused::Draining) => Err(AssistFailure::Busy),
            Err(Refused::Failed) => Err(AssistFailure::Outage),
        }
    }
}

/// Logs an error of the model; returns the reason why the model did not help.
fn miss_of(error: &LlmError) -> AssistFailure {
    tracing::warn!("cannot use the language model: {error}");
    match error {
        LlmError::Budget { .. } => AssistFailure::Ceiling,
        _ => AssistFailure::Outage,
    }
}
