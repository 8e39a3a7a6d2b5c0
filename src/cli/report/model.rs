//! What the record of a trained model says, as values of a page. Must not know HTML.

use serde::Serialize;
use serde_json::Value;

use crate::report::chart::{Chart, curve};
use agent_train::{Record, ValidationPoint};

/// The values of the page.
#[derive(Serialize)]
pub(super) struct Page {
    name: String,
    system: String,
    dataset: String,
    n_train: usize,
    n_validation: usize,
    first: Option<Told>,
    last: Option<Told>,
    /// The look whose weights were kept.
    best: Option<Told>,
    curves: Vec<Curve>,
    settings: Vec<Setting>,
}

/// A look at validation queries.
#[derive(Serialize)]
struct Told {
    step: usize,
    mrr: String,
}

#[derive(Serialize)]
struct Curve {
    title: &'static str,
    chart: Chart,
}

#[derive(Serialize)]
struct Setting {
    name: String,
    value: String,
}

/// What a record says of the model of a name.
pub(super) fn page(name: &str, record: &Record<Value>) -> Page {
    let looks = &record.curve;
    let told = |look: &ValidationPoint| Told { step: look.step, mrr: percent(look.mrr) };
    let drawn = |best: &ValidationPoint| {
        let mrr: Vec<(usize, f64)> =
            looks.iter().map(|look| (look.step, 100.0 * look.mrr)).collect();
        let loss: Vec<(usize, f64)> = looks.iter().map(|look| (look.step, look.loss)).collect();
        let most = loss.iter().fold(0.0, |most: f64, number| most.max(number.1));
        let dot = |what: String| (best.step, format!("step {}: {what}", best.step));
        vec![
            Curve {
                title: "Mean reciprocal rank of validation queries, %",
                chart: curve(&mrr, 100.0, &dot(percent(best.mrr))),
            },
            Curve {
                title: "Loss of training queries, nats",
                chart: curve(&loss, most, &dot(format!("{:.4}", best.loss))),
            },
        ]
    };
    let mut settings = Vec::new();
    flatten("", &record.model, &mut settings);
    let [n_train, n_validation] = record.source.queries;
    Page {
        name: name.to_owned(),
        system: record.system.clone(),
        dataset: record.source.dataset.clone(),
        n_train,
        n_validation,
        first: looks.first().map(told),
        last: looks.last().map(told),
        best: record.best().map(told),
        curves: record.best().map_or_else(Vec::new, drawn),
        settings,
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// The single values of an object and of those within; lists are left out.
fn flatten(name: &str, value: &Value, into: &mut Vec<Setting>) {
    match value {
        Value::Object(entries) => {
            for (of, value) in entries {
                let name = if name.is_empty() { of.clone() } else { format!("{name}.{of}") };
                flatten(&name, value, into);
            }
        }
        Value::Array(_) | Value::Null => {}
        Value::String(text) => into.push(Setting { name: name.to_owned(), value: text.clone() }),
        other => into.push(Setting { name: name.to_owned(), value: other.to_string() }),
    }
}
