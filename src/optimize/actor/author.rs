//! Improvement of programs by a model: a comparator contrasts queries that a category's program
//! answers well with those that it answers badly, and gives advice. The actor rewrites the program
//! by this advice.
//!
//! After more than [`PATIENCE`] steps without an accepted program the category is restarted: the
//! model writes a new program from other example queries, without seeing earlier attempts. The
//! category keeps its best program.
//!
//! If [`Ablation::Comparator`] is disabled, there is no advice: the actor then rewrites the program
//! from its score and earlier attempts.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::{
    Ablation, Result, Run,
    actor::{
        Actor, Attempt, INITIAL, LLM, Notes,
        advice::{AcceptedAdvice, advice_from_others},
        drafts::DraftResult,
        earlier::{self, Attempts},
        execution_trace::{self, whole_lines},
        first::EXAMPLES,
        only, shown,
    },
    archive::Archive,
    asks::asks,
    category_programs::{CategoryProgram, GOOD},
    improve::{Child, Measurement, StepTarget},
    trial::{Origin, mean},
    wording::{self, Wording},
};
use agent_infer::ParamValues;
use agent_llm::RoleSpec;
use agent_sandbox::program::Program;
use agent_tools::source::comment;

/// The role that writes and improves programs. The role uses the service's default temperature,
/// because programs should vary; replies in the other roles should be repeatable.
pub const ACTOR_ROLE: RoleSpec = RoleSpec {
    name: "actor",
    summary: "writes and improves programs",
    temperature: None,
    max_tokens: 8_192,
};

/// The role that contrasts well and badly answered queries and gives advice.
pub(crate) const COMPARATOR_ROLE: RoleSpec = RoleSpec {
    name: "comparator",
    summary: "contrasts well and badly answered training queries",
    temperature: Some(0.0),
    max_tokens: 4_096,
};

/// Number of training queries on which a new program is tried before it is measured.
pub(super) const TRIED: usize = 12;
/// Number of queries with answers in a prompt for a better program.
pub(super) const SHOWN_TO_IMPROVE: usize = 5;
/// Number of badly answered queries whose execution traces the comparator's prompt shows.
const SHOWN_BAD: usize = 4;
/// Number of further badly answered queries in the comparator's prompt, one line each.
const SHOWN_ALSO_BAD: usize = 5;
/// Number of well answered queries in the comparator's prompt; only the first has an execution
/// trace.
const SHOWN_GOOD: usize = 6;
/// Number of execution traces of badly answered queries in the author's prompt.
const SHOWN_TO_AUTHOR: usize = 2;
/// Maximum length in characters of advice in the author's prompt.
const ADVICE_CHARS: usize = 3_000;
/// Text that replaces advice in the author's prompt if the comparator is disabled.
const NO_ADVICE: &str = "No advice is given for this step. Judge by the score of the current program and by the \
     earlier programs, and make the change that is most likely to raise the score.";
/// A category is restarted after more than this number of steps without an accepted program.
const PATIENCE: usize = 3;

/// Queries that a program answers well and queries that it answers badly, as texts for the
/// comparator's prompt.
struct Contrast {
    /// Execution trace of a well answered query, if there is one.
    good: Option<String>,
    /// Further well answered queries, one line each.
    also_good: Vec<String>,
    /// Execution traces of badly answered queries.
    bad: Vec<String>,
    /// Further badly answered queries, one line each with the answer's rank, worst first.
    also_bad: Vec<String>,
}

