//! Sends the tracing spans of this process to the OpenTelemetry collector at the address in
//! `OTEL_EXPORTER_OTLP_ENDPOINT`. Requests to language models carry the attributes of the semantic
//! conventions for generative AI, but no text of prompts or replies.
//!
//! Requires the feature `otlp`. Does not decide what is traced.

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{HttpExporterBuilderSet, SpanExporter, SpanExporterBuilder};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::Subscriber;
use tracing_subscriber::{EnvFilter, Layer, registry::LookupSpan};

/// Environment variable with the address of the collector.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Filter directives that select the spans to send.
const EXPORTED: &str = "agent=info";

/// Guard that sends pending spans when dropped.
pub struct Export(SdkTracerProvider);

impl Drop for Export {
    fn drop(&mut self) {
        // An unreachable collector is not a failure of the command.
        let _ = self.0.shutdown();
    }
}

/// Returns a layer that sends spans, and a guard to keep until the process ends. `None` if
/// `OTEL_EXPORTER_OTLP_ENDPOINT` is not set or the exporter cannot be built.
pub fn layer<S>() -> Option<(impl Layer<S>, Export)>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    // The exporter reads the variable itself, and adds the path of traces.
    std::env::var_os(ENDPOINT)?;
    layer_of(SpanExporter::builder().with_http())
}

fn layer_of<S>(
    exporter: SpanExporterBuilder<HttpExporterBuilderSet>,
) -> Option<(impl Layer<S>, Export)>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    // Building any HTTP client of this program installs the TLS provider that the exporter needs.
    crate::http_client(|settings| settings).ok()?;
    let exporter = exporter.build().ok()?;
    let provider = SdkTracerProvider::builder()
        .with_resource(Resource::builder().with_service_name("agent").build())
        .with_batch_exporter(exporter)
        .build();
    let tracer = provider.tracer("agent");
    let filter = EnvFilter::new(EXPORTED);
    let layer = tracing_opentelemetry::layer().with_tracer(tracer).with_filter(filter);
    Some((layer, Export(provider)))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        thread,
    };

    use opentelemetry_otlp::WithExportConfig as _;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Returns the first request to a listener, and replies with status 200.
    fn request(listener: &TcpListener) -> Vec<u8> {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
        let is_whole = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).to_lowercase();
            let head = text.find("\r\n\r\n").map(|end| end + 4);
            let length = text.split("content-length:").nth(1).and_then(|rest| {
                rest.split_whitespace().next().and_then(|number| number.parse::<usize>().ok())
            });
            head.zip(length).is_some_and(|(head, length)| bytes.len() >= head + length)
        };
        while !is_whole(&bytes) {
            let n = stream.read(&mut part).unwrap();
            assert!(n > 0, "the request breaks off");
            bytes.extend(&part[..n]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        bytes
    }

    #[test]
    fn otlp_sends_the_spans_of_this_program_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let collector = thread::spawn(move || request(&listener));
        let exporter = SpanExporter::builder().with_http().with_endpoint(address);
        let (layer, export) = layer_of(exporter).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info_span!(target: "agent", "a question").in_scope(|| {});
            tracing::info_span!(target: "somebody", "a stranger").in_scope(|| {});
        });
        drop(export);
        let sent = String::from_utf8_lossy(&collector.join().unwrap()).into_owned();
        assert!(sent.starts_with("POST /v1/traces") && sent.contains("a question"), "{sent}");
        assert!(!sent.contains("a stranger"), "{sent}");
    }
}
