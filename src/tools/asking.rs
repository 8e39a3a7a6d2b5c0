//! One program call's access to a language model: bounds what is asked, measures the waiting, and
//! keeps the failure that is no fault of the program.
//!
//! Must not know: what is asked.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{Assistant, AssistantError, Meter, ToolError};
use agent_llm::{
    LlmError, RoleSpec, ledger::estimated_tokens, prompts::PromptError, replies::AskUsage,
};

/// Answers the tools of a program that ask a model.
pub const TOOLS_ROLE: RoleSpec = RoleSpec {
    name: "tools",
    summary: "answers the tools of a program that ask a model",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// Asks for the tools of one program call.
#[derive(Default)]
pub struct Requester {
    assistant: Option<Arc<Assistant>>,
    waited: Duration,
    outage: Option<LlmError>,
    asked: AskUsage,
    unparsed: usize,
}

impl Requester {
    /// One that asks with an assistant.
    pub(super) fn new(assistant: Arc<Assistant>) -> Self {
        Self { assistant: Some(assistant), ..Self::default() }
    }

    /// The time spent waiting for models.
    pub(super) fn waited(&self) -> Duration {
        self.waited
    }

    /// The longest that can be waited in all: the last request begins within the time of an attempt,
    /// and has bounds of its own.
    pub(super) fn patience(&self) -> Duration {
        let limits = self.assistant.as_ref().map(|assistant| assistant.llm().limits());
        limits.map_or(Duration::ZERO, |limits| limits.attempt + limits.total)
    }

    /// The failure of the model that every further request would meet as well.
    pub(super) fn outage(&self) -> Option<LlmError> {
        self.outage.clone()
    }

    /// What was asked and how many items got no usable reply since the last time.
    pub(super) fn take_notes(&mut self) -> (AskUsage, usize) {
        (std::mem::take(&mut self.asked), std::mem::take(&mut self.unparsed))
    }

    /// Notes items that got no usable reply.
    pub(super) fn note_unparsed(&mut self, n: usize) {
        self.unparsed += n;
    }

    /// Whether there is a model to ask.
    ///
    /// # Errors
    /// [`ToolError::NoLlm`].
    pub(super) fn check(&self) -> Result<(), ToolError> {
        self.assistant.is_some().then_some(()).ok_or(ToolError::NoLlm)
    }

    /// The JSON replies to a prompt with each of several inputs, in their order; none where a reply
    /// stayed wrong. `items` nodes or texts are asked about in all; a reply is repaired as often as
    /// told. Nothing more is asked once waiting has taken as long as one attempt may, so that a model
    /// that is slow by its settings has the time for what it is asked.
    ///
    /// # Errors
    /// [`ToolError::NoLlm`]; [`ToolError::Budget`] before anything is asked; [`ToolError::Llm`] when
    /// no further request would be answered.
    pub(super) fn json(
        &mut self,
        meter: &mut Meter,
        prompt: &str,
        inputs: Vec<Value>,
        items: usize,
        tries: Tries,
    ) -> Result<Vec<Option<Value>>, ToolError> {
        let Some(assistant) = &self.assistant else { return Err(ToolError::NoLlm) };
        let longest = assistant.llm().limits().attempt;
        if self.waited >= longest {
            return Err(ToolError::Budget(format!(
                "over {} s of waiting for a language model; ask about fewer nodes, or raise \
                 `attempt_s` in its settings",
                longest.as_secs()
            )));
        }
        let mut requests = Vec::with_capacity(inputs.len());
        for one in inputs {
            let request = assistant.request(TOOLS_ROLE.role(), prompt, one, tries.sample);
            requests.push(request.map_err(of_prompt)?);
        }
        let tokens: u64 = requests.iter().map(estimated_tokens).sum();
        meter.ask(requests.len() as u64, items as u64, tokens)?;
        let started = Instant::now();
        let answers = assistant.json_of(requests.into_iter().map(Ok).collect(), tries.repairs);
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
                        AssistantError::Prompt(error) => return Err(of_prompt(error)),
                        AssistantError::Llm(_) => None,
                    }
                }
            });
        }
        Ok(values)
    }
}

/// How one round of questions is asked.
#[derive(Clone, Copy)]
pub(super) struct Tries {
    /// Tells its requests apart from those of other rounds.
    pub(super) sample: u32,
    /// How often a wrong reply is repaired.
    pub(super) repairs: u32,
}

/// The rounds in which something is asked: three requests for one thing at most.
pub(super) const ROUNDS: [Tries; 2] =
    [Tries { sample: 0, repairs: 1 }, Tries { sample: 1, repairs: 0 }];

fn of_prompt(error: PromptError) -> ToolError {
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
        let mut requester = Requester::new(assistant(model));
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