impl Run<'_> {
    /// Runs one model step on a category: contrasts queries, asks for advice, asks for a rewritten
    /// program and tests this program; or restarts the category if a restart is due. Badly answered
    /// queries are sampled from `open`. If `open` is empty and no restart is due, sends no request.
    pub(crate) fn rewrite(
        &mut self,
        actor: &mut Actor,
        mut target: StepTarget<'_>,
        open: &[usize],
        archive: &mut Archive,
        rng: &mut ChaCha8Rng,
    ) -> Result<()> {
        let name = target.category.name().to_owned();
        let notes = actor.notes_of(&name);
        notes.attempts.mark_current(target.category);
        if notes.gap > PATIENCE {
            let steps = std::mem::take(&mut notes.gap);
            notes.restarts += 1;
            self.report(format!("{name}: restarted after {steps} steps without progress"));
            return self.restart(actor, &name, &mut target, archive);
        }
        if open.is_empty() {
            return Ok(());
        }
        let contrast = match self.options.lacks(Ablation::Comparator) {
            true => None,
            false => Some(self.contrast(target.category, target.queries, open, rng)?),
        };
        let before = mean(&target.category.train_on(target.queries));
        let mut attempt = Attempt::new(&name, "improve", before);
        let advice = match &contrast {
            Some(contrast) => self.advice(actor, &name, &target, contrast)?.map(Some),
            None => Ok(None),
        };
        let written = match advice {
            Ok(advice) => {
                attempt.advice = advice;
                let guidance = attempt.advice.as_deref().zip(contrast.as_ref());
                self.request_rewrite(actor, &name, &target, guidance)?
            }
            Err(why) => (String::new(), Err(why)),
        };
        self.test(actor, attempt, written, &mut target, archive)
    }

    /// Asks for a new program of a category, without showing earlier attempts in the prompt, and
    /// tests this program.
    fn restart(
        &mut self,
        actor: &mut Actor,
        name: &str,
        target: &mut StepTarget<'_>,
        archive: &mut Archive,
    ) -> Result<()> {
        let sample = target.step as u32 + 1;
        let examples = self.examples(target.queries, EXAMPLES, sample);
        let request = self.draft_request(name, examples, target.queries, target.category);
        let before = mean(&target.category.train_on(target.queries));
        let attempt = Attempt::new(name, INITIAL, before);
        let written = self.drafts(actor, std::slice::from_ref(&request), sample)?;
        let parent = (&*target.category, target.queries);
        let program = self.not_tried_before(actor, name, parent, only(written));
        let written = ("a program begun anew".to_owned(), program);
        self.test(actor, attempt, written, target, archive)
    }

    /// Measures a written program against the category's current program, and commits the attempt.
    /// If accepted, the written program replaces the current one. If the model wrote no usable
    /// program, commits the reason. `written` also has the note that the model wrote before the
    /// program.
    fn test(
        &mut self,
        actor: &mut Actor,
        mut attempt: Attempt,
        (note, written): (String, DraftResult),
        target: &mut StepTarget<'_>,
        archive: &mut Archive,
    ) -> Result<()> {
        let name = attempt.category.clone();
        let is_restart = attempt.kind == INITIAL;
        match written {
            Ok(program) => {
                attempt.program = Some(program.id().to_owned());
                let change = match (is_restart, &attempt.advice) {
                    (true, _) => "begun anew",
                    (_, Some(_)) => "rewritten after advice",
                    (_, None) => "rewritten without advice",
                };
                let origin = Origin::new(LLM, change, Some(&target.category.program));
                let params = self.inherited_params(target.category, &program)?;
                let source = program.clone();
                let child = Child { plan: None, program, params, origin };
                let measured = self.measure(child, target, archive)?;
                actor.remember(&name, &source, &note, &measured);
                let (before, after) = (measured.before, measured.mrr);
                (attempt.before, attempt.after) = (before, Some(after));
                (attempt.n, attempt.accepted) = (Some(measured.queries.len()), measured.accepted);
                let advice = attempt.advice.clone().filter(|advice| !advice.is_empty());
                if let Some(advice) = advice.filter(|_| measured.accepted) {
                    let category = name.clone();
                    let accepted = AcceptedAdvice { category, advice, before, after };
                    actor.accepted_advice.push(accepted);
                }
                if asks(&source) && !measured.accepted {
                    let rest = target.queries.len().saturating_sub(measured.calls);
                    self.allowance.give_back(rest + self.validation.queries.len());
                }
            }
            Err(why) => {
                self.report(format!("no better program for {name}: {why}"));
                if !note.is_empty() {
                    actor.notes_of(&name).attempts.failed(&note, &why);
                }
                attempt.failure = Some(why);
            }
        }
        let notes = actor.notes_of(&name);
        notes.gap = if attempt.accepted { 0 } else { notes.gap + 1 };
        let key = match is_restart {
            true => format!("initial {name} {}", target.step as u32 + 1),
            false => format!("step {}", target.step),
        };
        self.commit_asked(actor, Some(&name), ("attempt", &key), &attempt)
    }

    /// Returns the tuned parameters of the category's program (the parent) whose declared value and
    /// range are the same in the new program (the child).
    fn inherited_params(&self, parent: &CategoryProgram, child: &Program) -> Result<ParamValues> {
        if parent.params.is_empty() || parent.program.is_module() {
            return Ok(ParamValues::new());
        }
        let declared = |program: &Program| -> Result<BTreeMap<String, [f64; 3]>> {
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

    /// Samples well answered queries from `queries` and badly answered ones from `open`, and
    /// renders execution traces of some of them.
    fn contrast(
        &mut self,
        category: &CategoryProgram,
        queries: &[usize],
        open: &[usize],
        rng: &mut ChaCha8Rng,
    ) -> Result<Contrast> {
        let is_good = |&&query: &&usize| category.train[query] >= GOOD;
        let good: Vec<usize> = queries.iter().filter(is_good).copied().collect();
        let wording = |at: usize| Wording::detect(&self.train.queries[at].text);
        let good = wording::sample(&good, SHOWN_GOOD, wording, rng);
        let bad = wording::sample(open, SHOWN_BAD, wording, rng);
        let compiled = self.trials.compile(&category.program)?;
        let runtime = self.trials.runtime_of(&category.program);
        let shown = |at: &usize| {
            let (source, query) = (category.program.source(), &self.train.queries[*at]);
            execution_trace::render(runtime, &compiled, &category.params, source, query)
        };
        let line = |at: &usize| execution_trace::line(&self.base.kb, &self.train.queries[*at]);
        let is_open = |query: &&usize| category.train[**query] < GOOD && !bad.contains(query);
        let further = queries.iter().filter(is_open).copied().collect();
        let further = worst_first(further, category);
        let ranked = |at: &usize| match category.train[*at] {
            0.0 => format!("not ranked: {}", line(at)),
            rank => format!("rank {:.0}: {}", 1.0 / rank, line(at)),
        };
        Ok(Contrast {
            good: good.first().map(shown).transpose()?,
            also_good: good.iter().skip(1).map(line).collect(),
            bad: bad.iter().map(shown).collect::<Result<_, _>>()?,
            also_bad: further.iter().take(SHOWN_ALSO_BAD).map(ranked).collect(),
        })
    }

    /// Asks the comparator for advice on the contrast. An inner error states why there is no
    /// advice.
    fn advice(
        &mut self,
        actor: &mut Actor,
        name: &str,
        target: &StepTarget<'_>,
        contrast: &Contrast,
    ) -> Result<Result<String, String>> {
        let sample = target.step as u32 + 1;
        let ranks = (target.queries, &*target.category.train_on(target.queries));
        let mut inputs = json!({
            "category": actor.category(name),
            "current": self.current(actor, name, &target.category.program, ranks),
            "tried": actor.attempts(name).lines(target.category),
            "good": contrast.good,
            "also_good": contrast.also_good,
            "bad": contrast.bad,
            "also_bad": contrast.also_bad,
        });
        let params = &target.category.params;
        let source = inputs["current"]["source"].as_str().unwrap_or_default();
        inputs["current"]["source"] = shown::with_values(source, params).into();
        let (role, prompt) = (COMPARATOR_ROLE.role(), "comparator/contrast");
        let reply = only(actor.ask_all(role, prompt, vec![inputs], sample)?);
        actor.note_usable(reply.as_ref().map(|_| ()).map_err(String::as_str));
        Ok(reply.map(|reply| reply.text.trim().to_owned()))
    }

    /// Asks for a program that follows the advice in `guidance` or, without `guidance`, for any
    /// better program. Returns the note that the model wrote before the program, and the program.
    fn request_rewrite(
        &mut self,
        actor: &mut Actor,
        name: &str,
        target: &StepTarget<'_>,
        guidance: Option<(&str, &Contrast)>,
    ) -> Result<(String, DraftResult)> {
        let (category, queries, sample) =
            (&*target.category, target.queries, target.step as u32 + 1);
        let mut inputs = self.short_prompt_inputs(actor, name);
        inputs["queries"] = self.solved_queries(&self.examples(queries, SHOWN_TO_IMPROVE, sample));
        let ranks = (queries, &*category.train_on(queries));
        inputs["current"] = self.current(actor, name, &category.program, ranks);
        inputs["current"]["tuned"] = shown::tuned_text(&category.params).into();
        inputs["advice"] = match guidance {
            Some((advice, _)) => whole_lines(advice, ADVICE_CHARS).into(),
            None => NO_ADVICE.into(),
        };
        inputs["elsewhere"] = advice_from_others(&actor.accepted_advice, name);
        let bad = guidance.map_or(&[][..], |(_, contrast)| &contrast.bad);
        inputs["traces"] = bad.iter().take(SHOWN_TO_AUTHOR).cloned().collect();
        let text = |query: usize| self.train.queries[query].text.as_str();
        inputs["previous"] = actor.attempts(name).programs(category, text);
        let tried = worst_first(queries.to_vec(), category);
        let request = self.draft_request(name, tried, queries, category);
        let reply = actor.ask_all(ACTOR_ROLE.role(), "actor/improve", vec![inputs], sample)?;
        let note = reply.iter().flatten().map(|reply| shown::author_note(&reply.text)).collect();
        let written = self.repair(actor, std::slice::from_ref(&request), reply, sample)?;
        Ok((note, self.not_tried_before(actor, name, (category, queries), only(written))))
    }

    /// Formats a program of the category `name` for a prompt, with the queries on which it ran and
    /// its reciprocal ranks. Omits the program's header, which the prompt shows separately.
    pub(super) fn current(
        &self,
        actor: &Actor,
        name: &str,
        program: &Program,
        (queries, ranks): (&[usize], &[f32]),
    ) -> Value {
        let mut current = self.standing(program, queries, ranks);
        let source = current["source"].as_str().unwrap_or_default();
        current["source"] = shown::without_header(source, &actor.category_header(name)).into();
        current
    }

    /// Returns the written program, or an error if it was measured before or is the current
    /// program.
    fn not_tried_before(
        &mut self,
        actor: &Actor,
        name: &str,
        (category, queries): (&CategoryProgram, &[usize]),
        written: DraftResult,
    ) -> DraftResult {
        let program = written?;
        let notes = actor.notes.get(name);
        let tried = notes.is_some_and(|notes| notes.tried.contains(program.id()));
        if !tried && program.id() != category.program.id() {
            return Ok(program);
        }
        if asks(&program) {
            self.allowance.give_back(queries.len() + self.validation.queries.len());
        }
        Err("the model gave a program that was tried before".to_owned())
    }

    /// Returns the inputs that all prompts for programs share: the short form of the schema, the
    /// toolkit, the language, the limits and the category.
    pub(super) fn prompt_inputs(&self, actor: &Actor, category: &str) -> Value {
        json!({
            "schema": actor.briefing.outline,
            "toolkit": actor.briefing.toolkit,
            "language": actor.briefing.language,
            "limits": actor.briefing.limits,
            "category": actor.category(category),
        })
    }

    /// Returns the inputs of [`Run::prompt_inputs`] with short forms of toolkit and language, for
    /// prompts that show a program that runs.
    pub(super) fn short_prompt_inputs(&self, actor: &Actor, category: &str) -> Value {
        let mut inputs = self.prompt_inputs(actor, category);
        inputs["toolkit"] = actor.briefing.toolkit_outline.as_str().into();
        inputs["language"] = actor.briefing.language_outline.as_str().into();
        inputs
    }
}

impl Actor {
    /// Returns the notes on a category; creates empty notes if there are none.
    fn notes_of(&mut self, name: &str) -> &mut Notes {
        self.notes.entry(name.to_owned()).or_default()
    }

    pub(super) fn category(&self, name: &str) -> Value {
        let description = self.notes.get(name).map_or("", |notes| &notes.description);
        json!({ "name": name, "description": description })
    }

    /// Returns the header of a category's program: comment lines with the category's name and
    /// description.
    pub(crate) fn category_header(&self, name: &str) -> String {
        let description = self.notes.get(name).map_or("", |notes| &notes.description);
        match description {
            "" => format!("//! category: {}", comment(name)),
            text => format!("//! category: {}\n//! {}", comment(name), comment(text)),
        }
    }

    /// Returns the earlier attempts to improve a category's program.
    pub(super) fn attempts(&self, name: &str) -> Attempts {
        self.notes.get(name).map(|notes| notes.attempts.clone()).unwrap_or_default()
    }

    /// Records a measured program of a category and the model's note on it, unless the program was
    /// recorded before.
    pub(super) fn remember(
        &mut self,
        name: &str,
        program: &Program,
        note: &str,
        measured: &Measurement,
    ) {
        let notes = self.notes_of(name);
        if !notes.tried.insert(program.id().to_owned()) {
            return;
        }
        let measured = earlier::MeasuredProgram {
            source: program.source().to_owned(),
            queries: measured.queries.clone(),
            ranks: measured.ranks.clone(),
            before: measured.before,
            kept: measured.accepted,
        };
        notes.attempts.measured(note, measured);
    }
}

/// Formats a program's failure on a query for a prompt; `query` is empty if the program failed as a
/// whole.
pub(super) fn failure(query: &str, message: &str) -> Value {
    json!({ "query": query, "message": message, "place": "" })
}

/// Returns the source of a program with its header (the lines with category and description)
/// replaced by `header`.
pub(crate) fn headed(source: &str, header: &str) -> String {
    let is_header = |line: &&str| {
        line.trim_start().starts_with("//! category:") || header.lines().any(|own| own == *line)
    };
    let rest: Vec<&str> = source.trim().lines().filter(|line| !is_header(line)).collect();
    format!("{header}\n{}\n", rest.join("\n"))
}

/// Sorts training queries by a program's reciprocal rank on them, lowest first; queries with equal
/// ranks are sorted by position.
fn worst_first(mut queries: Vec<usize>, program: &CategoryProgram) -> Vec<usize> {
    queries.sort_by(|&a, &b| program.train[a].total_cmp(&program.train[b]).then(a.cmp(&b)));
    queries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::{briefing, execution_trace::TRACE_CHARS};
    use agent_llm::prompts::Prompts;
    use agent_tools::{ToolkitScope, toolkit_outline};

    /// Maximum length in characters of the two prompts of an improvement step, not counting the
    /// base's outline and the program. Holds for any history and any length of replies, and with
    /// functions that ask a model.
    const MAX_CHARS: [usize; 2] = [20_000, 35_000];

    #[test]
    fn an_improvement_sends_no_more_than_its_sections_may_have() {
        let long = "a long line of words about what was tried\n".repeat(800);
        let present = CategoryProgram::for_test(&"let a = link(query);\n".repeat(600), &[0.5; 60]);
        let source = present.program.source();
        let mut attempts = Attempts::default();
        for n in 0..40_usize {
            let (source, queries) = (format!("{n}{long}"), (0..=n).collect());
            let ranks = (0..=n).map(|at| [0.25, 1.0][at % 2]).collect();
            let one = earlier::MeasuredProgram { source, queries, ranks, before: 0.2, kept: false };
            attempts.measured(&long, one);
            attempts.failed(&long, &long);
        }
        let accepted_advice = |n: usize| AcceptedAdvice {
            category: format!("{n} {}", "c".repeat(70)),
            advice: long.clone(),
            before: 0.1,
            after: 0.2,
        };
        let accepted_advice: Vec<AcceptedAdvice> = (0..40).map(accepted_advice).collect();
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
        let listed = ToolkitScope { llm: true, query: true, avatar: false };
        let improve = json!({"schema": schema, "toolkit": toolkit_outline(listed),
            "language": briefing::language_outline(), "limits": "2 s", "category": category,
            "queries": vec![solved; SHOWN_TO_IMPROVE], "current": current,
            "advice": whole_lines(&long, ADVICE_CHARS), "elsewhere": advice_from_others(&accepted_advice, "other"),
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
        assert!(beside[0] <= MAX_CHARS[0] && beside[1] <= MAX_CHARS[1], "{beside:?}");
        // The state is as large as the sections allow.
        assert!(
            beside[0] * 10 > MAX_CHARS[0] * 8 && beside[1] * 10 > MAX_CHARS[1] * 8,
            "{beside:?}"
        );
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
