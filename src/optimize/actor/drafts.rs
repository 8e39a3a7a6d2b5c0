//! First programs of categories, written by a model, some asked for at a time.
//!
//! ```text
//! initial -> extracted, compiled, run on a few queries -> mended with the error, at most twice
//!    -> tried out: its score and three traces go back, and one revision is taken
//!    -> measured on the gate and the category's queries against the best program at hand
//! ```
//!
//! A first program is what its category begins with where it is better on training queries that the
//! model was not shown, too; where it is better on those that were shown alone, that is still to be
//! proven on validation.

use serde_json::{Value, json};

use crate::{
    Ablation, Event, OptimizeError, Run,
    accept::MIN_GAIN,
    actor::{
        Actor, Attempt, LLM, Notes,
        author::{ACTOR_ROLE, SHOWN_TO_IMPROVE, TRIED, failure, headed},
        categories::Found,
        execution_trace,
        first::EXAMPLES,
        shown,
    },
    asks::{asking, asks},
    category_programs::CategoryProgram,
    gate::gate,
    improve::Measured,
    plan::{self, Plan},
    trial::{Origin, mean, reciprocal_ranks, told},
};
use agent_infer::{ParamValues, bundle::SEARCH};
use agent_llm::{Reply, replies::extract_program};
use agent_sandbox::program::Program;

/// Times a program is mended.
pub(super) const MENDS: u32 = 2;
/// Failures that a model is told.
const TOLD_FAILURES: usize = 3;
/// Traces that a try-out gives back.
const TRIED_OUT_TRACES: usize = 3;

/// What a program is asked for.
pub(super) struct Sheet {
    /// Name of the category.
    pub(super) name: String,
    /// Training queries that it is tried on, the first few of them.
    pub(super) tried: Vec<usize>,
    /// Program runs that it needs if its functions ask a model.
    pub(super) runs: usize,
    /// The training queries of the category.
    pub(super) queries: Vec<usize>,
    /// The best program at hand, for what the prompt says of it.
    pub(super) best: CategoryProgram,
}

/// What became of a request: a program that runs, or why there is none.
pub(super) type Written = Result<Program, String>;

/// What a reply holds.
enum Read {
    Program(Program),
    /// It holds none that runs.
    Fails {
        source: String,
        failures: Vec<Value>,
    },
    /// There is no reply.
    Nothing(String),
}

