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

use self::facts::{Group, Numbers, Rows, types_of_rows};
use crate::{
    answer::{LEVEL, table_of, value_of_names},
    kind::Kind,
};
use agent_dataset::SYNTHETIC;
use agent_index::IndexedBase;
use agent_kb::{
    answer::{AnswerValue, Cell},
    table::statistics::{self, Moments, TestResult, quantile},
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
            match question(&facts, &mut rng, kind)
                .filter(|question| !known.contains(&question.text))
            {
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

/// Wording patterns, one per line: the kind of the questions, the name of the pattern, and the text
/// with the names of facts in braces.
const PATTERNS: &str = include_str!("synthesize/patterns.tsv");

/// Computes a statistic of numbers, which may be reordered; `None` if it has no value.
type Statistic = fn(&mut [f64]) -> Option<f64>;

/// Functions of numbers, with their words.
const FUNCTIONS: [(&str, Statistic); 5] = [
    ("mean", |numbers| Moments::of(numbers).mean()),
    ("median", |numbers| quantile(numbers, 0.5)),
    ("total", |numbers| Some(numbers.iter().sum())),
    ("highest", |numbers| numbers.iter().copied().reduce(f64::max)),
    ("standard deviation of the", |numbers| Some(Moments::of(numbers).variance()?.sqrt())),
];

/// A value of a group, with the indexes of its rows.
type Value = (String, Vec<usize>);

/// The facts that were drawn for one question.
struct Facts<'a> {
    of: &'a Rows,
    /// Whether the question is about the rows with the first of `values`, instead of all rows.
    is_part: bool,
    /// Indexes of the rows that the question is about.
    rows: Vec<usize>,
    number: &'a Numbers,
    /// Another column of numbers; `None` if the same column was drawn twice.
    other: Option<&'a Numbers>,
    group: Option<&'a Group>,
    /// Two different values of `group` that a question can name.
    values: Option<[&'a Value; 2]>,
    /// Indexes of two rows.
    pair: [usize; 2],
    high: bool,
    function: usize,
    percent: u32,
    /// A number between the 20th and the 80th percentile, rounded to one decimal place.
    at: f64,
}

fn single(value: impl Into<Cell>) -> Option<AnswerValue> {
    Some(value.into().into())
}

fn significant<E>(tested: Result<TestResult, E>) -> Option<AnswerValue> {
    single(tested.ok()?.p < LEVEL)
}

/// Returns the names with the largest number if `high`, else with the smallest. `None` if more than
/// [`MAX_TIED`] names have that number, or if another number is almost equal.
fn first(named: &[(String, f64)], high: bool) -> Option<AnswerValue> {
    let numbers = named.iter().map(|(_, number)| *number);
    let best = if high { numbers.reduce(f64::max) } else { numbers.reduce(f64::min) }?;
    let first = named.iter().filter(|(_, number)| *number == best);
    let first: Vec<String> = first.map(|(name, _)| name.clone()).collect();
    // Sums may differ in their last digits if they are added in another order.
    let near = named.iter().filter(|(_, number)| is_same_number(*number, best)).count();
    (first.len() <= MAX_TIED && near == first.len()).then(|| value_of_names(&first))
}

fn pick<'t, T>(rng: &mut ChaCha8Rng, from: &'t [T]) -> Option<&'t T> {
    if from.is_empty() { None } else { from.get(rng.random_range(0..from.len())) }
}

/// Draws a question of a kind; `None` if the drawn facts do not suit the drawn pattern.
fn question(all: &[Rows], rng: &mut ChaCha8Rng, kind: Kind) -> Option<Question> {
    let of_kind =
        |line: &'static str| line.strip_prefix(kind.name())?.trim_start().split_once('\t');
    let patterns: Vec<(&str, &str)> = PATTERNS.lines().filter_map(of_kind).collect();
    let (name, text) = *pick(rng, &patterns)?;
    let facts = Facts::draw(all, rng)?;
    let (text, answer) = (facts.written(text)?, facts.answer(name)?);
    let template = format!("{} {name}", kind.name());
    Some(Question { kind, template, rows: facts.of.words.0.clone(), text, answer })
}

