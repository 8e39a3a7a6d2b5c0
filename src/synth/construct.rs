//! Makes questions without a model: grounds a template, metapaths, picks a gold answer, takes words
//! of its document, keeps the candidates that have them, words it.
//!
//! Source: the construction of STaRK (Wu et al. 2024, section 2.4), where models extract and check
//! properties; here the words of documents stand for them. Must not know: how models are asked.

use std::collections::{BTreeMap, HashSet};

use crate::{
    MAX_ANSWERS, Question, Stopped, SynthError, Watch,
    discover::{slots_of, starts},
    mention::{Mentions, folded},
    properties::Properties,
    template::Template,
    wording::{self, Kind},
};
use agent_dataset::sample::random::Stream;
use agent_index::IndexedBase;
use agent_kb::{NodeId, metapath::Step};

/// Nodes a grounding leads to at most; a question about more would hardly need its relation.
pub(super) const MAX_CANDIDATES: usize = 2_000;
/// Groundings for each question that is wanted, at most.
const ATTEMPTS: usize = 60;
/// Groundings of one kind before another kind is drawn; bases without texts have relations alone.
const DRAWS: usize = 15;
/// Share of questions, in per cent, that ask by relations alone, and by words alone.
const RELATIONAL: usize = 15;
const TEXTUAL: usize = 15;
/// Answers of a question with words at most, mostly: people ask for a few things.
const FEW_ANSWERS: usize = 5;
/// Share of groundings, in per cent, that begin at any slot node instead of at an answer.
const ANY_SLOT: usize = 40;

/// Why groundings gave no question, with how many did.
pub type Dropped = BTreeMap<&'static str, usize>;

/// A filled template.
pub(super) struct Grounding {
    /// Slot nodes.
    pub(super) slots: Vec<NodeId>,
    /// Nodes that the branches lead to, ascending.
    pub(super) candidates: Vec<NodeId>,
}

/// Draws groundings and questions of one base.
pub(super) struct Maker<'a> {
    pub(super) base: &'a IndexedBase,
    pub(super) templates: &'a [Template],
    /// Which template is drawn, by cumulated weight.
    cumulated: Vec<f64>,
    /// The nodes that fill the first slot of each template; found when needed.
    starts: BTreeMap<usize, Vec<NodeId>>,
    pub(super) mentions: Mentions<'a>,
    pub(super) properties: Properties<'a>,
    /// Texts so far, folded.
    texts: HashSet<String>,
    /// Slots and answers so far, so that none is asked twice in other words.
    asked: HashSet<(String, Vec<NodeId>, Vec<NodeId>)>,
    pub(super) dropped: Dropped,
}

