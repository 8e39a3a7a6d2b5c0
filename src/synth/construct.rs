//! Makes questions without a model: fills a template along its metapaths, picks a gold answer,
//! takes words of its document, keeps the candidates that have them, and words the question.
//!
//! Source: the construction of STaRK (Wu et al. 2024, section 2.4), where models extract and check
//! properties; here words of documents replace them.

use std::collections::{BTreeMap, HashSet};

use crate::{
    Interruption, MAX_ANSWERS, Question, SynthError, Watch,
    discover::{slots_of, starts},
    mention::{Mentions, folded},
    properties::Properties,
    template::Template,
    wording::{self, Kind},
};
use agent_dataset::sample::random::Stream;
use agent_index::IndexedBase;
use agent_kb::{NodeId, metapath::Step};

/// Maximum number of candidates of a grounding; with more, the relation would hardly narrow the
/// answers.
pub(super) const MAX_CANDIDATES: usize = 2_000;
/// Maximum number of groundings per requested question.
const ATTEMPTS: usize = 60;
/// Draws for one kind before a kind is drawn anew; a base without texts has relational questions
/// only.
const DRAWS: usize = 15;
/// Share of relational questions, per cent.
const RELATIONAL: usize = 15;
/// Share of textual questions, per cent.
const TEXTUAL: usize = 15;
/// Usual maximum number of answers of a question with words, as people ask for a few nodes.
const FEW_ANSWERS: usize = 5;
/// Share of groundings that start at any slot node instead of at an answer, per cent.
const ANY_SLOT: usize = 40;

/// Number of rejected draws by reason.
pub type DropCounts = BTreeMap<&'static str, usize>;

/// A filled template.
pub(super) struct Grounding {
    /// Slot nodes.
    pub(super) slots: Vec<NodeId>,
    /// Nodes at the ends of the branches, ascending.
    pub(super) candidates: Vec<NodeId>,
}

/// Makes questions about one base.
pub(super) struct QuestionMaker<'a> {
    pub(super) base: &'a IndexedBase,
    pub(super) templates: &'a [Template],
    /// Cumulated weights of the templates.
    cumulated: Vec<f64>,
    /// Nodes that fill the first slot of each template; found on demand.
    starts: BTreeMap<usize, Vec<NodeId>>,
    pub(super) mentions: Mentions<'a>,
    pub(super) properties: Properties<'a>,
    /// Folded texts of the accepted questions.
    texts: HashSet<String>,
    /// Templates, slots and answers of the accepted questions, to detect rewordings.
    asked: HashSet<(String, Vec<NodeId>, Vec<NodeId>)>,
    pub(super) dropped: DropCounts,
}

