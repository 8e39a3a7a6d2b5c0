//! Prints explanations of lost answers, as one JSON object or as text. The text is a table of
//! causes by category, then the programs with losses marked at their lines or, for one query, its
//! calls. Does not depend on how the causes were found.

use std::{collections::BTreeMap, fmt::Write};

use serde::Serialize;
use serde_json::{Value, json};

use crate::{Context, Exit, plain, printer::harmless, table};
use agent_app::{
    MAX_SHOWN, Result,
    explained::{Group, points},
    synthetic,
};
use agent_dataset::{LabelledQuery, is_synthetic};
use agent_index::IndexedBase;
use agent_infer::explain::{Cause, ExplainedQuery, Explainer, Kind, Loss};
use agent_optimize::trial::mean;

/// Maximum number of characters to show for a call or a reason.
const MAX_CALL: usize = 200;

/// Explained queries, and the data that the report needs to describe them.
pub(super) struct Report<'a> {
    pub(super) dataset: &'a str,
    /// Name of the split; `None` for a query given on the command line.
    pub(super) split: Option<String>,
    pub(super) system: String,
    pub(super) explainer: &'a Explainer,
    pub(super) queries: &'a [LabelledQuery],
    /// Explanations of the queries, in the order of `queries`.
    pub(super) explained: &'a [ExplainedQuery],
    pub(super) base: &'a IndexedBase,
    /// Whether to print the tool calls too; set if only one query is explained.
    pub(super) with_calls: bool,
}

/// JSON of one explained query.
#[derive(Serialize)]
struct PrintedQuery<'a> {
    id: i64,
    query: &'a str,
    category: &'a str,
    reciprocal_rank: f32,
    loss: Option<&'a Loss>,
    /// Loss in the program of the most probable category, if another category's program would
    /// answer the query better.
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<&'a Loss>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<Vec<PrintedCall>>,
}

/// JSON of one tool call.
#[derive(Serialize)]
struct PrintedCall {
    line: Option<usize>,
    tool: &'static str,
    arguments: Vec<String>,
    result: String,
}

