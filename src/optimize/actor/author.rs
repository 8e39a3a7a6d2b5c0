//! Improvement by a model: good and bad queries of a category's program are contrasted, and the
//! program is written anew by the advice that comes of it.
//!
//! After [`PATIENCE`] steps of a category without progress the next program is begun anew, from
//! other example queries, and is shown no earlier one; the best one stays.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::{
    OptimizeError, Run,
    actor::{
        Actor, Attempt, Categories, CategoryFound, LLM,
        advice::{Gained, elsewhere},
        categories::Found,
        drafts::Written,
        earlier::{self, Attempts},
        execution_trace::{self, whole_lines},
        shown,
    },
    archive::Archive,
    asks::asks,
    category_programs::{CategoryProgram, GOOD},
    improve::{Child, Measured, Place},
    trial::{Origin, mean},
    wording::{self, Wording},
};
use agent_infer::ParamValues;
use agent_llm::RoleSpec;
use agent_sandbox::program::Program;
use agent_tools::source::comment;

/// Writes and improves programs. Its temperature is left to the service: its programs are to differ,
/// where all others are to repeat themselves.
pub const ACTOR_ROLE: RoleSpec = RoleSpec {
    name: "actor",
    summary: "writes and improves programs",
    temperature: None,
    max_tokens: 8_192,
};

/// Contrasts well and badly answered queries.
pub(crate) const COMPARATOR_ROLE: RoleSpec = RoleSpec {
    name: "comparator",
    summary: "contrasts well and badly answered training queries",
    temperature: Some(0.0),
    max_tokens: 4_096,
};

/// Training queries that a program is tried on before it is measured.
pub(super) const TRIED: usize = 12;
/// Solved queries in a prompt for a better program.
pub(super) const SHOWN_TO_IMPROVE: usize = 5;
/// Badly answered queries that are shown with their calls.
const SHOWN_BAD: usize = 4;
/// Of further ones so many lines.
const SHOWN_ALSO_BAD: usize = 5;
/// Well answered queries that are named, the first of them with its calls.
const SHOWN_GOOD: usize = 6;
/// Badly answered queries whose calls the author of the next program is shown.
const SHOWN_TO_AUTHOR: usize = 2;
/// Characters of advice that its follower is shown.
const ADVICE_CHARS: usize = 3_000;
/// Steps of a category without progress before it is begun anew.
const PATIENCE: usize = 3;

/// Execution traces of queries that a program answers well, and of those that it answers badly.
struct Contrast {
    /// The calls on a well answered query, if there is one.
    good: Option<String>,
    /// Further ones, a line each.
    also_good: Vec<String>,
    /// The calls on badly answered ones.
    bad: Vec<String>,
    /// Further ones whose answer is not first, a line each with its rank, the worst first.
    also_bad: Vec<String>,
}

/// Why there is no program where none was asked for.
const NOTHING: &str = "nothing was asked";

/// What a step does.
struct Doing<'a> {
    /// Key of the step in the journal.
    key: String,
    /// What is done to the program, in words.
    change: &'a str,
    /// The advice that is followed.
    advice: &'a str,
    /// What the author says of it.
    what: &'a str,
}

