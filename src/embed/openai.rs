//! An embedder that calls the model of a service with an OpenAI-compatible API (`POST
//! /embeddings`).
//!
//! Texts are sent in batches of at most [`MAX_BATCH_TEXTS`] texts and [`MAX_BATCH_BYTES`] bytes, a
//! few batches at a time. Each reply must have one vector per text, of the same length, with finite
//! numbers; vectors are scaled to norm 1. [`EmbedderOptions`] can add prefixes to queries and
//! documents, turn scaling off, and request a vector length.
//!
//! Models refuse texts with too many tokens, and only the service can count tokens. So every text
//! is first cut to [`MAX_TEXT_BYTES`]. If the service still refuses a text, the text is cut further
//! and sent alone, so that its vector does not depend on its batch. [`EmbedCost::cut`] counts these
//! texts.
//!
//! The fingerprint consists of the model's name, the length of its vectors, and the options. Two
//! services with the same model name are assumed to offer the same model.

use std::{
    borrow::Cow,
    sync::atomic::{AtomicU64, Ordering},
};

use async_openai::types::embeddings::{
    CreateEmbeddingRequest, CreateEmbeddingResponse, EmbeddingInput,
};

use crate::{
    EmbedCost, EmbedError, Embedder, EmbedderOptions, Matrix, Result,
    matrix::{dot, normalise},
    options::prefixed,
};
use agent_remote::{Account, Limits, Service};

/// Maximum number of texts in one request.
pub const MAX_BATCH_TEXTS: usize = 256;
/// Maximum total size of the texts in one request, in bytes. OpenAI accepts 300,000 tokens per
/// request, and a token has at least one byte.
pub const MAX_BATCH_BYTES: usize = 300_000;
/// Maximum size, in bytes, to which a text is cut before it is first sent; English text has about
/// four bytes per token.
pub const MAX_TEXT_BYTES: usize = 24_000;
/// Maximum length of a model's name, in characters.
const MAX_NAME_CHARS: usize = 128;
/// Maximum number of dimensions of a vector; larger than any known text embedding.
const MAX_DIM: usize = 16_384;
/// Size, in bytes, above which a text that the service refuses as too long is cut and sent again;
/// for a shorter text the refusal is an error.
const MIN_TEXT_BYTES: usize = 256;
/// Text embedded to determine the length of the vectors.
const PROBE: &str = "text";

/// An embedding model of a service.
pub struct OpenAiEmbedder {
    model: String,
    options: EmbedderOptions,
    service: Service,
    fingerprint: String,
    dim: usize,
    tokens: AtomicU64,
    cut: AtomicU64,
}

impl OpenAiEmbedder {
    /// Opens the model named `model`; `dim` is the length of its vectors. Without `dim`, a request
    /// with one short text determines this length, and also detects a wrong key or name at once.
    ///
    /// # Errors
    /// [`EmbedError::Parameter`] for an invalid name; [`EmbedError::Remote`] if the service cannot
    /// be set up or the request fails; [`EmbedError::Reply`] for an invalid reply.
    pub fn open(
        model: &str,
        options: EmbedderOptions,
        account: &Account,
        dim: Option<usize>,
        limits: Limits,
    ) -> Result<OpenAiEmbedder> {
        let n_chars = model.chars().count();
        if !(1..=MAX_NAME_CHARS).contains(&n_chars) || model.chars().any(char::is_control) {
            return Err(EmbedError::Parameter {
                name: "model",
                expected: format!("1 to {MAX_NAME_CHARS} characters without control characters"),
                got: format!("{n_chars} characters"),
            });
        }
        let mut embedder = OpenAiEmbedder {
            model: model.to_owned(),
            service: Service::new(account, limits)?,
            fingerprint: String::new(),
            dim: dim.or(options.dimensions.map(|dim| dim as usize)).unwrap_or_default(),
            options,
            tokens: AtomicU64::new(0),
            cut: AtomicU64::new(0),
        };
        if dim.is_none() {
            let reply = embedder.ask(&[&[PROBE]]).remove(0)?;
            embedder.dim = embedder.rows(&reply, 1)?.first().map_or(0, Vec::len);
        }
        let options = embedder.options.fingerprint();
        embedder.fingerprint = format!("openai1-{model}-{}{options}", embedder.dim);
        Ok(embedder)
    }

