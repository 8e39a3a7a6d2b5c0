//! Generates questions about many nodes, of all eight kinds, with exact answers, for any base that
//! has numbers.
//!
//! The answers are computed directly from the cells of columns, without SQL and without reading the
//! question, so that they can test both. A question is kept only if its answer is unambiguous: few
//! names tie, and no name is shared by two nodes of a type.
//!
//! Does not depend on how questions are read.

mod facts;

use std::{collections::BTreeSet, path::Path, sync::atomic::Ordering};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use self::facts::{Group, Rows, types_of_rows};
use crate::{
    answer::{LEVEL, table_of, value_of_names},
    kind::Kind,
};
use agent_dataset::SYNTHETIC;
use agent_index::IndexedBase;
use agent_kb::{
    answer::{AnswerValue, Cell},
    table::statistics::{self, Moments, quantile},
};
use agent_retrieve::eval::values::is_same_number;
use agent_synth::{self as synth, SynthError, Watch};

/// Number of consecutive attempts without a new question after which no more questions of the kind
/// are drawn.
const ATTEMPTS: usize = 400;
/// Minimum number of rows or numbers that most questions must be about.
const MIN_ROWS: usize = 5;
/// Maximum number of names that may tie for the first place in an answer.
const MAX_TIED: usize = 3;
/// Maximum number of rows in a table that is an answer.
const MAX_TABLE: usize = 200;
/// The columns of the file `qa.csv`, in order.
const COLUMNS: [&str; 9] =
    ["id", "query", "answer_ids", "answer_value", "kind", "template", "rows", "source", "seed"];
/// Percentages by which questions assume that numbers rise.
const PERCENTS: [u32; 4] = [5, 10, 20, 50];

/// A question about many nodes, with its correct answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Kind of the question.
    pub kind: Kind,
    /// Name of the wording pattern of the question; several questions share a pattern.
    pub template: String,
    /// Name of the type of the rows, in words.
    pub rows: String,
    /// Text of the question.
    pub text: String,
    /// The answer: a number, a truth value, a text or a table.
    pub answer: AnswerValue,
}

/// The questions that one call of [`synthesize`] generated.
#[derive(Clone, Debug, PartialEq)]
pub struct Questions {
    /// The questions, grouped by kind in the order of [`Kind::ALL`].
    pub all: Vec<Question>,
    seed: u64,
}

/// Generates `n` questions, about equally many of each kind; fewer if no new question of a kind is
/// found. The same base, `n` and seed give the same questions.
///
/// # Errors
/// [`SynthError::Number`] if `n` is out of range; [`SynthError::NoNumbers`] if no type of the base
/// has enough numbers; [`SynthError::Stopped`] if the stop flag of `watch` is set.
pub fn synthesize(
    base: &IndexedBase,
    n: usize,
    seed: u64,
    watch: &mut Watch<'_>,
) -> Result<Questions, SynthError> {
    if !(1..=synth::MAX_QUERIES).contains(&n) {
        return Err(SynthError::Number(n));
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let facts = types_of_rows(base);
    if facts.is_empty() {
        return Err(SynthError::NoNumbers);
    }
    let mut all: Vec<Question> = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (place, kind) in Kind::ALL.into_iter().enumerate() {
        let wanted = n / Kind::ALL.len() + usize::from(place < n % Kind::ALL.len());
        let (mut made, mut failed) = (0, 0);
        while made < wanted && failed < ATTEMPTS {
            if watch.stop.load(Ordering::Relaxed) {
                return Err(SynthError::Stopped);
            }
            let drawn = Maker { facts: &facts, rng: &mut rng }.question(kind);
            match drawn.filter(|question| !known.contains(&question.text)) {
                Some(question) => {
                    known.insert(question.text.clone());
                    all.push(question);
                    (made, failed) = (made + 1, 0);
                    (watch.progress)("questions", all.len(), n);
                }
                None => failed += 1,
            }
        }
    }
    Ok(Questions { all, seed })
}

impl Questions {
    /// Returns the number of questions in the training, validation and test split, in this order.
    pub fn splits(&self) -> [usize; 3] {
        synth::split_sizes(&self.assigned())
    }

    /// Returns the index of each question's split. Of each wording pattern, 60 percent of the
    /// questions are for training, 20 for validation, 20 for testing.
    fn assigned(&self) -> Vec<usize> {
        synth::splits(self.all.iter().map(|one| one.template.as_str()))
    }

    /// Writes the questions to the file `qa.csv` and their splits to files in `split/`, all in the
    /// directory `dir`; none of these files may exist.
    ///
    /// # Errors
    /// [`SynthError::Write`] if one of the files exists or cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), SynthError> {
        let seed = self.seed.to_string();
        let rows = (0..).zip(&self.all).map(|(id, one): (usize, _)| {
            let answer = serde_json::to_string(&one.answer)?;
            let (id, kind) = (id.to_string(), one.kind.name());
            let row = [&id, &one.text, "[]", &answer, kind, &one.template, &one.rows];
            let row = row.into_iter().chain([SYNTHETIC, &seed]);
            Ok(row.map(str::to_owned).collect())
        });
        synth::write_files(dir, &COLUMNS, rows.collect(), &self.assigned())
    }
}