impl Run<'_> {
    /// Adds a program for every category the model finds: with its program, or with the best one at
    /// hand where that answers the category's queries better, or so well that none is asked for.
    /// Gives, by position, the programs that
    /// are better only as far as queries tell that the model was shown.
    pub(crate) fn write_programs(
        &mut self,
        actor: &mut Actor,
        category_programs: &mut Vec<CategoryProgram>,
    ) -> Result<Vec<(usize, CategoryProgram)>, OptimizeError> {
        (self.watch)(Event::Progress { phase: "finding categories", done: 0, total: 1 });
        let found = self.find_categories(actor)?;
        self.commit_categories(actor, &found)?;
        let fallback = self.fallback(category_programs)?;
        for Found { name, description, .. } in &found {
            let description = description.clone();
            actor.notes.insert(name.clone(), Notes { description, ..Notes::default() });
        }
        let best_on = |queries: &[usize]| {
            fallback
                .iter()
                .map(|category_program| {
                    (mean(&category_program.train_on(queries)), category_program)
                })
                .reduce(|best, next| if next.0 > best.0 { next } else { best })
        };
        // Where the best at hand lacks less than another must gain, nothing is asked.
        let sheet = |one: &Found| {
            let queries = &one.queries.train;
            let best = best_on(queries)?.1;
            self.may_gain(best, queries).then(|| self.sheet(&one.name, queries, best, 0))
        };
        let asked: Vec<Option<Sheet>> = found.iter().map(sheet).collect();
        let is_asked: Vec<bool> = asked.iter().map(Option::is_some).collect();
        let sheets: Vec<Sheet> = asked.into_iter().flatten().collect();
        let written = self.drafts(actor, &sheets, 0);
        let written = actor.unless_stopped(written)?.unwrap_or_default();
        let mut drafts = sheets.iter().zip(written);
        let (total, mut challengers) = (found.len(), Vec::new());
        for (done, (Found { name, queries, .. }, is_asked)) in
            found.into_iter().zip(is_asked).enumerate()
        {
            (self.watch)(Event::Progress { phase: "writing programs", done, total });
            let Some((before, best)) = best_on(&queries.train) else { continue };
            let mut unseen = queries.train.clone();
            let draft = match is_asked.then(|| drafts.next()).flatten() {
                Some((sheet, written)) => {
                    unseen.retain(|at| !sheet.tried.contains(at));
                    let judged = self.judged(actor, sheet, &queries.train, best, before, written);
                    actor.unless_stopped(judged)?.flatten()
                }
                None => None,
            };
            let sum =
                |category_program: &CategoryProgram, of: &[usize]| category_program.sum_on(of);
            let is_sure =
                |draft: &CategoryProgram| sum(draft, &unseen) >= sum(best, &unseen) + MIN_GAIN;
            let (mut category_program, mut challenger) = match draft {
                Some(draft) if is_sure(&draft) => (draft, None),
                draft => (self.taken_over(best, &actor.category_header(&name))?, draft),
            };
            let n = queries.train.len();
            category_program.queries = Some(queries.clone());
            for category_program in
                [Some(&mut category_program), challenger.as_mut()].into_iter().flatten()
            {
                if category_program.proposed_by == LLM
                    && !self.options.without.contains(&Ablation::Tuning)
                {
                    self.tune(category_program, &queries.train)?;
                }
            }
            let mrr = mean(&category_program.train_on(&queries.train));
            (self.watch)(Event::Category { name: &name, n, mrr, bound: None });
            challengers.extend(challenger.map(|challenger| (category_programs.len(), challenger)));
            category_programs.push(category_program);
        }
        Ok(challengers)
    }

    /// Programs that a category has when the model writes none that is better: those of the search
    /// actor, or search by words.
    fn fallback(
        &mut self,
        category_programs: &[CategoryProgram],
    ) -> Result<Vec<CategoryProgram>, OptimizeError> {
        // A module has no header that could name another category.
        let readable = category_programs
            .iter()
            .filter(|category_program| !category_program.program.is_module());
        let readable: Vec<CategoryProgram> = readable.cloned().collect();
        if !readable.is_empty() {
            return Ok(readable);
        }
        let plan = Plan { target: None, branches: Vec::new() };
        let program = plan::render(&self.base, &plan);
        let change = "search by words".to_owned();
        let origin = Origin { proposed_by: SEARCH.to_owned(), change, parent: None };
        Ok(vec![self.category_program(Some(plan), program, ParamValues::new(), None, &origin)?])
    }

    /// A category's program under another category's header.
    fn taken_over(
        &mut self,
        category_program: &CategoryProgram,
        header: &str,
    ) -> Result<CategoryProgram, OptimizeError> {
        let program = Program::new(&headed(category_program.program.source(), header));
        let origin = Origin {
            proposed_by: category_program.proposed_by.clone(),
            change: "taken over for the category".to_owned(),
            parent: Some(category_program.program.id().to_owned()),
        };
        self.category_program(
            category_program.plan.clone(),
            program,
            category_program.params.clone(),
            None,
            &origin,
        )
    }

    /// What the first program of a category is asked for: its examples are drawn anew for each
    /// sample.
    pub(super) fn sheet(
        &self,
        name: &str,
        queries: &[usize],
        best: &CategoryProgram,
        sample: u32,
    ) -> Sheet {
        self.sheet_of(name, self.examples(queries, EXAMPLES, sample), queries, best)
    }

    /// What a program of a category is asked for that is tried on these queries first.
    pub(super) fn sheet_of(
        &self,
        name: &str,
        tried: Vec<usize>,
        queries: &[usize],
        best: &CategoryProgram,
    ) -> Sheet {
        let (runs, queries) = (self.runs_of(queries), queries.to_vec());
        Sheet { name: name.to_owned(), tried, runs, queries, best: best.clone() }
    }

    /// Program runs that a program of a category may need: to be tried, measured and frozen.
    pub(super) fn runs_of(&self, queries: &[usize]) -> usize {
        TRIED + queries.len() + self.validation.queries.len()
    }

    /// First programs, each mended until it runs, and revised once after it was tried out.
    pub(super) fn drafts(
        &mut self,
        actor: &mut Actor,
        sheets: &[Sheet],
        sample: u32,
    ) -> Result<Vec<Written>, OptimizeError> {
        if actor.stop().is_some() {
            let why = "no model is asked any more".to_owned();
            return Ok(sheets.iter().map(|_| Err(why.clone())).collect());
        }
        (self.watch)(Event::Progress { phase: "writing programs", done: 0, total: sheets.len() });
        self.mine_for_prompts(actor)?;
        let inputs =
            sheets.iter().map(|sheet| (sheet.name.as_str(), self.first_inputs(actor, sheet)));
        let inputs: Vec<(&str, Value)> = inputs.collect();
        let replies = actor.ask_each(ACTOR_ROLE.role(), "actor/initial", inputs, sample)?;
        let mut written = self.mended(actor, sheets, replies, sample)?;
        self.try_out(actor, sheets, &mut written, sample)?;
        Ok(written)
    }

    /// The programs of replies, each asked for again with what went wrong until it runs, [`MENDS`]
    /// times at most.
    pub(super) fn mended(
        &mut self,
        actor: &mut Actor,
        sheets: &[Sheet],
        replies: Vec<Result<Reply, String>>,
        sample: u32,
    ) -> Result<Vec<Written>, OptimizeError> {
        let nothing = "nothing was asked".to_owned();
        let mut written: Vec<Written> = vec![Err(nothing); sheets.len()];
        let mut open: Vec<(usize, Result<Reply, String>)> =
            replies.into_iter().enumerate().collect();
        for round in 0..=MENDS {
            let (mut again, mut inputs) = (Vec::new(), Vec::new());
            for (at, reply) in open {
                let sheet = &sheets[at];
                match self.read(actor, sheet, reply)? {
                    Read::Program(program) => {
                        actor.used(Ok(()));
                        written[at] = Ok(program);
                    }
                    Read::Nothing(why) => {
                        actor.used(Err(&why));
                        written[at] = Err(why);
                    }
                    Read::Fails { failures, .. } if round == MENDS => {
                        let why = failures[0]["message"].as_str().unwrap_or_default();
                        actor.used(Err(why));
                        written[at] = Err(format!("it does not run after {MENDS} repairs: {why}"));
                    }
                    Read::Fails { source, failures } => {
                        let mut one = self.briefed(actor, &sheet.name);
                        one["toolkit"] = actor.briefing.toolkit_outline.as_str().into();
                        one["current"] = json!({ "source": source, "score": Value::Null });
                        one["failures"] = failures.into();
                        again.push(at);
                        inputs.push((sheet.name.as_str(), one));
                    }
                }
            }
            self.trials.check_stop()?;
            let replies = actor.ask_each(ACTOR_ROLE.role(), "actor/mend", inputs, sample)?;
            open = again.into_iter().zip(replies).collect();
        }
        Ok(written)
    }

    /// What a reply holds: a program of the sheet's category that runs, or what is wrong.
    fn read(
        &mut self,
        actor: &Actor,
        sheet: &Sheet,
        reply: Result<Reply, String>,
    ) -> Result<Read, OptimizeError> {
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => return Ok(Read::Nothing(why)),
        };
        let source = match extract_program(&reply.text, reply.finish) {
            Ok(source) => source,
            Err(why) => {
                let failures = vec![failure("", &why.to_string())];
                return Ok(Read::Fails { source: reply.text, failures });
            }
        };
        let program = Program::new(&headed(&source, &actor.category_header(&sheet.name)));
        let failures = self.failures(&program, sheet)?;
        Ok(match failures.is_empty() {
            true => Read::Program(program),
            false => Read::Fails { source: program.source().to_owned(), failures },
        })
    }

    /// Why a program cannot be measured: it does not compile, its parameters are not declared well,
    /// it says what it must not, it may ask no model any more, it fails on queries, or it finds
    /// nothing. Empty when it can.
    fn failures(&mut self, program: &Program, sheet: &Sheet) -> Result<Vec<Value>, OptimizeError> {
        let queries: Vec<usize> = sheet.tried.iter().copied().take(TRIED).collect();
        let runtime = self.trials.runtime_of(program);
        let compiled = match runtime.compile(program) {
            Ok(compiled) => compiled,
            Err(failed) => return Ok(vec![failure("", &told(&failed))]),
        };
        if let Err(failed) = runtime.declared_params(&compiled) {
            return Ok(vec![failure("", &format!("params(): {}", told(&failed)))]);
        }
        if let Some(leak) = self.forbidden.leak(program.source()) {
            return Ok(vec![failure("", &leak.to_string())]);
        }
        if let Some(name) = asking(program)
            && !self.allowance.claim(sheet.runs)
        {
            let why = format!(
                "{name} asks a language model, and the budget of this run for such functions is used \
                 up; write the program without it and others of that kind"
            );
            return Ok(vec![failure("", &why)]);
        }
        let rankings = self.trials.rankings(program, &ParamValues::new(), &self.train, &queries)?;
        let text = |at: usize| self.train.queries[queries[at]].text.as_str();
        let failed: Vec<Value> = rankings
            .iter()
            .enumerate()
            .filter_map(|(at, (_, failed))| Some(failure(text(at), failed.as_ref()?)))
            .take(TOLD_FAILURES)
            .collect();
        let empty = rankings.iter().position(|(ranking, _)| ranking.is_empty());
        let failures = match empty {
            _ if !failed.is_empty() => failed,
            Some(at) if rankings.iter().all(|(ranking, _)| ranking.is_empty()) => {
                vec![failure(
                    text(at),
                    "the program returned no node for any query it was tried on",
                )]
            }
            _ => Vec::new(),
        };
        if asks(program) && !failures.is_empty() {
            self.allowance.give_back(sheet.runs - queries.len());
        }
        Ok(failures)
    }

    /// Gives every program that runs and is not right on all queries it was tried on back to the
    /// model with its score and traces, and takes what it then writes, if that runs and is no worse
    /// on the same queries.
    fn try_out(
        &mut self,
        actor: &mut Actor,
        sheets: &[Sheet],
        written: &mut [Written],
        sample: u32,
    ) -> Result<(), OptimizeError> {
        let (mut places, mut scores, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
        for (at, sheet) in sheets.iter().enumerate() {
            let Ok(program) = &written[at] else { continue };
            let program = program.clone();
            let tried: Vec<usize> = sheet.tried.iter().copied().take(TRIED).collect();
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
            let traces: Result<Vec<String>, OptimizeError> = worst
                .into_iter()
                .take(TRIED_OUT_TRACES)
                .map(|place| {
                    let query = &self.train.queries[tried[place]];
                    execution_trace::of(runtime, &compiled, &none, program.source(), query)
                })
                .collect();
            let mut one = self.briefed_in_short(actor, &sheet.name);
            let solved = sheet.tried.get(..SHOWN_TO_IMPROVE).unwrap_or(&sheet.tried);
            one["queries"] = self.solved(solved);
            one["current"] = self.standing_of(&program, &tried, &ranks);
            let header = actor.category_header(&sheet.name);
            one["current"]["source"] = shown::without_header(program.source(), &header).into();
            one["current"]["tuned"] = "".into();
            one["advice"] = tried_out(score, tried.len()).into();
            one["previous"] = json!([]);
            one["elsewhere"] = actor.advice_elsewhere(&sheet.name);
            one["traces"] = traces?.into();
            places.push(at);
            scores.push(score);
            inputs.push((sheet.name.as_str(), one));
        }
        let replies = actor.ask_each(ACTOR_ROLE.role(), "actor/improve", inputs, sample)?;
        for ((at, before), reply) in places.into_iter().zip(scores).zip(replies) {
            let sheet = &sheets[at];
            let Read::Program(revised) = self.read(actor, sheet, reply)? else { continue };
            let tried: Vec<usize> = sheet.tried.iter().copied().take(TRIED).collect();
            let after = mean(&self.tried_ranks(&revised, &tried)?);
            let dropped = match after >= before {
                true => std::mem::replace(&mut written[at], Ok(revised)).ok(),
                false => Some(revised),
            };
            if dropped.is_some_and(|program| asks(&program)) {
                self.allowance.give_back(sheet.runs - tried.len());
            }
        }
        Ok(())
    }

    /// Reciprocal ranks of a program on training queries that it was tried on.
    fn tried_ranks(&self, program: &Program, tried: &[usize]) -> Result<Vec<f32>, OptimizeError> {
        let (runtime, none) = (self.trials.runtime_of(program), ParamValues::new());
        let rankings = self.trials.rankings(program, &none, &self.train, tried)?;
        Ok(reciprocal_ranks(runtime, &rankings, &self.train, tried))
    }

    /// Measures a first program against the best one at hand, on the gate first; none where it is
    /// not better. Committed as a step.
    fn judged(
        &mut self,
        actor: &mut Actor,
        sheet: &Sheet,
        queries: &[usize],
        best: &CategoryProgram,
        before: f64,
        written: Written,
    ) -> Result<Option<CategoryProgram>, OptimizeError> {
        let mut attempt = Attempt::new(&sheet.name, "initial", before);
        let draft = match written {
            Ok(program) => {
                attempt.program = Some(program.id().to_owned());
                let gate = gate(queries, &self.train.queries, self.options.seed);
                let change = "written for the category".to_owned();
                let origin = Origin { proposed_by: LLM.to_owned(), change, parent: None };
                let (mut draft, mut measured) = (None, Measured::default());
                for of in [gate.as_slice(), queries] {
                    let none = ParamValues::new();
                    let ranks = self.trial(&program, &none, false, of, &origin)?;
                    (attempt.n, attempt.after) = (Some(of.len()), Some(mean(&ranks)));
                    attempt.before = mean(&best.train_on(of));
                    let whole = of.len() == queries.len();
                    let after = mean(&ranks);
                    // Whether it is taken is still open.
                    measured = Measured {
                        queries: of.to_vec(),
                        ranks,
                        mrr: after,
                        before: attempt.before,
                        ..Measured::default()
                    };
                    if after < attempt.before || whole && after == attempt.before {
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
                actor.remember(&sheet.name, &program, "the first program", &measured);
                if draft.is_none() && asks(&program) {
                    self.allowance.give_back(self.validation.queries.len());
                }
                draft
            }
            Err(why) => {
                self.tell(format!("no program for {}: {why}", sheet.name));
                attempt.failure = Some(why);
                None
            }
        };
        self.commit_attempt(actor, &format!("initial {} 0", sheet.name), attempt)?;
        Ok(draft)
    }
}

/// What a try-out says, in the place of advice.
fn tried_out(score: f64, n: usize) -> String {
    format!(
        "This is your first program, tried out: its mean reciprocal rank on {n} of the category's \
         queries is {score:.3}. What its calls gave on the worst of them is shown. Mend what you \
         see, or reply with the program as it is."
    )
}
