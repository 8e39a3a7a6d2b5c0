//! Asks a language model with the prompts: renders, sends, reads the reply. Used by the LLM tools,
//! and by all others that ask.
//!
//! Must not know: what a prompt is about, what is done with its reply.

use std::sync::Arc;

use serde_json::Value;

use agent_llm::{
    Llm, LlmError, Message, Reply, Request, Role, Schema,
    prompts::{PromptError, Prompts},
    replies::{Answer, AskUsage},
};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AssistantError {
    /// The prompt cannot be made.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The model gave none.
    #[error(transparent)]
    Llm(#[from] LlmError),
}

impl AssistantError {
    /// The error of the model that every further request would meet as well.
    pub fn ends_run(&self) -> Option<&LlmError> {
        match self {
            Self::Llm(error) if error.ends_run() => Some(error),
            _ => None,
        }
    }
}

/// A language model with the prompts. Shared by all who ask.
pub struct Assistant {
    llm: Arc<Llm>,
    prompts: Arc<Prompts>,
}

impl Assistant {
    /// An assistant that speaks with these prompts.
    pub fn new(llm: Arc<Llm>, prompts: Arc<Prompts>) -> Assistant {
        Assistant { llm, prompts }
    }

    /// The model.
    pub fn llm(&self) -> &Arc<Llm> {
        &self.llm
    }

    /// The prompts.
    pub fn prompts(&self) -> &Arc<Prompts> {
        &self.prompts
    }

    /// The request that a prompt with its inputs makes.
    ///
    /// # Errors
    /// Those of [`Prompts::render`].
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

    /// The reply to a prompt, as it is.
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

    /// The replies to a prompt with each of several inputs, in their order, some asked at a time.
    ///
    /// # Errors
    /// [`AssistantError`], each for itself.
    pub fn text_all(
        &self,
        role: Role,
        prompt: &str,
        inputs: Vec<Value>,
        sample: u32,
    ) -> Vec<Result<Reply, AssistantError>> {
        let requests =
            inputs.into_iter().map(|one| self.request(role.clone(), prompt, one, sample));
        each(requests.collect(), |requests| self.llm.ask_all(requests))
            .into_iter()
            .map(|reply| reply?.map_err(AssistantError::from))
            .collect()
    }

    /// The JSON reply to a prompt, valid by its schema; a wrong one is repaired once.
    ///
    /// # Errors
    /// [`AssistantError`]; [`LlmError::Reply`] in it when the repair is wrong as well.
    pub fn json(&self, role: Role, prompt: &str, inputs: Value) -> Result<Value, AssistantError> {
        let request = self.request(role, prompt, inputs, 0)?;
        Ok(self.llm.ask_json(&request)?)
    }

    /// The JSON replies to a prompt with each of several inputs, in their order, some asked at a
    /// time; each as [`Assistant::json`].
    ///
    /// # Errors
    /// [`AssistantError`], each for itself.
    pub fn json_all(
        &self,
        role: Role,
        prompt: &str,
        inputs: Vec<Value>,
    ) -> Vec<Result<Value, AssistantError>> {
        let requests =
            inputs.into_iter().map(|one| self.request(role.clone(), prompt, one, 0)).collect();
        self.json_of(requests, 1).into_iter().map(|(value, _)| value).collect()
    }

    /// The JSON replies to requests that [`Assistant::request`] made, each with what it took.
    ///
    /// # Errors
    /// [`AssistantError`], each for itself.
    pub fn json_of(
        &self,
        requests: Vec<Result<Request, PromptError>>,
        repairs: u32,
    ) -> Vec<(Result<Value, AssistantError>, AskUsage)> {
        each(requests, |requests| self.llm.ask_json_all(requests, repairs))
            .into_iter()
            .map(|answer: Result<Answer, AssistantError>| match answer {
                Ok((value, asked)) => (value.map_err(AssistantError::from), asked),
                Err(error) => (Err(error), AskUsage::default()),
            })
            .collect()
    }
}

/// Asks the requests that could be made; the others keep their places with their errors.
fn each<T>(
    requests: Vec<Result<Request, PromptError>>,
    ask: impl FnOnce(&[Request]) -> Vec<T>,
) -> Vec<Result<T, AssistantError>> {
    let mut made = Vec::with_capacity(requests.len());
    let failed: Vec<Option<PromptError>> = requests
        .into_iter()
        .map(|request| request.map(|request| made.push(request)).err())
        .collect();
    let mut answers = ask(&made).into_iter();
    failed
        .into_iter()
        .map(|failed| match failed {
            Some(error) => Err(error.into()),
            None => answers.next().ok_or(AssistantError::Llm(LlmError::Stopped)),
        })
        .collect()
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
        let inputs = || vec![class_of("x"), json!({"text": "x"}), class_of("prose")];
        let values = assistant.json_all(TOOLS_ROLE.role(), "tools/classify", inputs());
        assert_eq!(values[0], Ok(json!({"class": 1})));
        let missing = matches!(values[1], Err(AssistantError::Prompt(PromptError::Inputs { .. })));
        assert!(missing, "{:?}", values[1]);
        let unusable = matches!(values[2], Err(AssistantError::Llm(LlmError::Reply { .. })));
        assert!(unusable, "{:?}", values[2]);
        assert!(values[2].as_ref().unwrap_err().ends_run().is_none());
        let texts = assistant.text_all(TOOLS_ROLE.role(), "tools/classify", inputs(), 0);
        let lengths: Vec<usize> =
            texts.iter().map(|reply| reply.as_ref().map_or(0, |reply| reply.text.len())).collect();
        assert_eq!(lengths, [12, 0, 2]);
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
