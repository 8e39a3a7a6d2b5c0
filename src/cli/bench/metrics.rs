//! What the metrics of a ranking cost, over the candidates of a dataset.

use std::hint::black_box;

use crate::{
    Context,
    bench::{WorkArgs, measure, work},
};
use agent_app::{dataset, error::Result};
use agent_kb::Kb;
use agent_retrieve::{
    Ranking,
    eval::{
        NodeId,
        ranks::{AnswerRanks, Candidates, ScoreRule},
    },
};

const NAMES: [&str; 8] =
    ["mrr", "hit@1", "hit@5", "recall@20", "recall@100", "map@100", "ndcg@10", "precision@10"];

pub(super) fn run(args: &WorkArgs, ctx: &Context) -> Result<()> {
    let kb = Kb::open(&dataset::find(&args.args.dataset, ctx)?.base.kb_dir())?;
    let candidates = Candidates::of_base(&kb);
    let rankings = match &args.work {
        Some(path) => work::read_rankings(path)?,
        None => work::draw_rankings(kb.candidates()),
    };
    let scored: Vec<(Ranking, Vec<NodeId>)> = rankings
        .into_iter()
        .map(|(ranked, answers)| {
            let scores = (1..).map(|rank| 1.0 / rank as f32);
            (ranked.into_iter().zip(scores).collect(), answers)
        })
        .collect();
    let eight = |(ranking, answers): &(Ranking, Vec<NodeId>)| {
        let ranks = AnswerRanks::new(ranking, answers, candidates, ScoreRule::Any);
        [
            ranks.reciprocal_rank(),
            ranks.hit_at(1),
            ranks.hit_at(5),
            ranks.recall_at(20),
            ranks.recall_at(100),
            ranks.average_precision_at(100),
            ranks.ndcg_at(10),
            ranks.precision_at(10),
        ]
    };
    let mut figure = measure("metrics", scored.len(), || {
        scored.iter().for_each(|query| {
            black_box(eight(query));
        });
    });
    for (at, name) in NAMES.into_iter().enumerate() {
        let sum: f64 = scored.iter().map(|query| f64::from(eight(query)[at])).sum();
        figure = figure.with(name, sum / scored.len().max(1) as f64);
    }
    figure.print(args.args.json, ctx)
}
