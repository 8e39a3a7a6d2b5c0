//! Access of one program call to a language model: limits the requests, measures the time spent
//! waiting, and records failures that the program did not cause. Does not depend on the content of
//! the requests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{Assistant, AssistantError, Meter, ToolError, Work};
use agent_llm::{
    LlmError, RoleSpec, ledger::estimated_tokens, prompts::PromptError, replies::AskUsage,
};

/// The role of the language model that answers the tools of programs.
pub const TOOLS_ROLE: RoleSpec = RoleSpec {
    name: "tools",
    summary: "answers the tools of a program that ask a model",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// Sends the requests that the tools make during one program call.
#[derive(Default)]
pub struct Requester {
    assistant: Option<Arc<Assistant>>,
    waited: Duration,
    outage: Option<LlmError>,
    asked: AskUsage,
    unparsed: usize,
}

impl Requester {
    pub(super) fn new(assistant: Option<Arc<Assistant>>) -> Self {
        Self { assistant, ..Self::default() }
    }

    /// Returns the time that tools have waited for the language model so far.
    pub(super) fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the maximum time that a program call may wait for the language model in total.
    /// Requests start within the time limit of one attempt; the last may take the time limit of a
    /// whole request.
    pub(super) fn patience(&self) -> Duration {
        let limits = self.assistant.as_ref().map(|assistant| assistant.llm().limits());
        limits.map_or(Duration::ZERO, |limits| limits.attempt + limits.total)
    }

    /// Returns the failure with which every further request would fail, if any.
    pub(super) fn outage(&self) -> Option<LlmError> {
        self.outage.clone()
    }

    /// Returns the usage of the language model and the number of items without a usable reply since
    /// the last call, and resets both.
    pub(super) fn take_notes(&mut self) -> (AskUsage, usize) {
        (std::mem::take(&mut self.asked), std::mem::take(&mut self.unparsed))
    }

    /// Counts `n` more items without a usable reply.
    pub(super) fn note_unparsed(&mut self, n: usize) {
        self.unparsed += n;
    }

    /// Checks that there is a model.
    ///
    /// # Errors
    /// [`ToolError::NoLlm`].
    pub(super) fn check(&self) -> Result<(), ToolError> {
        self.assistant.is_some().then_some(()).ok_or(ToolError::NoLlm)
    }

    /// Sends a prompt once per input and returns the JSON replies in the order of the inputs; a
    /// reply that stays unusable after the repairs is `None`. `items` is the number of nodes or
    /// texts in all inputs.
    ///
    /// # Errors
    /// [`ToolError::NoLlm`] without a model; [`ToolError::Budget`], before any request is sent, if
    /// the total wait has reached the time limit of one attempt or the meter refuses the charge;
    /// [`ToolError::BadArgs`] if the prompt is too long; [`ToolError::Llm`] if every further
    /// request would fail.
    pub(super) fn json(
        &mut self,
        meter: &mut Meter,
        prompt: &str,
        inputs: Vec<Value>,
        items: usize,
        attempt: Attempt,
    ) -> Result<Vec<Option<Value>>, ToolError> {
        let Some(assistant) = &self.assistant else { return Err(ToolError::NoLlm) };
        let max_wait = assistant.llm().limits().attempt;
        if self.waited >= max_wait {
            return Err(ToolError::Budget(format!(
                "over {} s of waiting for a language model; ask about fewer nodes, or raise \
                 `attempt_s` in its settings",
                max_wait.as_secs()
            )));
        }
        let mut requests = Vec::with_capacity(inputs.len());
        for input in inputs {
            let request = assistant.request(TOOLS_ROLE.role(), prompt, input, attempt.sample);
            requests.push(request.map_err(prompt_error)?);
        }
        meter.charge(Work {
            touched: 0,
            llm_requests: requests.len() as u64,
            llm_items: items as u64,
            llm_tokens: requests.iter().map(estimated_tokens).sum(),
        })?;
        let started = Instant::now();
        let answers = assistant.ask_json(requests.into_iter().map(Ok).collect(), attempt.repairs);
        self.waited += started.elapsed();
        let mut values = Vec::with_capacity(answers.len());
        for (answer, asked) in answers {
            self.asked = self.asked.and(asked);
            values.push(match answer {
                Ok(value) => Some(value),
                Err(error) => {
                    if let Some(error) = error.ends_run() {
                        self.outage = Some(error.clone());
                        return Err(ToolError::Llm(error.to_string()));
                    }
                    match error {
                        AssistantError::Prompt(error) => return Err(prompt_error(error)),
                        AssistantError::Llm(_) => None,
                    }
                }
            });
        }
        Ok(values)
    }
}

/// Settings of one round of requests.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    /// Sample number; distinguishes equal requests of different rounds.
    pub(super) sample: u32,
    /// Maximum number of repairs of an unusable reply.
    pub(super) repairs: u32,
}

/// The rounds in which items are requested: at most three requests for one item.
pub(super) const ROUNDS: [Attempt; 2] =
    [Attempt { sample: 0, repairs: 1 }, Attempt { sample: 1, repairs: 0 }];

fn prompt_error(error: PromptError) -> ToolError {
    match error {
        PromptError::TooLong { .. } => ToolError::BadArgs(error.to_string()),
        error => ToolError::Internal(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::assistant;
    use agent_testing::{llm, said};

    #[test]
    fn waiting_has_an_end_and_adds_up() {
        let (model, heard) = llm(|_| said("{\"class\": 1}"));
        let mut requester = Requester::new(Some(assistant(model)));
        let mut meter = Meter::default();
        let inputs = || vec![json!({"text": "x", "classes": [{"n": 1, "name": "a"}]})];
        let mut ask = |requester: &mut Requester| {
            requester.json(&mut meter, "tools/classify", inputs(), 1, ROUNDS[0])
        };
        assert_eq!(ask(&mut requester), Ok(vec![Some(json!({"class": 1}))]));
        assert!(!requester.waited().is_zero());
        let (asked, unparsed) = requester.take_notes();
        assert_eq!((asked.requests, unparsed), (1, 0));
        assert_eq!(requester.take_notes().0.requests, 0);
        let (limits, patience) = (agent_remote::Limits::default(), requester.patience());
        assert_eq!(patience, limits.attempt + limits.total);
        requester.waited = limits.attempt;
        let refused = ask(&mut requester);
        assert!(matches!(&refused, Err(ToolError::Budget(why)) if why.contains("120 s")));
        assert_eq!(heard.count(), 1);
    }
}