impl<'a> QuestionMaker<'a> {
    pub(super) fn new(base: &'a IndexedBase, templates: &'a [Template]) -> QuestionMaker<'a> {
        let mut sum = 0.0;
        let cumulated = templates.iter().map(|template| {
            sum += template.weight;
            sum
        });
        QuestionMaker {
            base,
            templates,
            cumulated: cumulated.collect(),
            starts: BTreeMap::new(),
            mentions: Mentions::new(base),
            properties: Properties::new(base),
            texts: HashSet::new(),
            asked: HashSet::new(),
            dropped: DropCounts::new(),
        }
    }

    /// Draws the index of a template, by weight.
    pub(super) fn draw(&self, stream: &mut Stream) -> Option<usize> {
        let point = stream.unit() * self.cumulated.last()?;
        Some(self.cumulated.partition_point(|&sum| sum <= point).min(self.templates.len() - 1))
    }

    /// Fills the slots of a template, from any slot node or back from any answer. None if the draw
    /// has no slots, no candidates or more than [`MAX_CANDIDATES`].
    pub(super) fn ground(&mut self, template: usize, stream: &mut Stream) -> Option<Grounding> {
        let kb = &self.base.kb;
        let index = template;
        let template = self.templates.get(index)?;
        let slots = match stream.percent(ANY_SLOT) && template.slots.len() == 1 {
            true => {
                let first: &Step = template.branches.first()?.steps.first()?;
                let starts = self.starts.entry(index).or_insert_with(|| starts(kb, first));
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

    /// Returns mentions of slot nodes; none if one cannot be mentioned.
    pub(super) fn mention(&mut self, slots: &[NodeId], stream: &mut Stream) -> Option<Vec<String>> {
        slots.iter().map(|&slot| self.mentions.mention(slot, stream)).collect()
    }

    /// Counts a rejected draw, and returns `None`.
    pub(super) fn reject<T>(&mut self, reason: &'static str) -> Option<T> {
        *self.dropped.entry(reason).or_default() += 1;
        None
    }

    /// Accepts a question, unless it contains an answer's name or repeats another question.
    pub(super) fn accept(&mut self, question: Question) -> Option<Question> {
        let text = folded(&question.text);
        let spaced = format!(" {text} ");
        let kb = &self.base.kb;
        let contains_name = |&answer: &NodeId| {
            let name = folded(kb.name(answer));
            !name.is_empty() && spaced.contains(&format!(" {name} "))
        };
        if question.answers.iter().any(contains_name) {
            return self.reject("says the name of an answer");
        }
        let asked = (question.template.clone(), question.slots.clone(), question.answers.clone());
        if !self.asked.insert(asked) || !self.texts.insert(text) {
            return self.reject("repeats another question");
        }
        Some(question)
    }

    /// Makes a question of a kind, if the draw gives one.
    fn try_question(&mut self, kind: Kind, stream: &mut Stream) -> Option<Question> {
        let template = self.draw(stream)?;
        match kind {
            Kind::Textual => self.textual(template, stream),
            _ => self.related(template, kind, stream),
        }
    }

    fn related(&mut self, template: usize, kind: Kind, stream: &mut Stream) -> Option<Question> {
        let Some(Grounding { slots, candidates }) = self.ground(template, stream) else {
            return self.reject("has no candidates, or too many");
        };
        let gold = stream.pick(&candidates);
        let narrowed = match kind {
            Kind::Relational if candidates.len() <= MAX_ANSWERS => (Vec::new(), candidates),
            Kind::Relational => return self.reject("has too many answers"),
            _ => {
                let max_answers = if stream.percent(80) { FEW_ANSWERS } else { MAX_ANSWERS };
                match self.properties.narrow(&candidates, gold, max_answers, stream) {
                    Some(narrowed) => narrowed,
                    None => return self.reject("has no words that narrow it"),
                }
            }
        };
        let Some(names) = self.mention(&slots, stream) else {
            return self.reject("has a slot that cannot be named");
        };
        let (properties, answers) = narrowed;
        let template = self.templates.get(template)?;
        let words: Vec<String> = properties.iter().map(|property| property.words.clone()).collect();
        let (text, style) = wording::question(&self.base.kb, template, &names, &words, stream);
        let template = template.id.clone();
        let votes = Vec::new();
        self.accept(Question {
            text,
            kind,
            style,
            template,
            slots,
            gold,
            properties,
            votes,
            answers,
        })
    }

    fn textual(&mut self, template: usize, stream: &mut Stream) -> Option<Question> {
        let kb = &self.base.kb;
        let target = self.templates.get(template)?.target;
        let nodes = kb.nodes_of_type(target);
        let gold = *nodes.get(stream.below(nodes.len()))?;
        let Some((properties, answers)) = self.properties.narrow_type(gold, FEW_ANSWERS, stream)
        else {
            return self.reject("has no words that narrow it");
        };
        let template = textual(target);
        let words: Vec<String> = properties.iter().map(|property| property.words.clone()).collect();
        let (text, style) = wording::question(kb, &template, &[], &words, stream);
        let (template, slots) = (format!("{} by words", kb.type_name(target)), Vec::new());
        let (kind, votes) = (Kind::Textual, Vec::new());
        self.accept(Question {
            text,
            kind,
            style,
            template,
            slots,
            gold,
            properties,
            votes,
            answers,
        })
    }
}

/// Returns the template of a textual question.
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

/// Draws the kind of the next question.
pub(super) fn kind(stream: &mut Stream) -> Kind {
    match stream.below(100) {
        draw if draw < RELATIONAL => Kind::Relational,
        draw if draw < RELATIONAL + TEXTUAL => Kind::Textual,
        _ => Kind::Fused,
    }
}

/// Makes at most `wanted` questions about a base, in the order drawn, and returns them with the
/// rejected draws. The same base, templates and seed give the same questions.
pub(super) fn construct(
    base: &IndexedBase,
    templates: &[Template],
    wanted: usize,
    seed: u64,
    watch: &mut Watch<'_>,
) -> Result<(Vec<Question>, DropCounts, Option<Interruption>), SynthError> {
    let mut maker = QuestionMaker::new(base, templates);
    let mut questions = Vec::new();
    let mut stream = Stream::new(seed, "questions", 0);
    for _ in 0..wanted.saturating_mul(ATTEMPTS / DRAWS) {
        if questions.len() == wanted {
            break;
        }
        watch.report("questions", questions.len(), wanted)?;
        // The kind is drawn first, so that kinds that are hard to make do not become rare.
        let kind = kind(&mut stream);
        questions.extend((0..DRAWS).find_map(|_| maker.try_question(kind, &mut stream)));
    }
    watch.report("questions", wanted, wanted)?;
    Ok((questions, maker.dropped, None))
}
