//! Makes questions without a model. Fills the slots of a template, follows its metapaths to the
//! candidates, and picks a gold answer. The answers are the candidates that have some words of the
//! gold answer's document. The question is then worded by a pattern.
//!
//! Source: the construction of STaRK (Wu et al. 2024, section 2.4). There, models extract and check
//! properties; here, words of documents take the place of properties.

use std::collections::{BTreeMap, HashSet};

use crate::{
    MAX_ANSWERS, Property, Question, SynthError, Watch,
    discover::{slots_of, starts},
    mention::{Mentions, folded},
    properties::Properties,
    template::Template,
    wording::{self, Kind},
};
use agent_dataset::sample::random::Stream;
use agent_index::IndexedBase;
use agent_kb::{NodeId, metapath::Step};
use agent_llm::LlmError;

/// Maximum number of candidates of a filled template; with more, the relations would hardly narrow
/// the answers.
pub(super) const MAX_CANDIDATES: usize = 2_000;
/// Maximum number of draws, each of a filled template, per requested question.
const ATTEMPTS: usize = 60;
/// Maximum number of draws for one kind of question before another kind is drawn, because a base
/// without texts has questions about relations only.
const DRAWS: usize = 15;
/// Percentage of questions about relations only.
const RELATIONAL: usize = 15;
/// Percentage of questions about words of documents only.
const TEXTUAL: usize = 15;
/// Maximum number of answers of most questions with words, because people usually ask for a few
/// nodes.
const FEW_ANSWERS: usize = 5;
/// Percentage of draws that fill the slot of a one-slot template with any node; the other draws
/// start at an answer and follow the metapath back.
const ANY_SLOT: usize = 40;

/// Number of rejected draws by reason.
pub type DropCounts = BTreeMap<&'static str, usize>;

/// A template whose slots have been filled, with the resulting candidates.
pub(super) struct Grounding {
    /// Nodes that fill the slots, in the order of the template's slots.
    pub(super) slots: Vec<NodeId>,
    /// Nodes that meet the conditions of all branches, ascending.
    pub(super) candidates: Vec<NodeId>,
}

/// A question that is not put into words yet.
struct Draft {
    /// The template; without slots and branches for a question about words of documents only.
    template: Template,
    slots: Vec<NodeId>,
    /// Mentions of the slot nodes.
    names: Vec<String>,
    gold: NodeId,
    properties: Vec<Property>,
    answers: Vec<NodeId>,
}

/// Makes questions about one base, and remembers the accepted questions.
pub(super) struct QuestionMaker<'a> {
    pub(super) base: &'a IndexedBase,
    pub(super) templates: &'a [Template],
    /// For each template, the sum of its weight and the weights of all templates before it.
    cumulated: Vec<f64>,
    /// Nodes that can fill the first slot, by index of the template; computed on demand.
    starts: BTreeMap<usize, Vec<NodeId>>,
    pub(super) mentions: Mentions<'a>,
    pub(super) properties: Properties<'a>,
    /// Folded texts of the accepted questions: in lower case, without accents and punctuation.
    texts: HashSet<String>,
    /// Template id, slots and answers of each accepted question, to detect rewordings.
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

    /// Draws the index of a template with a probability proportional to its weight; `None` if there
    /// are no templates.
    pub(super) fn draw(&self, stream: &mut Stream) -> Option<usize> {
        let point = stream.unit() * self.cumulated.last()?;
        Some(self.cumulated.partition_point(|&sum| sum <= point).min(self.templates.len() - 1))
    }

    /// Fills the slots of a template: with any node that can start the metapath, or by following
    /// the metapaths back from any answer. `None` if no slots are found, or if there are no
    /// candidates or more than [`MAX_CANDIDATES`].
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

    /// Counts a rejected draw under its reason; returns `None`.
    pub(super) fn reject<T>(&mut self, reason: &'static str) -> Option<T> {
        *self.dropped.entry(reason).or_default() += 1;
        None
    }

    /// Returns the question, and remembers it. Returns `None` if the question contains the name of
    /// an answer or repeats another question.
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

    /// Makes a question of the given kind from one draw; `None` if the draw is rejected.
    fn try_question(&mut self, kind: Kind, stream: &mut Stream) -> Option<Question> {
        let template = self.draw(stream)?;
        let drawn = match kind {
            Kind::Textual => self.textual(template, stream),
            _ => self.related(template, kind, stream),
        };
        let Draft { template, slots, names, gold, properties, answers } = drawn?;
        let words: Vec<String> = properties.iter().map(|property| property.words.clone()).collect();
        let (text, style) = wording::question(&self.base.kb, &template, &names, &words, stream);
        let (template, votes) = (template.id, Vec::new());
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

    fn related(&mut self, template: usize, kind: Kind, stream: &mut Stream) -> Option<Draft> {
        let Some(Grounding { slots, candidates }) = self.ground(template, stream) else {
            return self.reject("has no candidates, or too many");
        };
        let gold = stream.pick(&candidates);
        let (properties, answers) = match kind {
            Kind::Relational if candidates.len() <= MAX_ANSWERS => (Vec::new(), candidates),
            Kind::Relational => return self.reject("has too many answers"),
            _ => {
                let max_answers = if stream.percent(80) { FEW_ANSWERS } else { MAX_ANSWERS };
                match self.properties.narrow(Some(&candidates), gold, max_answers, stream) {
                    Some(narrowed) => narrowed,
                    None => return self.reject("has no words that narrow it"),
                }
            }
        };
        let names = slots.iter().map(|&slot| self.mentions.mention(slot, stream));
        let Some(names) = names.collect::<Option<Vec<String>>>() else {
            return self.reject("has a slot that cannot be named");
        };
        let template = self.templates.get(template)?.clone();
        Some(Draft { template, slots, names, gold, properties, answers })
    }

    fn textual(&mut self, template: usize, stream: &mut Stream) -> Option<Draft> {
        let kb = &self.base.kb;
        let target = self.templates.get(template)?.target;
        let nodes = kb.nodes_of_type(target);
        let gold = *nodes.get(stream.below(nodes.len()))?;
        let narrowed = self.properties.narrow(None, gold, FEW_ANSWERS, stream);
        let Some((properties, answers)) = narrowed else {
            return self.reject("has no words that narrow it");
        };
        let template = Template {
            id: format!("{} by words", kb.type_name(target)),
            target,
            slots: Vec::new(),
            branches: Vec::new(),
            exclude_slots: false,
            text: None,
            weight: 0.0,
        };
        let (slots, names) = (Vec::new(), Vec::new());
        Some(Draft { template, slots, names, gold, properties, answers })
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

/// Makes at most `wanted` questions about a base; returns the questions in the order drawn, and the
/// number of rejected draws by reason. The same base, templates and seed give the same questions.
pub(super) fn construct(
    base: &IndexedBase,
    templates: &[Template],
    wanted: usize,
    seed: u64,
    watch: &mut Watch<'_>,
) -> Result<(Vec<Question>, DropCounts, Option<LlmError>), SynthError> {
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