impl Report<'_> {
    fn mrr(&self) -> f64 {
        let ranks: Vec<f32> = self.explained.iter().map(|one| one.reciprocal_rank).collect();
        mean(&ranks)
    }

    /// Returns the number of queries with each kind of loss that occurs.
    fn kinds(&self) -> BTreeMap<Kind, usize> {
        let mut kinds = BTreeMap::new();
        for loss in self.explained.iter().filter_map(|explained| explained.loss.as_ref()) {
            *kinds.entry(loss.kind).or_default() += 1;
        }
        kinds
    }

    fn calls(&self, explained: &ExplainedQuery) -> Vec<PrintedCall> {
        let kb = &self.base.kb;
        let call = |call: &agent_tools::ToolCall| PrintedCall {
            line: call.line,
            tool: call.name,
            arguments: call.arguments(kb),
            result: call.outcome(kb),
        };
        explained.calls.iter().map(call).collect()
    }

    /// Prints the whole report as one JSON object.
    pub(super) fn print_json(&self, ctx: &Context) -> Result<Exit> {
        let groups = Group::all(self.explainer, self.explained);
        // `within`: causes of losses in this category's program, for queries that another
        // category's program would answer better.
        let category = |group: &Group<'_>| {
            json!({
                "name": group.name,
                "program": group.id,
                "n": group.n,
                "mrr": group.mrr,
                "causes": group.causes,
                "within": group.within,
            })
        };
        let categories: Vec<Value> = groups.iter().map(category).collect();
        let queries: Vec<PrintedQuery<'_>> = self
            .queries
            .iter()
            .zip(self.explained)
            .map(|(query, explained)| PrintedQuery {
                id: query.id,
                query: &query.text,
                category: self
                    .explainer
                    .categories()
                    .nth(explained.category)
                    .map_or("", |category| &category.name),
                reciprocal_rank: explained.reciprocal_rank,
                loss: explained.loss.as_ref(),
                within: explained.within.as_ref(),
                calls: self.with_calls.then(|| self.calls(explained)),
            })
            .collect();
        ctx.printer.json(&json!({
            "dataset": self.dataset,
            "split": self.split,
            "synthetic": is_synthetic(self.queries),
            "system": self.system,
            "n": self.explained.len(),
            "mrr": self.mrr(),
            "kinds": self.kinds(),
            "categories": categories,
            "queries": queries,
        }))
    }

    /// Prints the table of causes, then the calls if only one query is explained, otherwise the
    /// programs with losses marked at their lines.
    pub(super) fn print(&self, ctx: &Context) -> Result<Exit> {
        let n = self.explained.len();
        let lost = self.explained.iter().filter(|explained| explained.loss.is_some()).count();
        ctx.watch.notice(&format!(
            "{lost} of {n} queries have no correct answer at rank 1; mrr {:.1}; gains are upper bounds \
             in points of mrr",
            100.0 * self.mrr()
        ));
        let groups = Group::all(self.explainer, self.explained);
        let headings = ["category", "n", "mrr", "lost", "line", "function", "queries", "gain"];
        let mut rows = table(headings, &[1, 2, 4, 6, 7]);
        for group in &groups {
            let mut head = [
                plain(group.name, MAX_SHOWN),
                group.n.to_string(),
                format!("{:.1}", 100.0 * group.mrr),
            ];
            let routed = group.causes.iter().map(|cause| (cause, ""));
            let within = group.within.iter().map(|cause| (cause, "of these "));
            // "Not routed" comes after all other kinds. The losses that its queries have in this
            // category's program come last.
            let order = |pair: &(&Cause, &str)| {
                (!pair.1.is_empty() || pair.0.kind == Kind::NotRouted, !pair.1.is_empty())
            };
            let mut of_group: Vec<(&Cause, &str)> = routed.chain(within).collect();
            of_group.sort_by_key(order);
            for (cause, prefix) in of_group {
                let of_cause = [
                    format!("{prefix}{}", cause.kind.name()),
                    cause.line.map_or("-".to_owned(), |line| line.to_string()),
                    plain(&cause.function, MAX_SHOWN),
                    cause.n.to_string(),
                    points(cause.gain, n),
                ];
                rows.add_row(std::mem::take(&mut head).into_iter().chain(of_cause));
            }
            if group.causes.is_empty() {
                rows.add_row(head);
            }
        }
        ctx.printer.table(&rows)?;
        ctx.printer.data(&synthetic::line(self.queries))?;
        if self.with_calls {
            return self.print_calls(ctx);
        }
        for group in groups.iter().filter(|group| group.marks(n).next().is_some()) {
            ctx.printer.text(&format!("\n{}", self.marked(group)))?;
        }
        Ok(Exit::Done)
    }

    /// Prints, for each query, why no answer is at rank 1, then every tool call of its program with
    /// the result.
    fn print_calls(&self, ctx: &Context) -> Result<Exit> {
        for explained in self.explained {
            if let Some(loss) = &explained.loss {
                let line = loss.line.map_or(String::new(), |line| format!(", line {line}"));
                ctx.printer.text(&format!(
                    "\n{}: {}{line}: {}",
                    loss.kind.name(),
                    plain(&loss.function, MAX_SHOWN),
                    plain(&loss.why, MAX_CALL)
                ))?;
            }
            let mut text = "\n".to_owned();
            for PrintedCall { line, tool, arguments, result } in self.calls(explained) {
                let line = line.map_or(String::new(), |line| line.to_string());
                let call = format!("{tool}({}) = {result}", arguments.join(", "));
                let _ = writeln!(text, "{line:>4}  {}", plain(call, MAX_CALL));
            }
            ctx.printer.text(&text)?;
        }
        Ok(Exit::Done)
    }

    /// Returns the source of the category's program with numbered lines, each marked with the
    /// losses at that line.
    fn marked(&self, group: &Group<'_>) -> String {
        let id: String = group.id.chars().take(12).collect();
        let mut text = format!("{id}  {}\n", plain(group.name, MAX_SHOWN));
        for (line, number) in group.source.lines().zip(1..) {
            let at: Vec<String> = group
                .marks(self.explained.len())
                .filter(|(of, _)| *of == number)
                .map(|(_, mark)| mark)
                .collect();
            let gap = if at.is_empty() { "" } else { "   <-- " };
            let _ = writeln!(text, "{number:>4}  {}{gap}{}", harmless(line), at.join(", "));
        }
        text
    }
}