    /// Sends one request per batch of texts, and returns the bodies of the replies in the order of
    /// the batches.
    fn ask(&self, batches: &[&[&str]]) -> Vec<Result<Vec<u8>>> {
        let body = |batch: &&[&str]| {
            let input = batch.iter().map(|text| (*text).to_owned()).collect();
            let request = CreateEmbeddingRequest {
                model: self.model.clone(),
                input: EmbeddingInput::StringArray(input),
                dimensions: self.options.dimensions,
                ..CreateEmbeddingRequest::default()
            };
            serde_json::to_vec(&request).map_err(|error| self.bad(error.to_string()))
        };
        let bodies: Result<Vec<_>, _> = batches.iter().map(body).collect();
        match bodies {
            Err(error) => vec![Err(error)],
            Ok(bodies) => {
                let replies = self.service.post_all("/embeddings", bodies);
                replies.into_iter().map(|reply| Ok(reply?)).collect()
            }
        }
    }

    /// Returns the vectors of a reply, in the order of the texts of the request; scales them to
    /// norm 1 unless the options turn scaling off.
    ///
    /// # Errors
    /// [`EmbedError::Reply`] if the reply does not hold one vector of the expected length and of
    /// finite numbers for each text.
    fn rows(&self, reply: &[u8], n_texts: usize) -> Result<Vec<Vec<f32>>> {
        let reply: CreateEmbeddingResponse = serde_json::from_slice(reply)
            .map_err(|error| self.bad(format!("it does not have the expected form ({error})")))?;
        let got = reply.data.len();
        if got != n_texts {
            return Err(self.bad(format!("it has {got} vectors for {n_texts} texts")));
        }
        let mut rows = vec![Vec::new(); n_texts];
        for item in reply.data {
            let row = rows.get_mut(item.index as usize).filter(|row| row.is_empty());
            let Some(row) = row else {
                return Err(self.bad(format!("index {} is repeated or out of range", item.index)));
            };
            *row = item.embedding;
            let dim = row.len();
            let is_expected = if self.dim == 0 { dim <= MAX_DIM } else { dim == self.dim };
            if dim == 0 || !is_expected {
                let expected = self.dim;
                return Err(self.bad(format!("a vector has length {dim} and not {expected}")));
            }
            let norm = if self.options.normalize { normalise(row) } else { dot(row, row).sqrt() };
            if !norm.is_finite() {
                return Err(self.bad("a vector holds numbers that are not finite".to_owned()));
            }
        }
        self.tokens.fetch_add(reply.usage.total_tokens.into(), Ordering::Relaxed);
        Ok(rows)
    }

    fn bad(&self, reason: String) -> EmbedError {
        EmbedError::Reply { host: self.service.host().to_owned(), reason }
    }

    /// Returns the vectors of a batch from its reply. If the service refused the batch because a
    /// text is too long, sends the two halves of the batch separately, and so on, until each
    /// overlong text is found and shortened.
    fn settle(&self, batch: &[&str], reply: Result<Vec<u8>>) -> Result<Vec<Vec<f32>>> {
        match reply {
            Ok(reply) => self.rows(&reply, batch.len()),
            Err(error) if !is_too_long(&error) => Err(error),
            Err(error) => match batch {
                [text] if text.len() <= MIN_TEXT_BYTES => Err(error),
                [text] => {
                    // Texts cut to `MAX_TEXT_BYTES` before sending are already counted. Such a text
                    // is at most 3 bytes shorter than the limit, because a character is never
                    // split, so any shorter text is whole.
                    let is_whole = text.len() + 4 <= MAX_TEXT_BYTES;
                    self.cut.fetch_add(is_whole.into(), Ordering::Relaxed);
                    self.shorten(text)
                }
                _ => {
                    let (left, right) = batch.split_at(batch.len() / 2);
                    let mut rows = self.settle(left, self.ask(&[left]).remove(0))?;
                    rows.extend(self.settle(right, self.ask(&[right]).remove(0))?);
                    Ok(rows)
                }
            },
        }
    }