impl<'a> Maker<'a> {
    pub(super) fn new(base: &'a IndexedBase, templates: &'a [Template]) -> Maker<'a> {
        let mut sum = 0.0;
        let cumulated = templates.iter().map(|template| {
            sum += template.weight;
            sum
        });
        Maker {
            base,
            templates,
            cumulated: cumulated.collect(),
            starts: BTreeMap::new(),
            mentions: Mentions::new(base),
            properties: Properties::new(base),
            texts: HashSet::new(),
            asked: HashSet::new(),
            dropped: Dropped::new(),
        }
    }

    /// One template, by weight.
    pub(super) fn draw(&self, stream: &mut Stream) -> Option<usize> {
        let at = stream.unit() * self.cumulated.last()?;
        Some(self.cumulated.partition_point(|&sum| sum <= at).min(self.templates.len() - 1))
    }

    /// Fills the slots of a template, from any slot node or back from any answer.
    pub(super) fn ground(&mut self, at: usize, stream: &mut Stream) -> Option<Grounding> {
        let kb = &self.base.kb;
        let template = self.templates.get(at)?;
        let slots = match stream.percent(ANY_SLOT) && template.slots.len() == 1 {
            true => {
                let first: &Step = template.branches.first()?.steps.first()?;
                let starts = self.starts.entry(at).or_insert_with(|| starts(kb, first));
                vec![*starts.get(stream.below(starts.len()))?]
            }
            false => {
                let nodes = kb.nodes_of_type(template.target);
                slots_of(kb, template, *nodes.get(stream.below(nodes.len()))?, stream)?
            }
        };
        let candidates = template.answers(kb, &slots)?;
        let fits = (1..=MAX_CANDIDATES).contains(&candidates.len());
        fits.then_some(Grounding { slots, candidates })
    }

    /// The mentions of slot nodes; none where one cannot be told from others.
    pub(super) fn mention(&mut self, slots: &[NodeId], stream: &mut Stream) -> Option<Vec<String>> {
        slots.iter().map(|&slot| self.mentions.of(slot, stream)).collect()
    }

    /// Notes why there is no question.
    pub(super) fn drop<T>(&mut self, why: &'static str) -> Option<T> {
        *self.dropped.entry(why).or_default() += 1;
        None
    }

    /// Takes a question, unless it says an answer's name or repeats another.
    pub(super) fn take(&mut self, question: Question) -> Option<Question> {
        let text = folded(&question.text);
        let spaced = format!(" {text} ");
        let kb = &self.base.kb;
        let says = |&answer: &NodeId| {
            let name = folded(kb.name(answer));
            !name.is_empty() && spaced.contains(&format!(" {name} "))
        };
        if question.answers.iter().any(says) {
            return self.drop("says the name of an answer");
        }
        let asked = (question.template.clone(), question.slots.clone(), question.answers.clone());
        if !self.asked.insert(asked) || !self.texts.insert(text) {
            return self.drop("repeats another question");
        }
        Some(question)
    }

    /// One question of a kind; none where the draw leads to none.
    fn one(&mut self, kind: Kind, stream: &mut Stream) -> Option<Question> {
        let at = self.draw(stream)?;
        match kind {
            Kind::Textual => self.textual(at, stream),
            _ => self.related(at, kind, stream),
        }
    }

    fn related(&mut self, at: usize, kind: Kind, stream: &mut Stream) -> Option<Question> {
        let Some(Grounding { slots, candidates }) = self.ground(at, stream) else {
            return self.drop("has no candidates, or too many");
        };
        let gold = stream.pick(&candidates);
        let narrowed = match kind {
            Kind::Relational if candidates.len() <= MAX_ANSWERS => (Vec::new(), candidates),
            Kind::Relational => return self.drop("has too many answers"),
            _ => {
                let most = if stream.percent(80) { FEW_ANSWERS } else { MAX_ANSWERS };
                match self.properties.narrow(&candidates, gold, most, stream) {
                    Some(narrowed) => narrowed,
                    None => return self.drop("has no words that narrow it"),
                }
            }
        };
        let Some(names) = self.mention(&slots, stream) else {
            return self.drop("has a slot that cannot be named");
        };
        let (properties, answers) = narrowed;
        let template = self.templates.get(at)?;
        let words: Vec<String> = properties.iter().map(|one| one.words.clone()).collect();
        let (text, style) = wording::question(&self.base.kb, template, &names, &words, stream);
        let template = template.id.clone();
        let votes = Vec::new();
        self.take(Question { text, kind, style, template, slots, gold, properties, votes, answers })
    }

    fn textual(&mut self, at: usize, stream: &mut Stream) -> Option<Question> {
        let kb = &self.base.kb;
        let target = self.templates.get(at)?.target;
        let nodes = kb.nodes_of_type(target);
        let gold = *nodes.get(stream.below(nodes.len()))?;
        let Some((properties, answers)) = self.properties.narrow_type(gold, FEW_ANSWERS, stream)
        else {
            return self.drop("has no words that narrow it");
        };
        let template = textual(target);
        let words: Vec<String> = properties.iter().map(|one| one.words.clone()).collect();
        let (text, style) = wording::question(kb, &template, &[], &words, stream);
        let (template, slots) = (format!("{} by words", kb.type_name(target)), Vec::new());
        let (kind, votes) = (Kind::Textual, Vec::new());
        self.take(Question { text, kind, style, template, slots, gold, properties, votes, answers })
    }
}

/// The template of a question by words alone.
pub(super) fn textual(target: agent_kb::TypeId) -> Template {
    Template {
        id: String::new(),
        target,
        slots: Vec::new(),
        branches: Vec::new(),
        exclude_slots: false,
        text: None,
        weight: 0.0,
    }
}

/// The kind of the next question.
pub(super) fn kind(stream: &mut Stream) -> Kind {
    match stream.below(100) {
        draw if draw < RELATIONAL => Kind::Relational,
        draw if draw < RELATIONAL + TEXTUAL => Kind::Textual,
        _ => Kind::Fused,
    }
}

/// Questions of a base, at most `wanted`, in the order in which they were drawn, with what was
/// dropped. The same base, templates and seed give the same questions.
pub(super) fn construct(
    base: &IndexedBase,
    templates: &[Template],
    wanted: usize,
    seed: u64,
    watch: &mut Watch<'_>,
) -> Result<(Vec<Question>, Dropped, Option<Stopped>), SynthError> {
    let mut maker = Maker::new(base, templates);
    let mut questions = Vec::new();
    let mut stream = Stream::new(seed, "questions", 0);
    for _ in 0..wanted.saturating_mul(ATTEMPTS / DRAWS) {
        if questions.len() == wanted {
            break;
        }
        watch.at("questions", questions.len(), wanted)?;
        // A kind that is hard to make is drawn as often as the others, or it would get rare.
        let kind = kind(&mut stream);
        questions.extend((0..DRAWS).find_map(|_| maker.one(kind, &mut stream)));
    }
    watch.at("questions", wanted, wanted)?;
    Ok((questions, maker.dropped, None))
}