impl<'a> Facts<'a> {
    fn draw(all: &'a [Rows], rng: &mut ChaCha8Rng) -> Option<Self> {
        let of = pick(rng, all)?;
        let (number, other) = (pick(rng, &of.numbers)?, pick(rng, &of.numbers)?);
        // The number of a row's colors by color is a question that nobody asks.
        let is_own = |group: &&Group| number.column == format!("n_{}", group.column);
        let group = pick(rng, &of.groups).filter(|group| !is_own(group));
        let mut value = || group.and_then(|own| own.values.get(*pick(rng, &own.named)?));
        let values = value().zip(value()).map(|(one, two)| [one, two]);
        let values = values.filter(|[one, two]| one.0 != two.0);
        let part = values.filter(|_| rng.random_range(0..2) == 0).map(|[one, _]| one.1.clone());
        let n = of.names.len();
        let rows = part.clone().unwrap_or_else(|| (0..n).collect());
        let share = f64::from(rng.random_range(20..80)) / 100.0;
        let at = quantile(&mut number.of(&rows), share)?;
        Some(Self {
            of,
            is_part: part.is_some(),
            rows,
            number,
            other: Some(other).filter(|other| other.word != number.word),
            group,
            values,
            pair: [rng.random_range(0..n), rng.random_range(0..n)],
            high: rng.random_range(0..2) == 0,
            function: rng.random_range(0..FUNCTIONS.len()),
            percent: *pick(rng, &PERCENTS)?,
            at: (at * 10.0).round() / 10.0,
        })
    }

    /// Writes the text of a pattern with these facts; `None` if one of them is missing.
    fn written(&self, pattern: &str) -> Option<String> {
        let mut parts = pattern.split(['{', '}']);
        let mut text = parts.next()?.to_owned();
        while let (Some(fact), Some(next)) = (parts.next(), parts.next()) {
            text += &self.word(fact)?;
            text += next;
        }
        Some(text)
    }

    fn word(&self, fact: &str) -> Option<String> {
        let value = |at: usize| self.values.map(|values| values[at].0.clone());
        let way = |high: &str, low: &str| if self.high { high.to_owned() } else { low.to_owned() };
        Some(match fact {
            "type" => self.of.words.0.clone(),
            "types" => self.of.words.1.clone(),
            "where" if self.is_part => format!(" with the {} \"{}\"", self.group?.word, value(0)?),
            "where" => String::new(),
            "number" => self.number.word.clone(),
            "other" => self.other?.word.clone(),
            "group" => self.group?.word.clone(),
            "one" => value(0)?,
            "two" => value(1)?,
            "row" => self.named(self.pair[0])?.to_owned(),
            "other row" => self.named(self.pair[1])?.to_owned(),
            "most" => way("highest", "lowest"),
            "more" => way("higher", "lower"),
            "function" => FUNCTIONS[self.function].0.to_owned(),
            "percent" => self.percent.to_string(),
            "at" => self.at.to_string(),
            _ => return None,
        })
    }

