//! What a run reports, in words. Must not know how it is shown.

use agent_infer::bundle::Proof;
use agent_optimize::{Milestone, Scope};

/// When programs were first better than every baseline, in words.
pub fn first_better(better: &Milestone) -> String {
    let (what, queries) = match better.scope {
        Scope::Program => ("first program", " it was tried on"),
        Scope::Together => ("all programs together", ""),
    };
    format!(
        "{what} better than every baseline after {:.1} s: mrr {:.1} against {:.1} of {}, on {} of \
         the {} training queries{queries}",
        better.seconds,
        100.0 * better.mrr,
        100.0 * better.baseline_mrr,
        better.baseline,
        better.n,
        better.total
    )
}

/// How a sequential test ended, in words.
pub fn tested(proof: &Proof) -> String {
    // Rounded first, so that next to nothing is not shown as -0.
    let points = (1_000.0 * proof.difference).round() / 10.0 + 0.0;
    let (verdict, more) = match (proof.proven, proof.needed) {
        (true, _) => ("proven", String::new()),
        (_, Some(n)) => {
            ("not proven", format!("; {n} more queries with such differences would prove it"))
        }
        (_, None) => ("not proven", String::new()),
    };
    let mut text = format!(
        "{verdict}: all changes together: {points:+.1} on {} of {} validation queries of changed \
         categories, e-value {:.1} of {:.1}, error rate {}{more}",
        proof.n,
        proof.total,
        proof.e,
        1.0 / proof.level,
        proof.error_rate
    );
    for one in &proof.categories {
        let verdict = if one.proven { "proven" } else { "not proven" };
        text += &format!(
            "; {verdict} by itself: {}: {:+.1} on {}, evidence {:.1} of {:.1}",
            one.name,
            (1_000.0 * one.difference).round() / 10.0 + 0.0,
            one.n,
            one.e,
            1.0 / one.level
        );
    }
    text
}
