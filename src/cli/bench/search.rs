//! What a search by words costs, one query at a time.

use std::{fs, hint::black_box, time::Instant};

use anyhow::Context as _;

use crate::{
    Context,
    bench::{K, WorkArgs, measure, work},
};
use agent_app::{dataset, error::Result};
use agent_index::TextPart;

pub(super) fn run(args: &WorkArgs, ctx: &Context) -> Result<()> {
    let base = dataset::open(&dataset::find(&args.args.dataset, ctx)?, ctx)?;
    let queries: Vec<String> = match &args.work {
        Some(path) => {
            let text = fs::read_to_string(path);
            let text = text.with_context(|| format!("cannot read {}", path.display()))?;
            text.lines().map(str::to_owned).collect()
        }
        None => work::draw_queries(&base.kb),
    };
    let search = |query: &String| base.text.search(query, TextPart::Document, &[], K);
    let mut n_found = 0;
    for query in &queries {
        n_found += search(query).len();
    }
    let mut each_us: Vec<f64> = Vec::new();
    let figure = measure("bm25", queries.len(), || {
        for query in &queries {
            let began = Instant::now();
            drop(black_box(search(query)));
            each_us.push(began.elapsed().as_secs_f64() * 1e6);
        }
    });
    each_us.sort_unstable_by(f64::total_cmp);
    let p99_us = each_us.get(each_us.len() * 99 / 100).copied();
    figure
        .with("found", n_found as f64 / queries.len().max(1) as f64)
        .with("p99_us", p99_us)
        .print(args.args.json, ctx)
}
