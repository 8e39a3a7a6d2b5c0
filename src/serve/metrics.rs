//! Counts the requests of the server, and returns the counters in the OpenMetrics text format. Does
//! not depend on what requests do.

use std::time::Duration;

use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

use agent_retrieve::AssistFailure;

/// The counters of a server.
pub(super) struct Metrics {
    registry: Registry,
    /// Requests by endpoint and status.
    requests: Family<[(&'static str, String); 2], Counter>,
    /// Durations of requests by endpoint.
    seconds: Family<[(&'static str, String); 1], Histogram>,
    /// Questions that use a language model, by outcome.
    helped: Family<[(&'static str, &'static str); 1], Counter>,
    waiting: Gauge,
    running: Gauge,
}

impl Metrics {
    pub(super) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("agent");
        let requests = Family::<[(_, String); 2], Counter>::default();
        // From half a millisecond to 16 seconds.
        let buckets = || Histogram::new(exponential_buckets(0.000_5, 2.0, 16));
        let seconds = Family::<[(_, String); 1], Histogram>::new_with_constructor(buckets);
        let (waiting, running) = (Gauge::default(), Gauge::default());
        registry.register("requests", "Requests by endpoint and status", requests.clone());
        let help = "Time from the request to its answer";
        registry.register_with_unit("request", help, Unit::Seconds, seconds.clone());
        let helped = Family::<[(_, &'static str); 1], Counter>::default();
        let help = "Questions that use a language model, by outcome";
        registry.register("helped_questions", help, helped.clone());
        registry.register("queue_waiting", "Requests that wait for a thread", waiting.clone());
        registry.register("queue_running", "Requests that a thread answers", running.clone());
        Metrics { registry, requests, seconds, helped, waiting, running }
    }

    /// Counts a request, its response status and how long it took. `endpoint` is a route, never
    /// text that a client sent.
    pub(super) fn note(&self, endpoint: &str, status: u16, took: Duration) {
        let of_endpoint = [("endpoint", endpoint.to_owned())];
        self.seconds.get_or_create(&of_endpoint).observe(took.as_secs_f64());
        let [endpoint] = of_endpoint;
        self.requests.get_or_create(&[endpoint, ("status", status.to_string())]).inc();
    }

    /// Counts a question that uses a language model; `miss` is the reason why the model did not
    /// help, `None` if it helped.
    pub(super) fn note_helped(&self, miss: Option<AssistFailure>) {
        let outcome = match miss {
            None => "helped",
            Some(AssistFailure::Outage) => "outage",
            Some(AssistFailure::Unusable) => "unusable",
            Some(AssistFailure::Late) => "late",
            Some(AssistFailure::Busy) => "busy",
            Some(AssistFailure::Ceiling) => "ceiling",
        };
        self.helped.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Returns all metrics as text. `waiting` and `running` are the current numbers of waiting and
    /// running jobs in the queue.
    pub(super) fn text(&self, waiting: usize, running: usize) -> String {
        self.waiting.set(waiting as i64);
        self.running.set(running as i64);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_are_about_what_is_counted() {
        let metrics = Metrics::new();
        metrics.note("/v1/query", 200, Duration::ZERO);
        metrics.note_helped(None);
        let text = metrics.text(0, 0);
        let rules = include_str!("../../deploy/alerts.yaml");
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        let names = rules.split(|c| !is_name(c)).filter(|word| word.starts_with("agent_"));
        assert!(names.clone().count() > 5);
        for name in names {
            assert!(text.contains(name), "{name} is not counted");
        }
    }

    #[test]
    fn requests_are_counted_by_route_and_status() {
        let metrics = Metrics::new();
        metrics.note("/v1/query", 200, Duration::from_millis(3));
        metrics.note("/v1/query", 200, Duration::from_millis(5));
        metrics.note("/v1/query", 429, Duration::ZERO);
        let text = metrics.text(4, 2);
        for line in [
            "agent_requests_total{endpoint=\"/v1/query\",status=\"200\"} 2",
            "agent_requests_total{endpoint=\"/v1/query\",status=\"429\"} 1",
            "agent_request_seconds_count{endpoint=\"/v1/query\"} 3",
            "agent_queue_waiting 4",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is not in:\n{text}");
        }
    }
}
