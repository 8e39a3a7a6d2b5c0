//! A language model with prompts: renders a prompt, sends it and reads the reply. Used by tools and
//! by all other code that asks a language model. Does not depend on the content of the prompts.

use std::sync::Arc;

use serde_json::Value;

use agent_llm::{
    Llm, LlmError, Message, Reply, Request, Role, Schema,
    prompts::{PromptError, Prompts},
    replies::AskUsage,
};

/// Why a prompt got no usable reply.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AssistantError {
    /// The prompt cannot be rendered.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The request to the language model failed.
    #[error(transparent)]
    Llm(#[from] LlmError),
}

impl AssistantError {
    /// Returns the error of the language model if every further request would fail with it, else
    /// `None`.
    pub fn ends_run(&self) -> Option<&LlmError> {
        match self {
            Self::Llm(error) if error.ends_run() => Some(error),
            _ => None,
        }
    }
}

/// A language model with its prompts.
pub struct Assistant {
    llm: Arc<Llm>,
    prompts: Arc<Prompts>,
}

impl Assistant {
    /// Creates an assistant from a language model and its prompts.
    pub fn new(llm: Arc<Llm>, prompts: Arc<Prompts>) -> Assistant {
        Assistant { llm, prompts }
    }

    /// Returns the model.
    pub fn llm(&self) -> &Arc<Llm> {
        &self.llm
    }

    /// Returns the prompts.
    pub fn prompts(&self) -> &Arc<Prompts> {
        &self.prompts
    }

    /// Renders a prompt with its inputs into a request.
    ///
    /// # Errors
    /// Errors of [`Prompts::render`].
    pub fn request(
        &self,
        role: Role,
        prompt: &str,
        inputs: Value,
        sample: u32,
    ) -> Result<Request, PromptError> {
        let prompt = self.prompts.render(prompt, inputs)?;
        let messages = vec![Message::system(prompt.system), Message::user(prompt.user)];
        let schema = prompt.schema.map(|(name, schema)| Schema { name, schema });
        Ok(self.llm.request(role, messages, schema, sample))
    }

    /// Sends a prompt and returns the reply as text.
    ///
    /// # Errors
    /// [`AssistantError`].
    pub fn text(
        &self,
        role: Role,
        prompt: &str,
        inputs: Value,
        sample: u32,
    ) -> Result<Reply, AssistantError> {
        Ok(self.llm.ask(&self.request(role, prompt, inputs, sample)?)?)
    }

    /// Sends a prompt and returns the reply as JSON that fits the prompt's schema. An invalid reply
    /// is requested once more.
    ///
    /// # Errors
    /// [`AssistantError`]; holds [`LlmError::Reply`] if the second reply is invalid as well.
    pub fn json(&self, role: Role, prompt: &str, inputs: Value) -> Result<Value, AssistantError> {
        let request = self.request(role, prompt, inputs, 0)?;
        Ok(self.llm.ask_json(&request)?)
    }

    /// Sends a prompt once per input, concurrently, as [`Assistant::json`] does; the replies are in
    /// the order of the inputs.
    ///
    /// # Errors
    /// [`AssistantError`], for each input separately.
    pub fn json_all(
        &self,
        role: Role,
        prompt: &str,
        inputs: Vec<Value>,
    ) -> Vec<Result<Value, AssistantError>> {
        let requests =
            inputs.into_iter().map(|input| self.request(role.clone(), prompt, input, 0)).collect();
        self.ask_json(requests, 1).into_iter().map(|(value, _)| value).collect()
    }