/// A question without its kind and its type of rows: the name of its wording pattern, its text and
/// its answer. `None` if no question can be made from the drawn facts.
type Draft = Option<(&'static str, String, AnswerValue)>;

fn single(value: impl Into<Cell>) -> AnswerValue {
    value.into().into()
}

/// Draws random questions from the facts of a base.
struct Maker<'a> {
    facts: &'a [Rows],
    rng: &'a mut ChaCha8Rng,
}

/// A condition of a question: its words, and the indexes of the rows that satisfy it.
struct Condition {
    words: String,
    rows: Vec<usize>,
}

impl Maker<'_> {
    fn question(&mut self, kind: Kind) -> Option<Question> {
        let of = self.pick(self.facts)?;
        let (template, text, answer) = match kind {
            Kind::Aggregation => self.aggregation(of),
            Kind::Superlative => self.superlative(of),
            Kind::Intercomparison => self.comparison(of),
            Kind::Distribution => self.distribution(of),
            Kind::Correlation => self.correlation(of),
            Kind::Variance => self.variance(of),
            Kind::Descriptive => self.relation(of),
            Kind::Hypothetical => self.supposition(of),
        }?;
        let template = format!("{} {template}", kind.name());
        Some(Question { kind, template, rows: of.words.0.clone(), text, answer })
    }

    fn pick<'t, T>(&mut self, from: &'t [T]) -> Option<&'t T> {
        if from.is_empty() { None } else { from.get(self.rng.random_range(0..from.len())) }
    }

    fn chance(&mut self, of: u32) -> bool {
        self.rng.random_range(0..of) == 0
    }

    /// Draws the condition of a question: all rows (without words), or the rows with one value of a
    /// group. If `often`, all rows are drawn only if there are no groups. `None` if the drawn value
    /// has too few rows.
    fn condition(&mut self, of: &Rows, often: bool) -> Option<Condition> {
        let all = || Condition { words: String::new(), rows: (0..of.names.len()).collect() };
        if !often && self.chance(2) || of.groups.is_empty() {
            return Some(all());
        }
        let group = self.pick(&of.groups)?;
        let (name, rows) = self.one(group)?;
        (rows.len() >= MIN_ROWS).then(|| Condition {
            words: format!(" with the {} \"{name}\"", group.word),
            rows: rows.clone(),
        })
    }

    /// Draws a percentile of `numbers` between the 20th and the 80th; returns its value, rounded to
    /// one decimal place.
    fn threshold(&mut self, numbers: &[f64]) -> Option<f64> {
        let mut sorted = numbers.to_vec();
        let share = f64::from(self.rng.random_range(20..80)) / 100.0;
        let at = quantile(&mut sorted, share)?;
        Some((at * 10.0).round() / 10.0)
    }

    fn aggregation(&mut self, of: &Rows) -> Draft {
        let Condition { words, rows } = &self.condition(of, false)?;
        let types = &of.words.1;
        match self.rng.random_range(0..4) {
            0 => {
                let question = format!("How many {types}{words} are there?");
                Some(("count", question, single(rows.len() as f64)))
            }
            1 => {
                let column = self.pick(&of.numbers)?;
                let numbers = column.of(rows);
                let at = self.threshold(&numbers)?;
                let n = numbers.iter().filter(|number| **number > at).count();
                let question =
                    format!("How many {types}{words} have a {} above {at}?", column.word);
                (n > 0).then(|| ("count above", question, single(n as f64)))
            }
            2 if !of.groups.is_empty() => {
                let (column, group) = (self.pick(&of.numbers)?, self.pick(&of.groups)?);
                let means = group.numbers(|rows| column.mean(rows)).into_iter();
                let row = |(name, mean): (&str, f64)| vec![Cell::from(name), Cell::from(mean)];
                let rows: Vec<Vec<Cell>> = means.map(row).collect();
                let fits = group.is_whole && (2..=MAX_TABLE).contains(&rows.len());
                let question =
                    format!("What is the mean {} of {types} for each {}?", column.word, group.word);
                let columns = vec![group.column.clone(), format!("mean_{}", column.column)];
                fits.then(|| ("mean by group", question, table_of(columns, rows)))
            }
            _ => {
                let column = self.pick(&of.numbers)?;
                let mut numbers = column.of(rows);
                let moments = Moments::of(&numbers);
                let (word, value) = match self.rng.random_range(0..5) {
                    0 => ("mean", moments.mean()?),
                    1 => ("median", quantile(&mut numbers, 0.5)?),
                    2 => ("total", numbers.iter().sum()),
                    3 => ("highest", numbers.iter().copied().reduce(f64::max)?),
                    _ => ("standard deviation of the", moments.variance()?.sqrt()),
                };
                let question = format!("What is the {word} {} of {types}{words}?", column.word);
                (numbers.len() >= MIN_ROWS).then(|| ("one number", question, single(value)))
            }
        }
    }

    /// Returns the names with the largest number if `high`, else with the smallest. `None` if more
    /// than [`MAX_TIED`] names have that number, or if another number is almost equal.
    fn first(named: &[(&str, f64)], high: bool) -> Option<Vec<String>> {
        let numbers = named.iter().map(|(_, number)| *number);
        let best = if high { numbers.reduce(f64::max) } else { numbers.reduce(f64::min) }?;
        let first = named.iter().filter(|(_, number)| *number == best);
        let first: Vec<String> = first.map(|(name, _)| (*name).to_owned()).collect();
        // Sums may differ in their last digits if they are added in another order.
        let near = named.iter().filter(|(_, number)| is_same_number(*number, best)).count();
        (first.len() <= MAX_TIED && near == first.len()).then_some(first)
    }

    fn superlative(&mut self, of: &Rows) -> Draft {
        let high = self.chance(2);
        let way = if high { "highest" } else { "lowest" };
        let (kind, types) = &of.words;
        let (template, question, first) = match self.rng.random_range(0..3) {
            0 => {
                let Condition { words, rows } = self.condition(of, true)?;
                let column = self.pick(&of.numbers)?;
                let number = |row: &usize| Some((of.names.get(*row)?.as_str(), column.at(*row)?));
                let named: Vec<(&str, f64)> = rows.iter().filter_map(number).collect();
                let question = format!("Which {kind}{words} has the {way} {}?", column.word);
                ("row", question, Self::first(&named, high))
            }
            1 => {
                let group = self.pick(&of.groups).filter(|group| group.is_whole)?;
                let named = group.numbers(|rows| Some(rows.len() as f64));
                let question = format!("Which {} has the most {types}?", group.word);
                ("most rows", question, Self::first(&named, true))
            }
            _ => {
                let group = self.pick(&of.groups).filter(|group| group.is_whole)?;
                let column = self.pick(&of.numbers)?;
                let named = group.numbers(|rows| column.mean(rows));
                let question = format!(
                    "Which {} has the {way} mean {} among {types}?",
                    group.word, column.word
                );
                ("mean of groups", question, Self::first(&named, high))
            }
        };
        Some((template, question, value_of_names(&first?)))
    }

    /// Draws a value that a question can name from a group; returns the value with its rows.
    fn one<'t>(&mut self, group: &'t Group) -> Option<&'t (String, Vec<usize>)> {
        group.values.get(*self.pick(&group.named)?)
    }

    /// Draws two values that a question can name from a group, each with its rows; `None` if both
    /// draws give the same value.
    fn two<'t>(&mut self, group: &'t Group) -> Option<[&'t (String, Vec<usize>); 2]> {
        let (one, other) = (self.one(group)?, self.one(group)?);
        (one.0 != other.0).then_some([one, other])
    }

    fn comparison(&mut self, of: &Rows) -> Draft {
        let high = self.chance(2);
        let way = if high { "higher" } else { "lower" };
        let (kind, types) = &of.words;
        let (template, question, named) = match self.rng.random_range(0..3) {
            0 => {
                let (group, column) = (self.pick(&of.groups)?, self.pick(&of.numbers)?);
                let [(one, rows), (other, others)] = self.two(group)?;
                let named = [(&**one, column.mean(rows)?), (&**other, column.mean(others)?)];
                let word = &group.word;
                let question = format!(
                    "Which {word} has the {way} mean {} among {types}, the {word} \"{one}\" or the {word} \"{other}\"?",
                    column.word
                );
                ("means", question, named)
            }
            1 => {
                let group = self.pick(&of.groups)?;
                let [(one, rows), (other, others)] = self.two(group)?;
                let word = &group.word;
                let question = format!(
                    "Are there more {types} with the {word} \"{one}\" than with the {word} \"{other}\"?"
                );
                return Some(("numbers of rows", question, single(rows.len() > others.len())));
            }
            _ => {
                let column = self.pick(&of.numbers)?;
                let mut one = || {
                    let row = self.rng.random_range(0..of.names.len());
                    let name = of.names.get(row).filter(|name| of.is_one_name(name))?;
                    Some((name.as_str(), column.at(row)?))
                };
                let [(one, number), (other, second)] = [one()?, one()?];
                let question = format!(
                    "Which {kind} has the {way} {}, \"{one}\" or \"{other}\"?",
                    column.word
                );
                ("rows", question, [(one, number), (other, second)])
            }
        };
        let first = Self::first(&named, high).filter(|first| first.len() == 1)?;
        Some((template, question, value_of_names(&first)))
    }

    fn distribution(&mut self, of: &Rows) -> Draft {
        let (condition, column) = (self.condition(of, true)?, self.pick(&of.numbers)?);
        let tested = statistics::normality(&column.of(&condition.rows)).ok()?;
        let (types, words, number) = (&of.words.1, &condition.words, &column.word);
        let question = match self.chance(2) {
            true => format!("Does the {number} of {types}{words} follow a normal distribution?"),
            false => format!("Is the {number} of {types}{words} normally distributed?"),
        };
        Some(("normal", question, single(tested.p >= LEVEL)))
    }

    /// Draws two columns of numbers. Returns their names in words, and the numbers of each in the
    /// given rows that have both. `None` if both draws give the same column, or too few rows have
    /// both.
    fn both(&mut self, of: &Rows, rows: &[usize]) -> Option<([String; 2], Vec<f64>, Vec<f64>)> {
        let (one, other) = (self.pick(&of.numbers)?, self.pick(&of.numbers)?);
        let has = |row: &usize| Some((one.at(*row)?, other.at(*row)?));
        let (ones, others): (Vec<f64>, Vec<f64>) = rows.iter().filter_map(has).unzip();
        let fits = one.word != other.word && ones.len() >= MIN_ROWS;
        fits.then(|| ([one.word.clone(), other.word.clone()], ones, others))
    }

    fn correlation(&mut self, of: &Rows) -> Draft {
        let Condition { words, rows } = self.condition(of, false)?;
        let ([one, other], ones, others) = self.both(of, &rows)?;
        let types = &of.words.1;
        let wording = self.rng.random_range(0..3);
        let question = match wording {
            0 => format!(
                "Is there a linear correlation between the {one} and the {other} of {types}{words}?"
            ),
            1 => format!("Is the {one} of {types}{words} correlated with their {other}?"),
            _ => format!("Do the {one} and the {other} of {types}{words} correlate by rank?"),
        };
        let (template, tested) = match wording {
            0 | 1 => ("linear", statistics::pearson(&ones, &others)),
            _ => ("ranks", statistics::spearman(&ones, &others)),
        };
        Some((template, question, single(tested.ok()?.p < LEVEL)))
    }

    fn variance(&mut self, of: &Rows) -> Draft {
        let types = &of.words.1;
        if self.chance(3) {
            let Condition { words, rows } = self.condition(of, false)?;
            let (one, other) = (self.pick(&of.numbers)?, self.pick(&of.numbers)?);
            let tested = statistics::f_test(&one.of(&rows), &other.of(&rows)).ok();
            let tested = tested.filter(|_| one.word != other.word)?;
            let question = format!(
                "Are the variances of the {} and the {} of {types}{words} significantly different?",
                one.word, other.word
            );
            return Some(("two columns", question, single(tested.p < LEVEL)));
        }
        let (group, column) = (self.pick(&of.groups)?, self.pick(&of.numbers)?);
        let (group_word, word) = (&group.word, &column.word);
        let (template, question, samples) = if self.chance(2) {
            let [(one, rows), (other, others)] = self.two(group)?;
            let samples = vec![column.of(rows), column.of(others)];
            if samples.iter().any(|sample| sample.len() < MIN_ROWS) {
                return None;
            }
            let question = format!(
                "Do the variances of the {word} of {types} differ between the {group_word} \"{one}\" and the {group_word} \"{other}\"?"
            );
            ("two groups", question, samples)
        } else {
            let mut samples = group.samples(column)?;
            samples.retain(|sample| sample.len() > 1);
            let question = format!(
                "Does the spread of the {word} of {types} differ from {group_word} to {group_word}?"
            );
            ("all groups", question, samples)
        };
        let tested = statistics::brown_forsythe(&samples).ok()?;
        Some((template, question, single(tested.p < LEVEL)))
    }

    fn relation(&mut self, of: &Rows) -> Draft {
        let types = &of.words.1;
        if self.chance(3) {
            let Condition { words, rows } = self.condition(of, false)?;
            let ([one, other], ones, others) = self.both(of, &rows)?;
            let tested = statistics::spearman(&ones, &others).ok()?;
            let question = format!("How is the {one} of {types}{words} related to their {other}?");
            return Some(("two numbers", question, single(tested.p < LEVEL)));
        }
        let (group, column) = (self.pick(&of.groups)?, self.pick(&of.numbers)?);
        let tested = statistics::kruskal_wallis(&group.samples(column)?).ok()?;
        let question =
            format!("How is the {} of {types} related to their {}?", group.word, column.word);
        Some(("number and group", question, single(tested.p < LEVEL)))
    }

    fn supposition(&mut self, of: &Rows) -> Draft {
        let types = &of.words.1;
        if self.chance(2) {
            let group = self.pick(&of.groups)?;
            let (name, without) = self.one(group)?;
            let left: Vec<usize> =
                (0..of.names.len()).filter(|row| without.binary_search(row).is_err()).collect();
            let those = format!("those with the {} \"{name}\"", group.word);
            if self.chance(3) {
                let question =
                    format!("If {those} were left out, how many {types} would there be?");
                return Some(("count without", question, single(left.len() as f64)));
            }
            let column = self.pick(&of.numbers)?;
            let question = format!(
                "What would the mean {} of {types} be if {those} were left out?",
                column.word
            );
            return Some(("mean without", question, single(column.mean(&left)?)));
        }
        let Condition { words, rows } = self.condition(of, false)?;
        let column = self.pick(&of.numbers)?;
        let percent = *self.pick(&PERCENTS)?;
        let numbers = column.of(&rows);
        let word = &column.word;
        let scaled: Vec<f64> =
            numbers.iter().map(|number| number * (1.0 + f64::from(percent) / 100.0)).collect();
        if self.chance(2) {
            let at = self.threshold(&numbers)?;
            let n = scaled.iter().filter(|number| **number > at).count();
            let question = format!(
                "If every {word} were {percent} % higher, how many {types}{words} would have a {word} above {at}?"
            );
            return (n > 0).then(|| ("count changed", question, single(n as f64)));
        }
        let mean = Moments::of(&scaled).mean()?;
        let question = format!(
            "What would the mean {word} of {types}{words} be if every {word} were {percent} % higher?"
        );
        Some(("mean changed", question, single(mean)))
    }
}
