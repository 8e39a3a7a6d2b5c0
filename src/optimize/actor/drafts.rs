//! Drafts: first programs of categories, which a model writes, several at a time.
//!
//! ```text
//! initial -> extract, compile, run on a few queries -> repair with the error, at most twice
//!    -> show its score and three traces, take one revision
//!    -> measure on the gate and the category's queries against the best available program
//! ```
//!
//! A draft becomes its category's initial program if it also gains enough on training queries that
//! its prompt did not show. Otherwise a draft that is better on the category's queries is a
//! challenger: its gain must be proven on validation queries.

use serde_json::{Value, json};

use crate::{
    Ablation, Event, Result, Run,
    accept::MIN_GAIN,
    actor::{
        Actor, Attempt, Categories, CategoryRecord, INITIAL, LLM, NOT_ASKED, Notes,
        advice::advice_from_others,
        author::{ACTOR_ROLE, SHOWN_TO_IMPROVE, TRIED, failure, headed},
        execution_trace,
        first::EXAMPLES,
    },
    asks::{asking_function, asks},
    category_programs::{CategoryProgram, Queries},
    gate::gate,
    improve::Measurement,
    plan::{self, Plan},
    trial::{Origin, failure_text, largest, mean, reciprocal_ranks},
};
use agent_infer::{ParamValues, bundle::SEARCH};
use agent_llm::{Reply, replies::extract_program};
use agent_sandbox::program::Program;

/// Maximum number of requests to repair a program.
pub(super) const MAX_REPAIRS: u32 = 2;
/// Maximum size in bytes of a reply with a program, so that the program fits into a request to
/// repair it.
const MAX_REPLY_BYTES: usize = 32 << 10;
/// Maximum number of failures that a request to repair a program shows.
const SHOWN_FAILURES: usize = 3;
/// Maximum number of execution traces in a request to revise a program.
const TRIED_OUT_TRACES: usize = 3;

/// Inputs of a request for a program of a category, and of the trial of this program.
pub(super) struct DraftRequest {
    /// Name of the category.
    pub(super) name: String,
    /// Training queries, as positions: the program is tried on the first [`TRIED`], and the prompt
    /// for a first program shows all of them with answers.
    pub(super) tried: Vec<usize>,
    /// Number of program runs to claim from the optimizer run's allowance if the program asks a
    /// model.
    pub(super) runs: usize,
    /// The training queries of the category, as positions in the training pool.
    pub(super) queries: Vec<usize>,
    /// The best available program for the category, which the prompt shows.
    pub(super) best: CategoryProgram,
}

/// A program that runs, or the reason why there is no such program.
pub(super) type DraftResult = Result<Program, String>;

/// Content of a model's reply to a request for a program.
enum ReplyContent {
    Program(Program),
    /// A program that does not run, or a text without a program. `failures` is included in the
    /// next prompt.
    Failing {
        source: String,
        failures: Vec<Value>,
    },
    /// There is no reply; holds the reason.
    Missing(String),
}

