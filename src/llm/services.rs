//! Language model providers whose name may precede a model's name, as in `ollama/qwen3:8b`: their
//! addresses, keys and request formats. All offer `POST /chat/completions` in OpenAI's format.

use crate::openai::JsonForm;

/// A provider of language models.
#[derive(Debug, PartialEq, Eq)]
pub struct KnownService {
    /// Name of the provider, before the slash in a model's name.
    pub name: &'static str,
    /// Address before `/chat/completions`.
    pub base_url: &'static str,
    /// Environment variable that holds the key.
    pub key_env: &'static str,
    /// How to request JSON: in the form that most models of the provider support.
    pub json: JsonForm,
}

/// All known providers, by name.
pub const SERVICES: [KnownService; 9] = [
    service("anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", JsonForm::None),
    service(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        JsonForm::Schema,
    ),
    service("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", JsonForm::Object),
    service("llamacpp", "http://localhost:8080/v1", "LLAMA_API_KEY", JsonForm::Object),
    service("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", JsonForm::Object),
    service("ollama", "http://localhost:11434/v1", "OLLAMA_API_KEY", JsonForm::Schema),
    service("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", JsonForm::Schema),
    service("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", JsonForm::Object),
    service("vllm", "http://localhost:8000/v1", "VLLM_API_KEY", JsonForm::Schema),
];

const fn service(
    name: &'static str,
    base_url: &'static str,
    key_env: &'static str,
    json: JsonForm,
) -> KnownService {
    KnownService { name, base_url, key_env, json }
}

impl KnownService {
    /// Whether the provider is a server on this machine, so that it needs no key.
    pub fn is_local(&self) -> bool {
        self.base_url.starts_with("http://localhost")
    }

    /// Splits a model's name at its first slash into the provider and the provider's own name of
    /// the model; `None` if the name does not begin with a known provider.
    pub fn split(model: &str) -> Option<(&'static KnownService, &str)> {
        let (name, rest) = model.split_once('/').filter(|(_, rest)| !rest.is_empty())?;
        Some((SERVICES.iter().find(|service| service.name == name)?, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_before_the_first_slash_may_be_a_service() {
        let split = |model| KnownService::split(model).map(|(service, rest)| (service.name, rest));
        assert_eq!(split("ollama/qwen3:8b"), Some(("ollama", "qwen3:8b")));
        assert_eq!(split("openrouter/meta/llama"), Some(("openrouter", "meta/llama")));
        for model in ["gpt-4.1-mini", "meta/llama", "ollama/", "/ollama/x", "Ollama/x"] {
            assert_eq!(split(model), None, "{model}");
        }
    }
}
