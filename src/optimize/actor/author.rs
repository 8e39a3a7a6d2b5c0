//! Programs written by a model: a first one for each category, then better ones, each tried on
//! training queries before validation decides.
//!
//! A program is believed to be one when it compiles, declares its numbers and answers queries
//! without failing. Until then the model is told what went wrong, twice at most. After
//! [`PATIENCE`] steps of a category without progress the next program is begun anew, from other
//! example queries and without memory; the best one stays.

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::{
    infer::ParamValues,
    llm::{RoleSpec, replies::program_of},
    optimize::{
        Event, OptimizeError, Run,
        actor::{
            Actor, Attempt, Categories, CategoryFound, LLM, Memory, Notes,
            advice::{Gained, elsewhere},
            categories::Found,
            changes::changes,
            evidence,
        },
        archive::Archive,
        bandit::Cost,
        improve::{Child, Measured, Place},
        members::{Member, Queries},
        plan::{self, Plan},
        search::SEARCH,
        trial::{Origin, mean, told},
        wording::{self, Wording},
    },
    program::Program,
    tools::source::comment,
};

/// Writes and improves programs. Its temperature is left to the service: its programs are to differ,
/// where all others are to repeat themselves.
pub const ACTOR_ROLE: RoleSpec = RoleSpec {
    name: "actor",
    summary: "writes and improves programs",
    temperature: None,
    max_tokens: 8_192,
};

/// Contrasts well and badly answered queries.
pub(in crate::optimize) const COMPARATOR_ROLE: RoleSpec = RoleSpec {
    name: "comparator",
    summary: "contrasts well and badly answered training queries",
    temperature: Some(0.0),
    max_tokens: 4_096,
};

/// Times a program is mended.
const MENDS: u32 = 2;
/// Training queries that a program is tried on before it is measured.
const TRIED: usize = 12;
/// Badly answered queries that are shown with their calls.
const SHOWN_BAD: usize = 4;
/// Well answered queries that are named, the first of them with its calls.
const SHOWN_GOOD: usize = 6;
/// Badly answered queries whose calls the author of the next program is shown.
const SHOWN_TO_AUTHOR: usize = 2;
/// Earlier programs that are remembered for a category, best first.
const REMEMBERED: usize = 3;
/// Steps of a category without progress before it is begun anew.
const PATIENCE: usize = 3;
/// Solved queries in a prompt for a better program.
const SHOWN_TO_IMPROVE: usize = 8;
/// Failures that a model is told.
const TOLD_FAILURES: usize = 3;
/// Evidence of queries that a program answers well, and of those that it answers badly.
struct Contrast {
    /// The calls on a well answered query, if there is one.
    good: Option<String>,
    /// Further ones, a line each.
    also_good: Vec<String>,
    /// The calls on badly answered ones.
    bad: Vec<String>,
}

/// What became of a reply: a program that runs, or why there is none.
type Written = Result<Program, String>;