    /// Computes the answer to a question with the pattern `name`; `None` if the facts do not suit.
    fn answer(&self, name: &str) -> Option<AnswerValue> {
        let (number, rows) = (self.number, &self.rows);
        let mean = |rows: &[usize]| number.mean(rows);
        let of_value = |value: &Value| Some((value.0.clone(), mean(&value.1)?));
        let of_row = |row: usize| Some((self.named(row)?.to_owned(), number.at(row)?));
        match name {
            "count" => single(rows.len() as f64),
            "count above" => self.count_above(1.0),
            "count changed" => self.count_above(self.factor()),
            "count without" => single(self.without()?.len() as f64),
            "mean without" => single(mean(&self.without()?)?),
            "mean changed" => {
                let numbers = self.numbers().into_iter().map(|number| number * self.factor());
                single(Moments::of(&numbers.collect::<Vec<f64>>()).mean()?)
            }
            "mean by group" => self.means(),
            "one number" => {
                let mut numbers = self.numbers();
                let value = FUNCTIONS[self.function].1(&mut numbers)?;
                single(value).filter(|_| numbers.len() >= MIN_ROWS)
            }
            "row" => {
                let named =
                    |row: &usize| Some((self.of.names.get(*row)?.clone(), number.at(*row)?));
                first(&rows.iter().filter_map(named).collect::<Vec<_>>(), self.high)
            }
            "most rows" => first(&self.whole()?.numbers(|rows| Some(rows.len() as f64)), true),
            "mean of groups" => first(&self.whole()?.numbers(mean), self.high),
            "means" => {
                let [one, two] = self.values?;
                self.better([of_value(one)?, of_value(two)?])
            }
            "rows" => self.better([of_row(self.pair[0])?, of_row(self.pair[1])?]),
            "numbers of rows" => {
                self.values.and_then(|[one, two]| single(one.1.len() > two.1.len()))
            }
            "normal" => single(statistics::normality(&self.numbers()).ok()?.p >= LEVEL),
            "linear" => self.both(statistics::pearson),
            "ranks" | "two numbers" => self.both(statistics::spearman),
            "two columns" => {
                significant(statistics::f_test(&self.numbers(), &self.other?.of(rows)))
            }
            "two groups" => {
                let samples = self.values?.map(|value| number.of(&value.1));
                let fits = samples.iter().all(|sample| sample.len() >= MIN_ROWS);
                significant(statistics::brown_forsythe(&samples)).filter(|_| fits)
            }
            "all groups" => {
                let mut samples = self.group?.samples(number)?;
                samples.retain(|sample| sample.len() > 1);
                significant(statistics::brown_forsythe(&samples))
            }
            "number and group" => {
                significant(statistics::kruskal_wallis(&self.group?.samples(number)?))
            }
            _ => None,
        }
    }

    /// Returns the numbers of the rows that the question is about.
    fn numbers(&self) -> Vec<f64> {
        self.number.of(&self.rows)
    }

    /// Returns the name of a row, if a question can name it.
    fn named(&self, row: usize) -> Option<&str> {
        self.of.names.get(row).filter(|name| self.of.is_one_name(name)).map(String::as_str)
    }

    /// Returns the group, if it has all its values.
    fn whole(&self) -> Option<&Group> {
        self.group.filter(|group| group.is_whole)
    }

    fn factor(&self) -> f64 {
        1.0 + f64::from(self.percent) / 100.0
    }

    /// Counts the numbers that are above the drawn number after they are multiplied by `times`.
    fn count_above(&self, times: f64) -> Option<AnswerValue> {
        let n = self.numbers().iter().filter(|number| **number * times > self.at).count();
        (n > 0).then(|| single(n as f64)).flatten()
    }

    fn means(&self) -> Option<AnswerValue> {
        let group = self.whole()?;
        let means = group.numbers(|rows| self.number.mean(rows)).into_iter();
        let row = |(name, mean): (String, f64)| vec![Cell::from(name.as_str()), Cell::from(mean)];
        let rows: Vec<Vec<Cell>> = means.map(row).collect();
        let columns = vec![group.column.clone(), format!("mean_{}", self.number.column)];
        (2..=MAX_TABLE).contains(&rows.len()).then(|| table_of(columns, rows))
    }

    /// Returns the one name of two that has the larger number (the smaller, unless `high`).
    fn better(&self, named: [(String, f64); 2]) -> Option<AnswerValue> {
        (named[0].1 != named[1].1).then(|| first(&named, self.high)).flatten()
    }

    /// Tests the numbers of the rows that have both columns of numbers.
    fn both<E>(&self, test: fn(&[f64], &[f64]) -> Result<TestResult, E>) -> Option<AnswerValue> {
        let other = self.other?;
        let both = |row: &usize| Some((self.number.at(*row)?, other.at(*row)?));
        let (ones, others): (Vec<f64>, Vec<f64>) = self.rows.iter().filter_map(both).unzip();
        (ones.len() >= MIN_ROWS).then(|| significant(test(&ones, &others))).flatten()
    }

    /// Returns the rows without the first value.
    fn without(&self) -> Option<Vec<usize>> {
        let [(_, without), _] = self.values?;
        Some((0..self.of.names.len()).filter(|row| without.binary_search(row).is_err()).collect())
    }
}