impl Run<'_> {
    /// One step: contrast, advice, a better program than the category's, and its tests. Of the badly
    /// answered queries those count that are `open`; nothing is asked where there is none.
    pub(crate) fn rewrite(
        &mut self,
        actor: &mut Actor,
        mut place: Place<'_>,
        open: &[usize],
        archive: &mut Archive,
        rng: &mut ChaCha8Rng,
    ) -> Result<(), OptimizeError> {
        let name = place.category_program.name().to_owned();
        let notes = actor.notes.entry(name.clone()).or_default();
        notes.attempts.saw(place.category_program);
        if notes.gap > PATIENCE {
            notes.gap = 0;
            notes.restarts += 1;
            self.tell(format!("{name} is begun anew: {PATIENCE} steps brought nothing"));
            return self.restart(actor, &name, &mut place, archive);
        }
        let Some(contrast) = self.contrast(place.category_program, place.queries, open, rng)?
        else {
            return Ok(());
        };
        self.follow(actor, &name, &contrast, &mut place, archive)
    }

    /// A program for a category that is written without a look at earlier ones, and its tests.
    fn restart(
        &mut self,
        actor: &mut Actor,
        name: &str,
        place: &mut Place<'_>,
        archive: &mut Archive,
    ) -> Result<(), OptimizeError> {
        let sample = place.step as u32 + 1;
        let sheet = self.sheet(name, place.queries, place.category_program, sample);
        let before = mean(&place.category_program.train_on(place.queries));
        let mut attempt = Attempt::new(name, "initial", before);
        let written = self.drafts(actor, std::slice::from_ref(&sheet), sample)?;
        let written = written.into_iter().next().unwrap_or_else(|| Err(NOTHING.to_owned()));
        let parent = (&*place.category_program, place.queries);
        let program = self.not_tried_before(actor, name, parent, written);
        let key = format!("initial {name} {sample}");
        let what = "a program begun anew";
        let doing = Doing { key, change: "begun anew", advice: "", what };
        self.test(actor, doing, &mut attempt, program, place, archive)
    }

    /// Advice from a contrast, a program that follows it, and its tests.
    fn follow(
        &mut self,
        actor: &mut Actor,
        name: &str,
        contrast: &Contrast,
        place: &mut Place<'_>,
        archive: &mut Archive,
    ) -> Result<(), OptimizeError> {
        let before = mean(&place.category_program.train_on(place.queries));
        let advice = self.advice(actor, name, place, contrast)?;
        let mut attempt = Attempt::new(name, "improve", before);
        attempt.advice = advice.as_ref().ok().cloned();
        let (what, program) = match &advice {
            Ok(advice) => self.improved(actor, name, place, advice, contrast)?,
            Err(why) => (String::new(), Err(why.clone())),
        };
        let advice = advice.unwrap_or_default();
        let key = format!("step {}", place.step);
        let change = "rewritten after advice";
        let doing = Doing { key, change, advice: &advice, what: &what };
        self.test(actor, doing, &mut attempt, program, place, archive)
    }

    /// Tests what was written in the place of a category's program; committed as a step.
    fn test(
        &mut self,
        actor: &mut Actor,
        doing: Doing<'_>,
        attempt: &mut Attempt,
        written: Written,
        place: &mut Place<'_>,
        archive: &mut Archive,
    ) -> Result<(), OptimizeError> {
        let name = attempt.category.clone();
        match written {
            Ok(program) => {
                attempt.program = Some(program.id().to_owned());
                let change = doing.change.to_owned();
                let parent = Some(place.category_program.program.id().to_owned());
                let origin = Origin { proposed_by: LLM.to_owned(), change, parent };
                let params = self.inherited(place.category_program, &program)?;
                let source = program.clone();
                let child = Child { plan: None, program, params, origin };
                let measured = self.measure(child, place, archive)?;
                actor.remember(&name, &source, doing.what, &measured);
                attempt.note(&measured);
                if measured.accepted && !doing.advice.is_empty() {
                    actor.gained.push(Gained {
                        category: name.clone(),
                        advice: doing.advice.to_owned(),
                        before: measured.before,
                        after: measured.mrr,
                    });
                }
                if asks(&source) && !measured.accepted {
                    let rest = place.queries.len().saturating_sub(measured.calls);
                    self.allowance.give_back(rest + self.validation.queries.len());
                }
            }
            Err(why) => {
                self.tell(format!("no better program for {name}: {why}"));
                if !doing.what.is_empty() {
                    actor.notes.entry(name.clone()).or_default().attempts.failed(doing.what, &why);
                }
                attempt.failure = Some(why);
            }
        }
        let notes = actor.notes.entry(name).or_default();
        notes.gap = if attempt.accepted { 0 } else { notes.gap + 1 };
        self.commit_attempt(actor, &doing.key, attempt.clone())
    }

    /// The tuned parameters of a program that another, written from it, declares alike: its author
    /// left them as they were.
    fn inherited(
        &self,
        parent: &CategoryProgram,
        child: &Program,
    ) -> Result<ParamValues, OptimizeError> {
        if parent.params.is_empty() || parent.program.is_module() {
            return Ok(ParamValues::new());
        }
        let declared = |program: &Program| -> Result<BTreeMap<String, [f64; 3]>, OptimizeError> {
            let runtime = self.trials.runtime_of(program);
            let params = runtime.declared_params(&self.trials.compile(program)?);
            let params = params.unwrap_or_default().into_iter();
            Ok(params.map(|param| (param.name, [param.value, param.min, param.max])).collect())
        };
        let (old, new) = (declared(&parent.program)?, declared(child)?);
        let alike = |name: &String| old.get(name).is_some_and(|own| new.get(name) == Some(own));
        let params = parent.params.iter().filter(|pair| alike(pair.0));
        Ok(params.map(|(name, &value)| (name.clone(), value)).collect())
    }

    /// Execution traces of queries that a program answers well, and of those of `open` that it
    /// answers badly; none where there are none of these.
    fn contrast(
        &mut self,
        category_program: &CategoryProgram,
        queries: &[usize],
        open: &[usize],
        rng: &mut ChaCha8Rng,
    ) -> Result<Option<Contrast>, OptimizeError> {
        if open.is_empty() {
            return Ok(None);
        }
        let is_good = |&&query: &&usize| category_program.train[query] >= GOOD;
        let good: Vec<usize> = queries.iter().filter(is_good).copied().collect();
        let wording = |at: usize| Wording::of(&self.train.queries[at].text);
        let good = wording::sample(&good, SHOWN_GOOD, wording, rng);
        let bad = wording::sample(open, SHOWN_BAD, wording, rng);
        let compiled = self.trials.compile(&category_program.program)?;
        let (runtime, source) =
            (self.trials.runtime_of(&category_program.program), category_program.program.source());
        let shown = |at: &usize| {
            let query = &self.train.queries[*at];
            execution_trace::of(runtime, &compiled, &category_program.params, source, query)
        };
        let line = |at: &usize| execution_trace::line(&self.base.kb, &self.train.queries[*at]);
        let is_open =
            |query: &&usize| category_program.train[**query] < GOOD && !bad.contains(query);
        let further = queries.iter().filter(is_open).copied().collect();
        let further = worst_first(further, category_program);
        let ranked = |at: &usize| match category_program.train[*at] {
            0.0 => format!("not ranked: {}", line(at)),
            rank => format!("rank {:.0}: {}", 1.0 / rank, line(at)),
        };
        Ok(Some(Contrast {
            good: good.first().map(shown).transpose()?,
            also_good: good.iter().skip(1).map(line).collect(),
            bad: bad.iter().map(shown).collect::<Result<_, _>>()?,
            also_bad: further.iter().take(SHOWN_ALSO_BAD).map(ranked).collect(),
        }))
    }

    /// The comparator's advice.
    fn advice(
        &mut self,
        actor: &mut Actor,
        name: &str,
        place: &Place<'_>,
        contrast: &Contrast,
    ) -> Result<Result<String, String>, OptimizeError> {
        let sample = place.step as u32 + 1;
        let mut inputs = json!({
            "category": actor.category(name),
            "current": self.current(actor, name, place.category_program, place.queries),
            "tried": actor.attempts(name).lines(place.category_program),
            "good": contrast.good,
            "also_good": contrast.also_good,
            "bad": contrast.bad,
            "also_bad": contrast.also_bad,
        });
        let params = &place.category_program.params;
        let source = inputs["current"]["source"].as_str().unwrap_or_default();
        inputs["current"]["source"] = shown::with_values(source, params).into();
        let reply = actor.ask(COMPARATOR_ROLE.role(), "comparator/contrast", inputs, sample)?;
        actor.used(reply.as_ref().map(|_| ()).map_err(String::as_str));
        Ok(reply.map(|reply| reply.text.trim().to_owned()))
    }

    /// A program that follows the advice, and what its author says of it.
    fn improved(
        &mut self,
        actor: &mut Actor,
        name: &str,
        place: &Place<'_>,
        advice: &str,
        contrast: &Contrast,
    ) -> Result<(String, Written), OptimizeError> {
        let (category_program, queries, sample) =
            (&*place.category_program, place.queries, place.step as u32 + 1);
        let mut inputs = self.briefed_in_short(actor, name);
        inputs["queries"] = self.solved(&self.examples(queries, SHOWN_TO_IMPROVE, sample));
        inputs["current"] = self.current(actor, name, category_program, queries);
        inputs["current"]["tuned"] = shown::tuned(&category_program.params).into();
        inputs["advice"] = whole_lines(advice, ADVICE_CHARS).into();
        inputs["elsewhere"] = actor.advice_elsewhere(name);
        inputs["traces"] = contrast.bad.iter().take(SHOWN_TO_AUTHOR).cloned().collect();
        let text = |query: usize| self.train.queries[query].text.as_str();
        inputs["previous"] = actor.attempts(name).programs(category_program, text);
        let tried = worst_first(queries.to_vec(), category_program);
        let sheet = self.sheet_of(name, tried, queries, category_program);
        let reply = actor.ask_all(ACTOR_ROLE.role(), "actor/improve", vec![inputs], sample)?;
        let what = reply.iter().flatten().map(|reply| shown::what(&reply.text)).collect();
        let written = self.mended(actor, std::slice::from_ref(&sheet), reply, sample)?;
        let written = written.into_iter().next().unwrap_or_else(|| Err(NOTHING.to_owned()));
        Ok((what, self.not_tried_before(actor, name, (category_program, queries), written)))
    }

    /// A category's program with its standing; without the header, which the prompt tells itself.
    fn current(
        &self,
        actor: &Actor,
        name: &str,
        category_program: &CategoryProgram,
        queries: &[usize],
    ) -> Value {
        let mut current = self.standing(category_program, queries);
        let source = current["source"].as_str().unwrap_or_default();
        current["source"] = shown::without_header(source, &actor.category_header(name)).into();
        current
    }

    /// A program, unless it was measured before.
    fn not_tried_before(
        &mut self,
        actor: &Actor,
        name: &str,
        (category_program, queries): (&CategoryProgram, &[usize]),
        written: Written,
    ) -> Written {
        let program = written?;
        let notes = actor.notes.get(name);
        let tried = notes.is_some_and(|notes| notes.tried.contains(program.id()));
        if !tried && program.id() != category_program.program.id() {
            return Ok(program);
        }
        if asks(&program) {
            self.allowance.give_back(queries.len() + self.validation.queries.len());
        }
        Err("the model gave a program that was tried before".to_owned())
    }

    /// What every prompt for a program tells; the base in short.
    pub(super) fn briefed(&self, actor: &Actor, category: &str) -> Value {
        json!({
            "schema": actor.briefing.outline,
            "toolkit": actor.briefing.toolkit,
            "language": actor.briefing.language,
            "limits": actor.briefing.limits,
            "category": actor.category(category),
        })
    }

    /// As [`Run::briefed`], with tools and language in short: for prompts that show a program which
    /// runs.
    pub(super) fn briefed_in_short(&self, actor: &Actor, category: &str) -> Value {
        let mut inputs = self.briefed(actor, category);
        inputs["toolkit"] = actor.briefing.toolkit_outline.as_str().into();
        inputs["language"] = actor.briefing.language_outline.as_str().into();
        inputs
    }

    /// Commits the categories, unless they are to be found again when the run goes on.
    pub(super) fn commit_categories(
        &mut self,
        actor: &mut Actor,
        found: &[Found],
    ) -> Result<(), OptimizeError> {
        let replies = actor.take_replies(None);
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
    pub(super) fn commit_attempt(
        &mut self,
        actor: &mut Actor,
        key: &str,
        attempt: Attempt,
    ) -> Result<(), OptimizeError> {
        let replies = actor.take_replies(Some(&attempt.category));
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

    pub(super) fn category(&self, name: &str) -> Value {
        let description = self.notes.get(name).map_or("", |notes| &notes.description);
        json!({ "name": name, "description": description })
    }

    /// The first lines of a program of a category: its name, and which queries belong to it.
    pub(crate) fn category_header(&self, name: &str) -> String {
        let description = self.notes.get(name).map_or("", |notes| &notes.description);
        match description {
            "" => format!("//! category: {}", comment(name)),
            text => format!("//! category: {}\n//! {}", comment(name), comment(text)),
        }
    }

    /// The attempts at a category's program.
    pub(super) fn attempts(&self, name: &str) -> Attempts {
        self.notes.get(name).map(|notes| notes.attempts.clone()).unwrap_or_default()
    }

    /// Notes a program that was measured, and what its author says of it.
    pub(super) fn remember(
        &mut self,
        name: &str,
        program: &Program,
        what: &str,
        measured: &Measured,
    ) {
        let notes = self.notes.entry(name.to_owned()).or_default();
        if !notes.tried.insert(program.id().to_owned()) {
            return;
        }
        let measured = earlier::Measured {
            source: program.source().to_owned(),
            queries: measured.queries.clone(),
            ranks: measured.ranks.clone(),
            before: measured.before,
            kept: measured.accepted,
        };
        notes.attempts.measured(what, measured);
    }
}

/// What went wrong, for a prompt.
pub(super) fn failure(query: &str, message: &str) -> Value {
    json!({ "query": query, "message": message, "place": "" })
}

/// A source that begins with the header of its category, whatever the author wrote there.
pub(crate) fn headed(source: &str, header: &str) -> String {
    let is_header = |line: &&str| {
        line.trim_start().starts_with("//! category:") || header.lines().any(|own| own == *line)
    };
    let rest: Vec<&str> = source.trim().lines().filter(|line| !is_header(line)).collect();
    format!("{header}\n{}\n", rest.join("\n"))
}

/// Training queries by how well a program answers them, the worst first, ties by place.
fn worst_first(mut queries: Vec<usize>, of: &CategoryProgram) -> Vec<usize> {
    queries.sort_by(|&a, &b| of.train[a].total_cmp(&of.train[b]).then(a.cmp(&b)));
    queries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::{briefing, execution_trace::TRACE_CHARS};
    use agent_llm::prompts::Prompts;
    use agent_tools::{ToolkitScope, toolkit_outline};

    /// Characters of the two prompts of an improvement beside the base's outline and the program,
    /// whatever was tried before and however much a model says, with functions that ask a model.
    const MOST: [usize; 2] = [20_000, 35_000];

    #[test]
    fn an_improvement_sends_no_more_than_its_sections_may_have() {
        let long = "a long line of words about what was tried\n".repeat(800);
        let present = CategoryProgram::of_test(&"let a = link(query);\n".repeat(600), &[0.5; 60]);
        let source = present.program.source();
        let mut attempts = Attempts::default();
        for n in 0..40_usize {
            let (source, queries) = (format!("{n}{long}"), (0..=n).collect());
            let ranks = (0..=n).map(|at| [0.25, 1.0][at % 2]).collect();
            let one = earlier::Measured { source, queries, ranks, before: 0.2, kept: false };
            attempts.measured(&long, one);
            attempts.failed(&long, &long);
        }
        let gained = |n: usize| Gained {
            category: format!("{n} {}", "c".repeat(70)),
            advice: long.clone(),
            before: 0.1,
            after: 0.2,
        };
        let gained: Vec<Gained> = (0..40).map(gained).collect();
        let category = json!({"name": "c".repeat(70), "description": "d".repeat(500)});
        let trace = whole_lines(&long, TRACE_CHARS);
        let line = |chars: usize| execution_trace::cut(&long, chars);
        let solved = json!({"text": line(400), "wording": "free wording", "n": 2,
                            "answers": [line(80), line(80)]});
        let mut current = json!({"source": source, "score": 0.5, "n": 60,
            "by_wording": "quotes 0.5 on 30 queries, free wording 0.5 on 30 queries"});
        let contrast = json!({"category": category, "current": current,
            "tried": attempts.lines(&present), "good": trace,
            "also_good": vec![line(300); SHOWN_GOOD - 1], "bad": vec![&trace; SHOWN_BAD],
            "also_bad": vec![line(300); SHOWN_ALSO_BAD]});
        current["tuned"] = "".into();
        let schema = "product: 3 nodes\n".repeat(400);
        let told = ToolkitScope { llm: true, query: true, avatar: false };
        let improve = json!({"schema": schema, "toolkit": toolkit_outline(told),
            "language": briefing::language_outline(), "limits": "2 s", "category": category,
            "queries": vec![solved; SHOWN_TO_IMPROVE], "current": current,
            "advice": whole_lines(&long, ADVICE_CHARS), "elsewhere": elsewhere(&gained, "other"),
            "traces": vec![&trace; SHOWN_TO_AUTHOR], "previous": attempts.programs(&present, |_| &long)});
        let prompts = Prompts::built_in().unwrap();
        let beside = |name: &str, inputs: Value, given: usize| {
            let prompt = prompts.render(name, inputs).unwrap();
            assert_eq!(prompt.left_out, Vec::<String>::new(), "{name}");
            let beside = prompt.system.len() + prompt.user.len() - given;
            eprintln!("{name}: {beside} characters beside base and program");
            beside
        };
        let beside = [
            beside("comparator/contrast", contrast, source.len()),
            beside("actor/improve", improve, source.len() + schema.len()),
        ];
        assert!(beside[0] <= MOST[0] && beside[1] <= MOST[1], "{beside:?}");
        // The state is as large as the sections allow.
        assert!(beside[0] * 10 > MOST[0] * 8 && beside[1] * 10 > MOST[1] * 8, "{beside:?}");
    }

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