    /// Embeds a prefix of a text that the service refused as too long. Every attempt removes the
    /// last quarter of the text, until the service accepts the rest or the rest has at most
    /// [`MIN_TEXT_BYTES`].
    fn shorten(&self, text: &str) -> Result<Vec<Vec<f32>>> {
        let mut text = text;
        loop {
            text = beginning(text, text.len() / 4 * 3);
            match self.ask(&[&[text]]).remove(0) {
                Err(error) if is_too_long(&error) && text.len() > MIN_TEXT_BYTES => {}
                reply => return self.rows(&reply?, 1),
            }
        }
    }
}

/// Whether a service refused texts because of their length.
fn is_too_long(error: &EmbedError) -> bool {
    matches!(error, EmbedError::Remote(error) if error.is_too_long())
}

/// Returns the longest prefix of at most `bytes` bytes that ends at a character boundary.
fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Splits texts into batches of at most [`MAX_BATCH_TEXTS`] texts and [`MAX_BATCH_BYTES`] bytes; a
/// single text with more bytes is a batch by itself.
fn batches<'a, 'b>(texts: &'b [&'a str]) -> Vec<&'b [&'a str]> {
    crate::batches(texts, (MAX_BATCH_TEXTS, MAX_BATCH_BYTES), |text| text.len())
}

