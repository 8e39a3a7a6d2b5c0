//! Sends the spans of a process to an OpenTelemetry collector as well, where
//! OTEL_EXPORTER_OTLP_ENDPOINT names one. Requests to language models carry the attributes of the
//! semantic conventions for generative AI, and no text of prompts or replies.
//!
//! Only with the feature `otlp`. Must not decide what is traced.

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::Subscriber;
use tracing_subscriber::{EnvFilter, Layer, registry::LookupSpan};

/// The variable that names the collector.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Spans that are sent.
const EXPORTED: &str = "agent=info";

/// Sends what is left when it is dropped.
pub(super) struct Export(SdkTracerProvider);

impl Drop for Export {
    fn drop(&mut self) {
        // A collector that is gone is no failure of the command.
        let _ = self.0.shutdown();
    }
}

/// A layer that sends spans, and what is to be held until the process ends; nothing where no
/// collector is named or it cannot be used.
pub(super) fn layer<S>() -> Option<(impl Layer<S>, Export)>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    std::env::var_os(ENDPOINT)?;
    let exporter = SpanExporter::builder().with_http().build().ok()?;
    let provider = SdkTracerProvider::builder()
        .with_resource(Resource::builder().with_service_name("agent").build())
        .with_batch_exporter(exporter)
        .build();
    let tracer = provider.tracer("agent");
    let filter = EnvFilter::new(EXPORTED);
    let layer = tracing_opentelemetry::layer().with_tracer(tracer).with_filter(filter);
    Some((layer, Export(provider)))
}