    /// Sends requests, made by [`Assistant::request`], concurrently; returns the JSON replies in
    /// the order of the requests, each with its usage. An invalid reply is requested again at most
    /// `repairs` times.
    ///
    /// # Errors
    /// [`AssistantError`], for each request separately.
    pub fn ask_json(
        &self,
        requests: Vec<Result<Request, PromptError>>,
        repairs: u32,
    ) -> Vec<(Result<Value, AssistantError>, AskUsage)> {
        let mut valid = Vec::with_capacity(requests.len());
        let failed: Vec<Option<PromptError>> = requests
            .into_iter()
            .map(|request| request.map(|request| valid.push(request)).err())
            .collect();
        let mut answers = self.llm.ask_json_all(&valid, repairs).into_iter();
        let answer = |failed: Option<PromptError>| match failed {
            Some(error) => (Err(error.into()), AskUsage::default()),
            None => {
                let stopped = || (Err(LlmError::Stopped), AskUsage::default());
                let (value, asked) = answers.next().unwrap_or_else(stopped);
                (value.map_err(AssistantError::from), asked)
            }
        };
        failed.into_iter().map(answer).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::assistant;
    use crate::{AssistantError, TOOLS_ROLE};
    use agent_llm::{
        LlmError, Schema, Speaker,
        prompts::{Output, PromptError, Prompts},
        replies::extract_json,
    };
    use agent_testing::{llm, question, said};

    fn class_of(text: &str) -> Value {
        json!({"text": text, "classes": [{"n": 1, "name": "a"}, {"n": 2, "name": "b"}]})
    }

    #[test]
    fn a_prompt_becomes_instructions_a_question_and_a_form() {
        let (model, heard) = llm(|_| said("{\"class\": 2}"));
        let assistant = assistant(model);
        let value = assistant.json(TOOLS_ROLE.role(), "tools/classify", class_of("x")).unwrap();
        assert_eq!(value, json!({"class": 2}));
        let request = heard.requests().remove(0);
        let speakers: Vec<Speaker> =
            request.messages.iter().map(|message| message.speaker).collect();
        assert_eq!(speakers, [Speaker::System, Speaker::User]);
        assert_eq!(request.json.unwrap().name, "tools_classify");
        let reply = assistant.text(TOOLS_ROLE.role(), "tools/classify", class_of("x"), 1).unwrap();
        assert_eq!(reply.text, "{\"class\": 2}");
        assert_eq!(heard.count(), 2, "another sample is another request");
    }

    #[test]
    fn every_one_of_several_keeps_its_place() {
        let (model, _) = llm(|request| match question(request) {
            text if text.contains("outage") => Err(LlmError::Unrecorded("out".to_owned())),
            text if text.contains("prose") || text.starts_with("That reply") => said("no"),
            _ => said("{\"class\": 1}"),
        });
        let assistant = assistant(model);
        let inputs = vec![class_of("x"), json!({"text": "x"}), class_of("prose")];
        let values = assistant.json_all(TOOLS_ROLE.role(), "tools/classify", inputs);
        assert_eq!(values[0], Ok(json!({"class": 1})));
        let missing = matches!(values[1], Err(AssistantError::Prompt(PromptError::Inputs { .. })));
        assert!(missing, "{:?}", values[1]);
        let unusable = matches!(values[2], Err(AssistantError::Llm(LlmError::Reply { .. })));
        assert!(unusable, "{:?}", values[2]);
        assert!(values[2].as_ref().unwrap_err().ends_run().is_none());
        let out =
            assistant.json(TOOLS_ROLE.role(), "tools/classify", class_of("outage")).unwrap_err();
        assert!(out.ends_run().is_some(), "{out}");
    }

    #[test]
    fn schemas_of_all_prompts_are_known() {
        let prompts = Prompts::built_in().unwrap();
        let template = |name: &str| {
            let path = format!("{}/../../agent-prompts/{name}.md", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(path).unwrap()
        };
        for name in prompts.names() {
            let about = prompts.describe(name).unwrap();
            if about.output == Output::Json {
                let text = template(name);
                let schema = text.split("'''").nth(1).unwrap();
                let schema = serde_json::from_str(schema).unwrap();
                let refused =
                    extract_json("[]", &Schema { name: "x".to_owned(), schema }).unwrap_err();
                assert!(refused.contains("form asked for"), "{name}: {refused}");
            }
        }
    }
}