impl Embedder for OpenAiEmbedder {
    fn dim(&self) -> usize {
        self.dim
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn describe(&self) -> String {
        let options = self.options.describe();
        format!("{} (embedding service): {} dimensions{options}", self.model, self.dim)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Matrix> {
        self.embed(self.options.document_prefix.as_deref(), texts)
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        Ok(self.embed(self.options.query_prefix.as_deref(), &[text])?.into_data())
    }

    fn spent(&self) -> EmbedCost {
        EmbedCost {
            tokens: self.tokens.load(Ordering::Relaxed),
            cut: self.cut.load(Ordering::Relaxed),
            retries: self.service.retries(),
            ..EmbedCost::default()
        }
    }
}

impl OpenAiEmbedder {
    /// Embeds texts, each with `prefix` in front. Blank texts are not sent and get zero vectors.
    fn embed(&self, prefix: Option<&str>, texts: &[&str]) -> Result<Matrix> {
        let is_sent = |text: &&str| !text.trim().is_empty();
        let whole: Vec<Cow<'_, str>> =
            texts.iter().filter(|text| is_sent(text)).map(|text| prefixed(prefix, text)).collect();
        let sent: Vec<&str> = whole
            .iter()
            .map(|text| {
                let is_long = text.len() > MAX_TEXT_BYTES;
                self.cut.fetch_add(is_long.into(), Ordering::Relaxed);
                beginning(text, MAX_TEXT_BYTES)
            })
            .collect();
        let batches = batches(&sent);
        let replies = self.ask(&batches);
        let mut vectors = Vec::with_capacity(sent.len());
        for (batch, reply) in batches.into_iter().zip(replies) {
            vectors.extend(self.settle(batch, reply)?);
        }
        let mut vectors = vectors.into_iter();
        let mut data = Vec::with_capacity(texts.len() * self.dim);
        for text in texts {
            match is_sent(text).then(|| vectors.next()).flatten() {
                Some(vector) => data.extend(vector),
                None => data.resize(data.len() + self.dim, 0.0),
            }
        }
        Matrix::new(texts.len(), self.dim, data)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::scripted::{Scripted, reply};
    use agent_remote::RemoteError;

    fn quick() -> Limits {
        Limits {
            attempt: Duration::from_millis(500),
            attempts: 2,
            first_wait: Duration::from_millis(1),
            ..Limits::default()
        }
    }

    fn open(server: &Scripted, dim: Option<usize>) -> Result<OpenAiEmbedder, EmbedError> {
        open_with(server, EmbedderOptions::default(), dim)
    }

    fn open_with(
        server: &Scripted,
        options: EmbedderOptions,
        dim: Option<usize>,
    ) -> Result<OpenAiEmbedder, EmbedError> {
        let account = Account {
            base_url: server.url() + "/v1/",
            key: Some("sk-1".to_owned()),
            ..Account::default()
        };
        OpenAiEmbedder::open("small", options, &account, dim, quick())
    }

    /// The texts of a request.
    fn texts(body: &str) -> Vec<String> {
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["model"], "small");
        body["input"].as_array().unwrap().iter().map(|t| t.as_str().unwrap().to_owned()).collect()
    }

    /// A reply with `[3 * length, 4 * length]` for each text, the last text first.
    fn vectors(texts: &[String]) -> Vec<u8> {
        let data = texts.iter().enumerate().rev().map(|(at, text)| {
            let n = text.len() as f32;
            json!({"object": "embedding", "index": at, "embedding": [3.0 * n, 4.0 * n]})
        });
        let data: Vec<Value> = data.collect();
        let usage = json!({"prompt_tokens": 7, "total_tokens": 7});
        let body = json!({"object": "list", "model": "small", "data": data, "usage": usage});
        reply(200, &body.to_string())
    }

    /// A service that gives each text its own vector: the first number decreases with the length.
    fn service() -> Scripted {
        Scripted::answering(|body| {
            let data: Vec<Value> = texts(body)
                .iter()
                .enumerate()
                .map(|(at, text)| {
                    let vector = [1.0, text.len() as f32];
                    json!({"object": "embedding", "index": at, "embedding": vector})
                })
                .collect();
            let usage = json!({"prompt_tokens": 1, "total_tokens": 1});
            let body = json!({"object": "list", "model": "small", "data": data, "usage": usage});
            Some(reply(200, &body.to_string()))
        })
    }

    #[test]
    fn texts_come_back_in_order_with_norm_1() {
        let server = Scripted::answering(|body| Some(vectors(&texts(body))));
        let embedder = open(&server, None).unwrap();
        assert_eq!((embedder.dim(), embedder.fingerprint()), (2, "openai1-small-2"));
        let matrix = embedder.embed_documents(&["a", " \n", "bbbb"]).unwrap();
        assert_eq!(matrix.data(), [0.6, 0.8, 0.0, 0.0, 0.6, 0.8]);
        assert_eq!(embedder.embed_query("").unwrap(), [0.0, 0.0]);
        assert_eq!(embedder.spent(), EmbedCost { tokens: 14, ..EmbedCost::default() });
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert!(requests[1].starts_with("POST /v1/embeddings HTTP"), "{}", requests[1]);
        assert!(requests[1].contains("authorization: Bearer sk-1"), "{}", requests[1]);
    }

    #[test]
    fn options_put_prefixes_ask_for_a_length_and_leave_vectors_as_they_are() {
        let server = Scripted::answering(|body| Some(vectors(&texts(body))));
        let options = EmbedderOptions {
            query_prefix: Some("q: ".to_owned()),
            document_prefix: Some("doc: ".to_owned()),
            normalize: false,
            dimensions: Some(2),
        };
        let embedder = open_with(&server, options.clone(), None).unwrap();
        // Vectors of the scripted service grow with the text that it got.
        let matrix = embedder.embed_documents(&["a", " "]).unwrap();
        assert_eq!(matrix.data(), [18.0, 24.0, 0.0, 0.0]);
        assert_eq!(embedder.embed_query("a").unwrap(), [12.0, 16.0]);
        let requests = server.requests();
        assert!(requests.iter().all(|request| request.contains("\"dimensions\":2")));
        assert!(requests[1].contains("[\"doc: a\"]") && requests[2].contains("[\"q: a\"]"));
        assert!(embedder.fingerprint().starts_with("openai1-small-2-"));
        assert!(embedder.describe().contains("\"q: \" before queries"), "{}", embedder.describe());
        let plain = open(&server, Some(2)).unwrap();
        assert_eq!(plain.embed_query("a").unwrap(), [0.6, 0.8]);
        assert!(!server.requests()[3].contains("dimensions"));
        // A service that ignores the length is refused.
        let longer = EmbedderOptions { dimensions: Some(3), ..options };
        let error = open_with(&server, longer, None).err().unwrap().to_string();
        assert!(error.contains("length 2 and not 3"), "{error}");
    }

    #[test]
    fn many_texts_are_cut_into_batches_and_each_gets_its_own_vector() {
        let server = service();
        let embedder = open(&server, Some(2)).unwrap();
        let many: Vec<String> = (1..=600).map(|n| "x".repeat(n)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let matrix = embedder.embed_documents(&many).unwrap();
        for (at, text) in many.iter().enumerate() {
            let n = text.len() as f32;
            assert!((matrix.row(at).unwrap()[1] - n / n.hypot(1.0)).abs() < 1e-6, "{at}");
        }
        assert_eq!(server.requests().len(), 3);
        let big = "x".repeat(MAX_TEXT_BYTES);
        let sizes: Vec<usize> = batches(&[&big[..]; 20]).iter().map(|batch| batch.len()).collect();
        assert_eq!(sizes, [12, 8]);
    }

    #[test]
    fn only_the_text_that_is_too_long_is_cut() {
        let server = Scripted::answering(|body| {
            let texts = texts(body);
            if texts.iter().any(|text| text.len() > 1_000) {
                let error = "This model's maximum context length is 250 tokens";
                return Some(reply(400, &json!({"error": {"message": error}}).to_string()));
            }
            Some(vectors(&texts))
        });
        let embedder = open(&server, Some(2)).unwrap();
        let (long, longest) = ("é".repeat(1_000), "x".repeat(MAX_TEXT_BYTES + 1));
        let texts = ["a", &long, "b", "c", &longest];
        assert_eq!(embedder.embed_documents(&texts).unwrap().rows(), 5);
        assert_eq!(embedder.spent().cut, 2);
    }

    #[test]
    fn a_reply_that_does_not_fit_is_refused() {
        let usage = r#""usage":{"prompt_tokens":1,"total_tokens":1}"#;
        let body = |data: &str| {
            reply(200, &format!(r#"{{"object":"list","model":"m","data":[{data}],{usage}}}"#))
        };
        let item = |at: u32, vector: &str| {
            format!(r#"{{"object":"embedding","index":{at},"embedding":{vector}}}"#)
        };
        let (one, two) = (item(0, "[1,0]"), item(1, "[0,1]"));
        for (script, reason) in [
            (body(&one), "1 vectors for 2 texts"),
            (body(&format!("{one},{one}")), "index 0 is repeated"),
            (body(&format!("{one},{}", item(7, "[1,0]"))), "index 7"),
            (body(&format!("{one},{}", item(1, "[1]"))), "length 1 and not 2"),
            (body(&format!("{one},{}", item(1, "[]"))), "length 0 and not 2"),
            (body(&format!("{one},{}", item(1, "[1e39,0]"))), "expected form"),
            (body(&format!("{one},{}", item(1, "[NaN,0]"))), "expected form"),
            (reply(200, "<html>"), "expected form"),
        ] {
            let embedder = open(&Scripted::new(vec![script]), Some(2)).unwrap();
            let error = embedder.embed_documents(&["a", "b"]).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        let good = body(&format!("{two},{one}"));
        let embedder = open(&Scripted::new(vec![good]), Some(2)).unwrap();
        let matrix = embedder.embed_documents(&["a", "b"]).unwrap();
        assert_eq!(matrix.data(), [1.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn a_wrong_key_shows_when_the_model_is_opened() {
        let server = Scripted::new(vec![reply(401, r#"{"error":{"message":"no"}}"#)]);
        let error = open(&server, None).err().unwrap();
        assert!(matches!(error, EmbedError::Remote(RemoteError::Key { status: 401, .. })));
        let nobody = Account { base_url: "http://127.0.0.1:1".to_owned(), ..Account::default() };
        let options = EmbedderOptions::default;
        let error = OpenAiEmbedder::open("small", options(), &nobody, None, quick()).err().unwrap();
        assert!(error.to_string().contains("no connection"), "{error}");
        assert!(OpenAiEmbedder::open("a\nb", options(), &nobody, None, quick()).is_err());
    }
}