impl Run<'_> {
    /// Adds a member for every category the model finds: with its program, or with the best one
    /// at hand where that answers the category's queries better.
    pub(in crate::optimize) fn write_programs(
        &mut self,
        actor: &mut Actor,
        members: &mut Vec<Member>,
    ) -> Result<(), OptimizeError> {
        (self.watch)(Event::Progress { phase: "finding categories", done: 0, total: 1 });
        let found = self.find_categories(actor)?;
        self.commit_categories(actor, &found)?;
        let fallback = self.fallback(members)?;
        let total = found.len();
        for (done, Found { name, description, queries }) in found.into_iter().enumerate() {
            (self.watch)(Event::Progress { phase: "writing programs", done, total });
            actor.notes.insert(name.clone(), Notes { description, ..Notes::default() });
            let best = fallback
                .iter()
                .map(|member| (mean(&member.train_on(&queries.train)), member))
                .reduce(|best, next| if next.0 > best.0 { next } else { best });
            let Some((before, best)) = best else { continue };
            let written = self.begin_category(actor, &name, &queries, best, 0);
            let written = actor.unless_stopped(written)?.flatten();
            let mut member = match written {
                Some(member) if mean(&member.train_on(&queries.train)) > before => member,
                _ => self.taken_over(best, &actor.category_header(&name))?,
            };
            let mrr = mean(&member.train_on(&queries.train));
            let n = queries.train.len();
            (self.watch)(Event::Category { name: &name, n, mrr, bound: None });
            member.queries = Some(queries);
            members.push(member);
        }
        Ok(())
    }

    /// Programs that a category has when the model writes none that is better: those of the search
    /// actor, or search by words.
    fn fallback(&mut self, members: &[Member]) -> Result<Vec<Member>, OptimizeError> {
        // A module has no header that could name another category.
        let readable = members.iter().filter(|member| !member.program.is_module());
        let readable: Vec<Member> = readable.cloned().collect();
        if !readable.is_empty() {
            return Ok(readable);
        }
        let plan = Plan { target: None, branches: Vec::new() };
        let program = plan::render(&self.base, &plan);
        let change = "search by words".to_owned();
        let origin = Origin { proposed_by: SEARCH.to_owned(), change, parent: None };
        Ok(vec![self.member(Some(plan), program, ParamValues::new(), &origin)?])
    }

    /// A member's program under another category's header.
    fn taken_over(&mut self, member: &Member, header: &str) -> Result<Member, OptimizeError> {
        let program = Program::new(&headed(member.program.source(), header));
        let origin = Origin {
            proposed_by: member.proposed_by.clone(),
            change: "taken over for the category".to_owned(),
            parent: Some(member.program.id().to_owned()),
        };
        self.member(member.plan.clone(), program, member.params.clone(), &origin)
    }

    /// A first program for a category, measured; none when nothing usable came. Committed as a
    /// step.
    fn begin_category(
        &mut self,
        actor: &mut Actor,
        name: &str,
        queries: &Queries,
        best: &Member,
        sample: u32,
    ) -> Result<Option<Member>, OptimizeError> {
        if actor.stop().is_some() {
            return Ok(None);
        }
        let before = mean(&best.train_on(&queries.train));
        let (inputs, examples) = self.first_inputs(actor, name, &queries.train, best, sample)?;
        let written = self.written(actor, name, "actor/initial", inputs, &examples, sample)?;
        let mut attempt = Attempt {
            category: name.to_owned(),
            what: "initial".to_owned(),
            advice: None,
            program: None,
            failure: None,
            before,
            after: None,
            accepted: false,
        };
        let member = match written {
            Ok(program) => {
                let change = "written for the category".to_owned();
                let origin = Origin { proposed_by: LLM.to_owned(), change, parent: None };
                attempt.program = Some(program.id().to_owned());
                let member = self.member(None, program, ParamValues::new(), &origin)?;
                let after = mean(&member.train_on(&queries.train));
                attempt.after = Some(after);
                attempt.accepted = after > before;
                actor.remember(name, &member.program, after, queries.train.len(), "");
                Some(member)
            }
            Err(why) => {
                self.tell(format!("no program for {name}: {why}"));
                attempt.failure = Some(why);
                None
            }
        };
        self.commit_attempt(actor, &format!("initial {name} {sample}"), attempt)?;
        Ok(member)
    }

    /// One step: contrast, advice, a better program than the parent, and its tests; none when the
    /// parent answers all queries well.
    pub(in crate::optimize) fn rewrite(
        &mut self,
        actor: &mut Actor,
        step: usize,
        parent: &Member,
        place: &mut Place<'_>,
        archive: &mut Archive,
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<Measured>, OptimizeError> {
        let name = place.member.name().to_owned();
        let began = actor.tokens;
        let sample = step as u32 + 1;
        let notes = actor.notes.entry(name.clone()).or_default();
        let measured = if notes.gap > PATIENCE {
            notes.gap = 0;
            notes.restarts += 1;
            notes.memory.clear();
            self.tell(format!("{name} is begun anew: {PATIENCE} steps brought nothing"));
            self.restart(actor, &name, place, archive, sample)?
        } else {
            let Some(contrast) = self.contrast(parent, place.queries, rng)? else {
                return Ok(None);
            };
            self.follow(actor, step, parent, &contrast, place, archive)?
        };
        let tokens = actor.tokens - began;
        let cost = Cost { tokens, ..measured.cost };
        Ok(Some(Measured { cost, ..measured }))
    }

    /// A program for a category that is written without memory, and its tests.
    fn restart(
        &mut self,
        actor: &mut Actor,
        name: &str,
        place: &mut Place<'_>,
        archive: &mut Archive,
        sample: u32,
    ) -> Result<Measured, OptimizeError> {
        let own = Queries { train: place.queries.to_vec(), validation: Vec::new() };
        let best = place.member.clone();
        let Some(changed) = self.begin_category(actor, name, &own, &best, sample)? else {
            return Ok(Measured::default());
        };
        let change = "begun anew".to_owned();
        let parent = Some(place.member.program.id().to_owned());
        let origin = Origin { proposed_by: LLM.to_owned(), change, parent };
        let Member { program, params, .. } = changed;
        self.measure(Child { plan: None, program, params, origin }, place, archive)
    }

    /// Advice from a contrast, a program that follows it, and its tests.
    fn follow(
        &mut self,
        actor: &mut Actor,
        step: usize,
        parent: &Member,
        contrast: &Contrast,
        place: &mut Place<'_>,
        archive: &mut Archive,
    ) -> Result<Measured, OptimizeError> {
        let name = place.member.name().to_owned();
        let before = mean(&parent.train_on(place.queries));
        let sample = step as u32 + 1;
        let advice = self.advice(actor, &name, parent, place.queries, contrast, sample)?;
        let mut attempt = Attempt {
            category: name.clone(),
            what: "improve".to_owned(),
            advice: advice.as_ref().ok().cloned(),
            program: None,
            failure: advice.as_ref().err().cloned(),
            before,
            after: None,
            accepted: false,
        };
        let mut measured = Measured::default();
        if let Ok(advice) = &advice {
            let program =
                self.improved(actor, &name, parent, place.queries, advice, contrast, sample)?;
            match program {
                Ok(program) => {
                    attempt.program = Some(program.id().to_owned());
                    let change = "rewritten after advice".to_owned();
                    let of = Some(parent.program.id().to_owned());
                    let origin = Origin { proposed_by: LLM.to_owned(), change, parent: of };
                    let (source, params) = (program.clone(), ParamValues::new());
                    let child = Child { plan: None, program, params, origin };
                    measured = self.measure(child, place, archive)?;
                    let n = place.queries.len();
                    actor.remember(&name, &source, measured.mrr, n, advice);
                    attempt.after = Some(measured.mrr);
                    attempt.accepted = measured.accepted;
                    if measured.accepted {
                        let (category, advice) = (name.clone(), advice.clone());
                        actor.gained.push(Gained {
                            category,
                            advice,
                            before,
                            after: measured.mrr,
                        });
                    }
                }
                Err(why) => {
                    self.tell(format!("no better program for {name}: {why}"));
                    attempt.failure = Some(why);
                }
            }
        }
        let notes = actor.notes.entry(name).or_default();
        notes.gap = if attempt.accepted { 0 } else { notes.gap + 1 };
        self.commit_attempt(actor, &format!("step {step}"), attempt)?;
        Ok(measured)
    }

    /// Evidence of queries that a program answers well and badly; none when it answers all well.
    fn contrast(
        &mut self,
        member: &Member,
        queries: &[usize],
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<Contrast>, OptimizeError> {
        // Who is second is not answered well.
        let (good, bad): (Vec<usize>, Vec<usize>) =
            queries.iter().partition(|&&query| member.train[query] >= 1.0);
        if bad.is_empty() {
            return Ok(None);
        }
        let wording = |at: usize| Wording::of(&self.train.queries[at].text);
        let good = wording::sample(&good, SHOWN_GOOD, wording, rng);
        let bad = wording::sample(&bad, SHOWN_BAD, wording, rng);
        let compiled = self.trials.compile(&member.program)?;
        let (runtime, source) = (&self.trials.runtime, member.program.source());
        let shown = |at: &usize| {
            let query = &self.train.queries[*at];
            evidence::of(runtime, &compiled, &member.params, source, query)
        };
        let line = |at: &usize| evidence::line(&self.base.kb, &self.train.queries[*at]);
        Ok(Some(Contrast {
            good: good.first().map(shown).transpose()?,
            also_good: good.iter().skip(1).map(line).collect(),
            bad: bad.iter().map(shown).collect::<Result<_, _>>()?,
        }))
    }

    /// The comparator's advice.
    fn advice(
        &mut self,
        actor: &mut Actor,
        name: &str,
        member: &Member,
        queries: &[usize],
        contrast: &Contrast,
        sample: u32,
    ) -> Result<Result<String, String>, OptimizeError> {
        let inputs = json!({
            "category": actor.category(name),
            "current": self.standing(member, queries),
            "good": contrast.good,
            "also_good": contrast.also_good,
            "bad": contrast.bad,
        });
        let reply = actor.ask(COMPARATOR_ROLE.role(), "comparator/contrast", inputs, sample)?;
        actor.used(reply.as_ref().map(|_| ()).map_err(String::as_str));
        Ok(reply.map(|reply| reply.text.trim().to_owned()))
    }

    /// A program that follows the advice.
    #[expect(clippy::too_many_arguments, reason = "all of a step's state")]
    fn improved(
        &mut self,
        actor: &mut Actor,
        name: &str,
        member: &Member,
        queries: &[usize],
        advice: &str,
        contrast: &Contrast,
        sample: u32,
    ) -> Result<Written, OptimizeError> {
        let mut inputs = self.briefed(actor, name);
        inputs["queries"] = self.solved(&self.examples(queries, SHOWN_TO_IMPROVE, sample));
        inputs["current"] = self.standing(member, queries);
        inputs["advice"] = advice.into();
        inputs["elsewhere"] = actor.advice_elsewhere(name);
        inputs["traces"] = contrast.bad.iter().take(SHOWN_TO_AUTHOR).cloned().collect();
        inputs["previous"] = actor
            .notes
            .get(name)
            .into_iter()
            .flat_map(|notes| &notes.memory)
            .filter(|memory| memory.source != member.program.source())
            .map(|memory| {
                json!({
                    "changes": changes(&memory.source, member.program.source()),
                    "score": memory.score,
                    "n": memory.n,
                    "advice": memory.advice,
                })
            })
            .collect();
        let mut tried = queries.to_vec();
        tried.sort_by(|&a, &b| member.train[a].total_cmp(&member.train[b]).then(a.cmp(&b)));
        let written = self.written(actor, name, "actor/improve", inputs, &tried, sample)?;
        let tried = actor.notes.get(name).is_some_and(|notes| match &written {
            Ok(program) => notes.tried.contains(program.id()),
            Err(_) => false,
        });
        Ok(written.and_then(|program| match tried || program.id() == member.program.id() {
            true => Err("the model gave a program that was tried before".to_owned()),
            false => Ok(program),
        }))
    }

    /// Asks for a program until one runs, with what went wrong, [`MENDS`] times at most.
    fn written(
        &mut self,
        actor: &mut Actor,
        name: &str,
        prompt: &str,
        inputs: Value,
        queries: &[usize],
        sample: u32,
    ) -> Result<Written, OptimizeError> {
        let tried: Vec<usize> = queries.iter().copied().take(TRIED).collect();
        let mut reply = actor.ask(ACTOR_ROLE.role(), prompt, inputs, sample)?;
        let mut mended = 0;
        loop {
            let (source, failures) = match &reply {
                Err(why) => {
                    actor.used(Err(why));
                    return Ok(Err(why.clone()));
                }
                Ok(reply) => match program_of(&reply.text, reply.finish) {
                    Ok(source) => {
                        let program = Program::new(&headed(&source, &actor.category_header(name)));
                        match self.failures(&program, &tried)? {
                            failures if failures.is_empty() => {
                                actor.used(Ok(()));
                                return Ok(Ok(program));
                            }
                            failures => (program.source().to_owned(), failures),
                        }
                    }
                    Err(why) => (reply.text.clone(), vec![failure("", &why.to_string())]),
                },
            };
            let why = failures[0]["message"].as_str().unwrap_or_default().to_owned();
            if mended == MENDS {
                actor.used(Err(&why));
                return Ok(Err(format!("it does not run after {MENDS} repairs: {why}")));
            }
            mended += 1;
            self.trials.check_stop()?;
            let mut inputs = self.briefed(actor, name);
            inputs["current"] = json!({ "source": source, "score": Value::Null });
            inputs["failures"] = failures.into();
            reply = actor.ask(ACTOR_ROLE.role(), "actor/mend", inputs, sample)?;
        }
    }

    /// Why a program cannot be measured: it does not compile, its numbers are not declared well,
    /// it fails on queries, or it finds nothing. Empty when it can.
    fn failures(&self, program: &Program, queries: &[usize]) -> Result<Vec<Value>, OptimizeError> {
        let runtime = &self.trials.runtime;
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
        let rankings =
            self.trials.rankings(&compiled, &ParamValues::new(), &self.train, queries)?;
        let text = |at: usize| self.train.queries[queries[at]].text.as_str();
        let failed: Vec<Value> = rankings
            .iter()
            .enumerate()
            .filter_map(|(at, (_, failed))| Some(failure(text(at), failed.as_ref()?)))
            .take(TOLD_FAILURES)
            .collect();
        let empty = rankings.iter().position(|(ranking, _)| ranking.is_empty());
        Ok(match empty {
            _ if !failed.is_empty() => failed,
            Some(at) if rankings.iter().all(|(ranking, _)| ranking.is_empty()) => {
                vec![failure(
                    text(at),
                    "the program returned no node for any query it was tried on",
                )]
            }
            _ => Vec::new(),
        })
    }

    /// What every prompt for a program tells.
    pub(super) fn briefed(&self, actor: &Actor, category: &str) -> Value {
        json!({
            "schema": actor.briefing.schema,
            "toolkit": actor.briefing.toolkit,
            "language": actor.briefing.language,
            "limits": actor.briefing.limits,
            "category": actor.category(category),
        })
    }

    /// Commits the categories, unless they are to be found again when the run goes on.
    fn commit_categories(
        &mut self,
        actor: &mut Actor,
        found: &[Found],
    ) -> Result<(), OptimizeError> {
        let replies = actor.take_replies();
        if actor.stop().is_some() {
            return Ok(());
        }
        let found = found.iter().map(|one| CategoryFound {
            name: one.name.clone(),
            description: one.description.clone(),
            train: one.queries.train.clone(),
            validation: one.queries.validation.clone(),
        });
        let categories = Categories { found: found.collect() };
        Ok(self.trials.journal.commit_with("categories", "found", &categories, &[], &replies)?)
    }

    /// Commits what a step did. A step that a ceiling or an outage ended is left open, so that it
    /// is done when the run goes on.
    fn commit_attempt(
        &mut self,
        actor: &mut Actor,
        key: &str,
        attempt: Attempt,
    ) -> Result<(), OptimizeError> {
        let replies = actor.take_replies();
        if actor.stop().is_some() {
            return Ok(());
        }
        Ok(self.trials.journal.commit_with("attempt", key, &attempt, &[], &replies)?)
    }
}

impl Actor {
    /// Advice that gained in other categories, for a prompt.
    pub(super) fn advice_elsewhere(&self, name: &str) -> Value {
        elsewhere(&self.gained, name)
    }

    fn category(&self, name: &str) -> Value {
        let description = self.notes.get(name).map_or("", |notes| &notes.description);
        json!({ "name": name, "description": description })
    }

    /// The first lines of a program of a category: its name, and which queries belong to it.
    pub(in crate::optimize) fn category_header(&self, name: &str) -> String {
        let description = self.notes.get(name).map_or("", |notes| &notes.description);
        match description {
            "" => format!("//! category: {}", comment(name)),
            text => format!("//! category: {}\n//! {}", comment(name), comment(text)),
        }
    }

    fn remember(&mut self, name: &str, program: &Program, score: f64, n: usize, advice: &str) {
        let notes = self.notes.entry(name.to_owned()).or_default();
        if !notes.tried.insert(program.id().to_owned()) {
            return;
        }
        let (source, advice) = (program.source().to_owned(), advice.to_owned());
        notes.memory.push(Memory { source, score, n, advice });
        notes.memory.sort_by(|a, b| b.score.total_cmp(&a.score));
        notes.memory.truncate(REMEMBERED);
    }
}

/// What went wrong, for a prompt.
fn failure(query: &str, message: &str) -> Value {
    json!({ "query": query, "message": message, "place": "" })
}

/// A source that begins with the header of its category, whatever the author wrote there.
pub(in crate::optimize) fn headed(source: &str, header: &str) -> String {
    let is_header = |line: &&str| {
        line.trim_start().starts_with("//! category:") || header.lines().any(|own| own == *line)
    };
    let rest: Vec<&str> = source.trim().lines().filter(|line| !is_header(line)).collect();
    format!("{header}\n{}\n", rest.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::headed;

    #[test]
    fn the_category_is_named_by_the_host() {
        let source = "//! Finds.\n//! category: mine\nfn retrieve(query, candidates, params) {}";
        let header = "//! category: ours\n//! All of them.";
        let expected =
            format!("{header}\n//! Finds.\nfn retrieve(query, candidates, params) {{}}\n");
        assert_eq!(headed(source, header), expected);
        assert_eq!(headed(&expected, header), expected);
    }
}