impl Run<'_> {
    /// Asks the model for categories and for a draft of each category's program. Adds each category
    /// to `categories` with the draft or, if the draft does not gain enough, with the best
    /// available program. Returns the challengers, each with the index of its category.
    pub(crate) fn write_programs(
        &mut self,
        actor: &mut Actor,
        categories: &mut Vec<CategoryProgram>,
    ) -> Result<Vec<(usize, CategoryProgram)>> {
        self.report_phase("finding categories");
        let found = Categories { found: self.find_categories(actor)? };
        self.commit_asked(actor, None, ("categories", "found"), &found)?;
        let found = found.found;
        let fallback = self.fallback(categories)?;
        for CategoryRecord { name, description, .. } in &found {
            let description = description.clone();
            actor.notes.insert(name.clone(), Notes { description, ..Notes::default() });
        }
        let best_on = |queries: &[usize]| {
            largest(fallback.iter().map(|program| (mean(&program.train_on(queries)), program)))
        };
        let request = |found: &CategoryRecord| {
            let queries = &found.train;
            let best = best_on(queries)?.1;
            let examples = || self.examples(queries, EXAMPLES, 0);
            let request = || self.draft_request(&found.name, examples(), queries, best);
            self.may_gain(best, queries).then(request)
        };
        let asked: Vec<Option<DraftRequest>> = found.iter().map(request).collect();
        let is_asked: Vec<bool> = asked.iter().map(Option::is_some).collect();
        let requests: Vec<DraftRequest> = asked.into_iter().flatten().collect();
        let written = self.drafts(actor, &requests, 0);
        let written = actor.unless_stopped(written)?.unwrap_or_default();
        let mut drafts = requests.iter().zip(written);
        let (total, mut challengers) = (found.len(), Vec::new());
        for (done, (found, is_asked)) in found.into_iter().zip(is_asked).enumerate() {
            let CategoryRecord { name, train, validation, .. } = found;
            (self.watch)(Event::Progress { phase: "writing programs", done, total });
            let Some((before, best)) = best_on(&train) else { continue };
            let mut unseen = train.clone();
            let draft = match is_asked.then(|| drafts.next()).flatten() {
                Some((request, written)) => {
                    unseen.retain(|at| !request.tried.contains(at));
                    let judged = self.evaluate_draft(actor, request, (best, before), written);
                    actor.unless_stopped(judged)?.flatten()
                }
                None => None,
            };
            let is_sure =
                |draft: &CategoryProgram| draft.sum_on(&unseen) >= best.sum_on(&unseen) + MIN_GAIN;
            let (mut category, mut challenger) = match draft {
                Some(draft) if is_sure(&draft) => (draft, None),
                draft => (self.adopt(best, &actor.category_header(&name))?, draft),
            };
            category.queries = Some(Queries { train: train.clone(), validation });
            for category in [Some(&mut category), challenger.as_mut()].into_iter().flatten() {
                if category.proposed_by == LLM && !self.options.lacks(Ablation::Tuning) {
                    self.tune(category, &train)?;
                }
            }
            let (n, mrr) = (train.len(), mean(&category.train_on(&train)));
            (self.watch)(Event::Category { name: &name, n, mrr, bound: None });
            challengers.extend(challenger.map(|challenger| (categories.len(), challenger)));
            categories.push(category);
        }
        Ok(challengers)
    }

    /// Returns the programs that a category can have instead of a draft: those in `categories` that
    /// are not WebAssembly modules or, if there are none, a program that only searches text.
    fn fallback(&mut self, categories: &[CategoryProgram]) -> Result<Vec<CategoryProgram>> {
        // A module has no header that could name another category.
        let readable = categories.iter().filter(|category| !category.program.is_module());
        let readable: Vec<CategoryProgram> = readable.cloned().collect();
        if !readable.is_empty() {
            return Ok(readable);
        }
        let plan = Plan { target: None, branches: Vec::new() };
        let program = plan::render(&self.base, &plan, true);
        let origin = Origin::new(SEARCH, "search by words", None);
        Ok(vec![self.category_program(Some(plan), program, ParamValues::new(), None, &origin)?])
    }

    /// Returns a copy of a program for another category, with this category's header, measured on
    /// all training queries.
    fn adopt(&mut self, category: &CategoryProgram, header: &str) -> Result<CategoryProgram> {
        let program = Program::new(&headed(category.program.source(), header));
        let (proposed_by, parent) = (&category.proposed_by, Some(&category.program));
        let origin = Origin::new(proposed_by, "adopted for the category", parent);
        let (plan, params) = (category.plan.clone(), category.params.clone());
        self.category_program(plan, program, params, None, &origin)
    }

    /// Builds the request for a program of a category that is tried on the first queries in
    /// `tried`.
    pub(super) fn draft_request(
        &self,
        name: &str,
        tried: Vec<usize>,
        queries: &[usize],
        best: &CategoryProgram,
    ) -> DraftRequest {
        // Enough to try, measure and freeze the program.
        let runs = TRIED + queries.len() + self.validation.queries.len();
        let (name, queries, best) = (name.to_owned(), queries.to_vec(), best.clone());
        DraftRequest { name, tried, runs, queries, best }
    }

    /// Asks the model for the requested first programs, has them repaired until they run and,
    /// unless [`Ablation::Steps`] is disabled, revised once. The results are in the order of
    /// `requests`.
    pub(super) fn drafts(
        &mut self,
        actor: &mut Actor,
        requests: &[DraftRequest],
        sample: u32,
    ) -> Result<Vec<DraftResult>> {
        if actor.stop.is_some() {
            let why = "no further requests are sent".to_owned();
            return Ok(vec![Err(why); requests.len()]);
        }
        (self.watch)(Event::Progress { phase: "writing programs", done: 0, total: requests.len() });
        self.mine_for_prompts(actor)?;
        let mut inputs = Vec::new();
        for request in requests {
            inputs.push((request.name.as_str(), self.first_inputs(actor, request)));
        }
        let replies = actor.ask_each(ACTOR_ROLE.role(), "actor/initial", inputs, sample)?;
        let mut written = self.repair(actor, requests, replies, sample)?;
        if !self.options.lacks(Ablation::Steps) {
            self.try_out(actor, requests, &mut written, sample)?;
        }
        Ok(written)
    }

    /// Extracts the programs from replies, and asks the model to repair each until it runs, at most
    /// [`MAX_REPAIRS`] times. The results are in the order of `requests`.
    pub(super) fn repair(
        &mut self,
        actor: &mut Actor,
        requests: &[DraftRequest],
        replies: Vec<Result<Reply, String>>,
        sample: u32,
    ) -> Result<Vec<DraftResult>> {
        let mut written: Vec<DraftResult> = vec![Err(NOT_ASKED.to_owned()); requests.len()];
        let mut open: Vec<(usize, Result<Reply, String>)> =
            replies.into_iter().enumerate().collect();
        for round in 0..=MAX_REPAIRS {
            let (mut again, mut inputs) = (Vec::new(), Vec::new());
            for (at, reply) in open {
                let request = &requests[at];
                match self.read(actor, request, reply)? {
                    ReplyContent::Program(program) => {
                        actor.note_usable(Ok(()));
                        written[at] = Ok(program);
                    }
                    ReplyContent::Missing(why) => {
                        actor.note_usable(Err(&why));
                        written[at] = Err(why);
                    }
                    ReplyContent::Failing { failures, .. } if round == MAX_REPAIRS => {
                        let why = failures[0]["message"].as_str().unwrap_or_default();
                        actor.note_usable(Err(why));
                        written[at] =
                            Err(format!("it does not run after {MAX_REPAIRS} repairs: {why}"));
                    }
                    ReplyContent::Failing { source, failures } => {
                        let mut one = self.prompt_inputs(actor, &request.name);
                        one["toolkit"] = actor.briefing.toolkit_outline.as_str().into();
                        one["current"] = json!({ "source": source, "score": Value::Null });
                        one["failures"] = failures.into();
                        again.push(at);
                        inputs.push((request.name.as_str(), one));
                    }
                }
            }
            self.trials.check_stop()?;
            let replies = actor.ask_each(ACTOR_ROLE.role(), "actor/mend", inputs, sample)?;
            open = again.into_iter().zip(replies).collect();
        }
        Ok(written)
    }

    /// Extracts the program from a reply and tries it. Returns a program that runs, or the
    /// failures.
    fn read(
        &mut self,
        actor: &Actor,
        request: &DraftRequest,
        reply: Result<Reply, String>,
    ) -> Result<ReplyContent> {
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => return Ok(ReplyContent::Missing(why)),
        };
        if reply.text.len() > MAX_REPLY_BYTES {
            let n = reply.text.len();
            let why = format!("the reply has {n} bytes; at most {MAX_REPLY_BYTES} are read");
            return Ok(ReplyContent::Missing(why));
        }
        let source = match extract_program(&reply.text, reply.finish) {
            Ok(source) => source,
            Err(why) => {
                let failures = vec![failure("", &why.to_string())];
                return Ok(ReplyContent::Failing { source: reply.text, failures });
            }
        };
        let program = Program::new(&headed(&source, &actor.category_header(&request.name)));
        let failures = self.failures(&program, request)?;
        Ok(match failures.is_empty() {
            true => ReplyContent::Program(program),
            false => ReplyContent::Failing { source: program.source().to_owned(), failures },
        })
    }

    /// Tries a program on the request's queries and returns its failures for a prompt; empty if the
    /// program can be measured. Failures are: the program does not compile, has invalid parameters,
    /// leaks answers, exceeds the allowance of runs that ask a model, fails on a query, or returns
    /// no node for any query.
    fn failures(&mut self, program: &Program, request: &DraftRequest) -> Result<Vec<Value>> {
        let queries: Vec<usize> = request.tried.iter().copied().take(TRIED).collect();
        let runtime = self.trials.runtime_of(program);
        let compiled = match runtime.compile(program) {
            Ok(compiled) => compiled,
            Err(failed) => return Ok(vec![failure("", &failure_text(&failed))]),
        };
        if let Err(failed) = runtime.declared_params(&compiled) {
            return Ok(vec![failure("", &format!("params(): {}", failure_text(&failed)))]);
        }
        if let Some(leak) = self.forbidden.leak(program.source()) {
            return Ok(vec![failure("", &leak.to_string())]);
        }
        if let Some(name) = asking_function(program)
            && !self.allowance.claim(request.runs)
        {
            let why = format!(
                "{name} asks a language model, and the budget of this run for such functions is used \
                 up; write the program without it and others of that kind"
            );
            return Ok(vec![failure("", &why)]);
        }
        let rankings = self.trials.rankings(program, &ParamValues::new(), &self.train, &queries)?;
        let text = |at: usize| self.train.queries[queries[at]].text.as_str();
        let failed = rankings.iter().enumerate();
        let failed = failed.filter_map(|(at, (_, why))| Some(failure(text(at), why.as_ref()?)));
        let mut failures: Vec<Value> = failed.take(SHOWN_FAILURES).collect();
        let is_empty = rankings.iter().all(|(ranking, _)| ranking.is_empty());
        if failures.is_empty() && is_empty && !rankings.is_empty() {
            let why = "the program returned no node for any query it was tried on";
            failures.push(failure(text(0), why));
        }
        if asks(program) && !failures.is_empty() {
            self.allowance.give_back(request.runs - queries.len());
        }
        Ok(failures)
    }

    /// Asks for one revision of each written program that ranked no answer first on at least one of
    /// the queries on which it was tried; the prompt shows the program's score and execution
    /// traces. A revision replaces the program if it runs and has a higher mean reciprocal rank on
    /// the category's training queries that no prompt showed. If prompts showed all queries, all of
    /// them count.
    fn try_out(
        &mut self,
        actor: &mut Actor,
        requests: &[DraftRequest],
        written: &mut [DraftResult],
        sample: u32,
    ) -> Result<()> {
        let (mut places, mut inputs) = (Vec::new(), Vec::new());
        for (at, request) in requests.iter().enumerate() {
            let Ok(program) = &written[at] else { continue };
            let program = program.clone();
            let tried: Vec<usize> = request.tried.iter().copied().take(TRIED).collect();
            let ranks = self.tried_ranks(&program, &tried)?;
            let score = mean(&ranks);
            let mut worst: Vec<usize> = (0..tried.len()).filter(|&at| ranks[at] < 1.0).collect();
            if worst.is_empty() {
                continue;
            }
            worst.sort_by(|&a, &b| ranks[a].total_cmp(&ranks[b]).then(a.cmp(&b)));
            let runtime = self.trials.runtime_of(&program);
            let compiled = self.trials.compile(&program)?;
            let none = ParamValues::new();
            let trace = |place: usize| {
                let query = &self.train.queries[tried[place]];
                execution_trace::render(runtime, &compiled, &none, program.source(), query)
            };
            let traces: Result<Vec<String>> =
                worst.into_iter().take(TRIED_OUT_TRACES).map(trace).collect();
            let mut one = self.short_prompt_inputs(actor, &request.name);
            let solved = request.tried.get(..SHOWN_TO_IMPROVE).unwrap_or(&request.tried);
            one["queries"] = self.solved_queries(solved);
            one["current"] = self.current(actor, &request.name, &program, (&tried, &ranks));
            one["current"]["tuned"] = "".into();
            one["advice"] = tried_out(score, tried.len()).into();
            one["previous"] = json!([]);
            one["elsewhere"] = advice_from_others(&actor.accepted_advice, &request.name);
            one["traces"] = traces?.into();
            places.push(at);
            inputs.push((request.name.as_str(), one));
        }
        let replies = actor.ask_each(ACTOR_ROLE.role(), "actor/improve", inputs, sample)?;
        for (at, reply) in places.into_iter().zip(replies) {
            let request = &requests[at];
            let ReplyContent::Program(revised) = self.read(actor, request, reply)? else {
                continue;
            };
            let Ok(program) = &mut written[at] else { continue };
            let is_unseen = |query: &usize| !request.tried.contains(query);
            let mut judged = request.queries.clone();
            if judged.iter().any(is_unseen) {
                judged.retain(is_unseen);
            }
            let before = mean(&self.tried_ranks(program, &judged)?);
            let after = mean(&self.tried_ranks(&revised, &judged)?);
            let dropped = match after > before {
                true => std::mem::replace(program, revised),
                false => revised,
            };
            if asks(&dropped) {
                self.allowance.give_back(request.runs - request.tried.len().min(TRIED));
            }
        }
        Ok(())
    }

    /// Returns the reciprocal rank of a program with its declared parameters on each of the
    /// training queries in `tried` (positions).
    fn tried_ranks(&self, program: &Program, tried: &[usize]) -> Result<Vec<f32>> {
        let (runtime, none) = (self.trials.runtime_of(program), ParamValues::new());
        let rankings = self.trials.rankings(program, &none, &self.train, tried)?;
        Ok(reciprocal_ranks(runtime, &rankings, &self.train, tried))
    }

    /// Measures a draft against the best available program, first on the gate, and commits the
    /// attempt. Returns the category with the draft, or `None` if the draft is not better. `before`
    /// is the mean reciprocal rank of the best available program on the category's queries.
    fn evaluate_draft(
        &mut self,
        actor: &mut Actor,
        request: &DraftRequest,
        (best, before): (&CategoryProgram, f64),
        written: DraftResult,
    ) -> Result<Option<CategoryProgram>> {
        let queries = request.queries.as_slice();
        let mut attempt = Attempt::new(&request.name, INITIAL, before);
        let draft = match written {
            Ok(program) => {
                attempt.program = Some(program.id().to_owned());
                let gate = gate(queries, &self.train.queries, self.options.seed);
                let origin = Origin::new(LLM, "written for the category", None);
                let (mut draft, mut measured) = (None, Measurement::default());
                for subset in [gate.as_slice(), queries] {
                    let none = ParamValues::new();
                    let ranks = self.trial(&program, &none, subset, &origin)?;
                    let (before, after) = (mean(&best.train_on(subset)), mean(&ranks));
                    (attempt.n, attempt.before) = (Some(subset.len()), before);
                    attempt.after = Some(after);
                    let whole = subset.len() == queries.len();
                    // `accepted` stays false here; `Attempts::mark_current` marks accepted programs
                    // later.
                    measured = Measurement {
                        queries: subset.to_vec(),
                        ranks,
                        mrr: after,
                        before,
                        ..Measurement::default()
                    };
                    if after < before || whole && after == before {
                        break;
                    }
                    if whole {
                        let part = asks(&program).then(|| queries.to_vec());
                        let (program, none) = (program.clone(), none);
                        draft = Some(self.category_program(None, program, none, part, &origin)?);
                        break;
                    }
                }
                attempt.accepted = draft.is_some();
                actor.remember(&request.name, &program, "the first program", &measured);
                if draft.is_none() && asks(&program) {
                    self.allowance.give_back(self.validation.queries.len());
                }
                draft
            }
            Err(why) => {
                self.report(format!("no program for {}: {why}", request.name));
                attempt.failure = Some(why);
                None
            }
        };
        let (name, key) = (request.name.as_str(), format!("initial {} 0", request.name));
        self.commit_asked(actor, Some(name), ("attempt", &key), &attempt)?;
        Ok(draft)
    }
}

/// Returns the text that takes the place of advice in a request for a revision: the program's score
/// on the `n` queries on which it was tried.
fn tried_out(score: f64, n: usize) -> String {
    format!(
        "This is your first program, tried out: its mean reciprocal rank on {n} of the category's \
         queries is {score:.3}. What its calls gave on the worst of them is shown. Mend what you \
         see, or reply with the program as it is."
    )
}
