//! SQL functions in addition to those of SQLite: variance, standard deviation, correlation, median,
//! quantiles, year, the beginning of a text, and the mathematical functions that SQLite lacks with
//! some build options.
//!
//! Aggregates skip rows in which an argument is not a number, and return null if too few rows
//! remain. The other functions return null where they are undefined.

use std::sync::Arc;

use rusqlite::{
    Connection, Error, Result,
    functions::{Aggregate, Context},
    types::ValueRef,
};

use crate::table::{
    database::FLAGS,
    statistics::{Moments, pearson_r, quantile},
    value::year,
    watch::Watch,
};

/// A statistic of aggregated numbers; `None` where it is undefined.
type MomentsFunction = fn(&Moments) -> Option<f64>;
/// A function of one number, such as a square root.
type UnaryFunction = fn(f64) -> f64;
type BinaryFunction = fn(f64, f64) -> f64;

/// Names of the functions that this module adds, separated by spaces.
pub(super) const NAMES: &str = "variance var_samp var_pop stddev stddev_samp stddev_pop std corr \
    median quantile percentile year left floor ceil ceiling sqrt exp ln log mod pow power";

/// Registers the functions of this module with a connection, whose limits `watch` enforces.
pub(super) fn register(connection: &Connection, watch: &Arc<Watch>) -> Result<()> {
    let spreads: [(&str, MomentsFunction); 7] = [
        ("variance", Moments::variance),
        ("var_samp", Moments::variance),
        ("var_pop", Moments::variance_of_all),
        ("stddev", |m| m.variance().map(f64::sqrt)),
        ("std", |m| m.variance().map(f64::sqrt)),
        ("stddev_samp", |m| m.variance().map(f64::sqrt)),
        ("stddev_pop", |m| m.variance_of_all().map(f64::sqrt)),
    ];
    for (name, of) in spreads {
        connection.create_aggregate_function(name, 1, FLAGS, Spread(of))?;
    }
    connection.create_aggregate_function("corr", 2, FLAGS, Correlation(watch.clone()))?;
    for (name, n_args, scale) in
        [("median", 1, 1.0), ("quantile", 2, 1.0), ("percentile", 2, 100.0)]
    {
        let function = Quantile { name, scale, watch: watch.clone() };
        connection.create_aggregate_function(name, n_args, FLAGS, function)?;
    }
    connection.create_scalar_function("year", 1, FLAGS, |context| {
        Ok(match context.get_raw(0) {
            ValueRef::Integer(number) => Some(number),
            ValueRef::Real(number) => Some(number as i64),
            ValueRef::Text(text) => year(&String::from_utf8_lossy(text)),
            _ => None,
        })
    })?;
    connection.create_scalar_function("left", 2, FLAGS, |context| {
        let text = match context.get_raw(0) {
            ValueRef::Integer(number) => Some(number.to_string()),
            ValueRef::Real(number) => Some(number.to_string()),
            ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        let most = number(context, 1).map(|most| most.max(0.0) as usize);
        Ok(text.zip(most).map(|(text, most)| text.chars().take(most).collect::<String>()))
    })?;
    let of_one: [(&str, UnaryFunction); 7] = [
        ("floor", f64::floor),
        ("ceil", f64::ceil),
        ("ceiling", f64::ceil),
        ("sqrt", f64::sqrt),
        ("exp", f64::exp),
        ("ln", f64::ln),
        ("log", f64::log10),
    ];
    for (name, of) in of_one {
        connection.create_scalar_function(name, 1, FLAGS, move |context| {
            Ok(number(context, 0).map(of).filter(|found| found.is_finite()))
        })?;
    }
    let of_two: [(&str, BinaryFunction); 3] =
        [("mod", |one, other| one % other), ("pow", f64::powf), ("power", f64::powf)];
    for (name, of) in of_two {
        connection.create_scalar_function(name, 2, FLAGS, move |context| {
            let both = number(context, 0).zip(number(context, 1));
            Ok(both.map(|(one, other)| of(one, other)).filter(|found| found.is_finite()))
        })?;
    }
    Ok(())
}

/// Returns the argument at `index`, from 0; `None` if it is not a number.
fn number(context: &Context<'_>, index: usize) -> Option<f64> {
    match context.get_raw(index) {
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        _ => None,
    }
}

struct Spread(fn(&Moments) -> Option<f64>);

impl Aggregate<Moments, Option<f64>> for Spread {
    fn init(&self, _: &mut Context<'_>) -> Result<Moments> {
        Ok(Moments::default())
    }

    fn step(&self, context: &mut Context<'_>, moments: &mut Moments) -> Result<()> {
        if let Some(number) = number(context, 0) {
            moments.add(number);
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, moments: Option<Moments>) -> Result<Option<f64>> {
        Ok(moments.and_then(|moments| (self.0)(&moments)))
    }
}

/// Lists of numbers of the same length, which count against the limit of the statement until they
/// are dropped.
struct Numbers<const N: usize> {
    lists: [Vec<f64>; N],
    watch: Arc<Watch>,
}

impl<const N: usize> Numbers<N> {
    fn new(watch: &Arc<Watch>) -> Self {
        Self { lists: std::array::from_fn(|_| Vec::new()), watch: watch.clone() }
    }

    /// Adds one number to each list, for `function`.
    ///
    /// # Errors
    /// If the statement keeps too many numbers.
    fn add(&mut self, numbers: [f64; N], function: &'static str) -> Result<()> {
        if !self.watch.keeps(N, function) {
            return Err(Error::UserFunctionError("it keeps too many numbers".into()));
        }
        for (list, number) in self.lists.iter_mut().zip(numbers) {
            list.push(number);
        }
        Ok(())
    }
}

impl<const N: usize> Drop for Numbers<N> {
    fn drop(&mut self) {
        self.watch.drops(self.lists.iter().map(Vec::len).sum());
    }
}

struct Correlation(Arc<Watch>);

impl Aggregate<Numbers<2>, Option<f64>> for Correlation {
    fn init(&self, _: &mut Context<'_>) -> Result<Numbers<2>> {
        Ok(Numbers::new(&self.0))
    }

    fn step(&self, context: &mut Context<'_>, pairs: &mut Numbers<2>) -> Result<()> {
        match (number(context, 0), number(context, 1)) {
            (Some(one), Some(other)) => pairs.add([one, other], "corr"),
            _ => Ok(()),
        }
    }

    fn finalize(&self, _: &mut Context<'_>, pairs: Option<Numbers<2>>) -> Result<Option<f64>> {
        Ok(pairs.and_then(|pairs| pearson_r(&pairs.lists[0], &pairs.lists[1])))
    }
}

/// The aggregate functions for quantiles, which interpolate between the two nearest numbers.
/// Without a second argument, the share is one half, which gives the median.
struct Quantile {
    name: &'static str,
    /// Scale of the second argument: 1 for shares in `0..=1`, 100 for percent.
    scale: f64,
    watch: Arc<Watch>,
}

impl Aggregate<(Numbers<1>, f64), Option<f64>> for Quantile {
    fn init(&self, context: &mut Context<'_>) -> Result<(Numbers<1>, f64)> {
        let share = if context.len() > 1 {
            number(context, 1).unwrap_or(f64::NAN)
        } else {
            0.5 * self.scale
        };
        Ok((Numbers::new(&self.watch), share / self.scale))
    }

    fn step(&self, context: &mut Context<'_>, seen: &mut (Numbers<1>, f64)) -> Result<()> {
        number(context, 0).map_or(Ok(()), |number| seen.0.add([number], self.name))
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        seen: Option<(Numbers<1>, f64)>,
    ) -> Result<Option<f64>> {
        Ok(seen.and_then(|(mut numbers, share)| quantile(&mut numbers.lists[0], share)))
    }
}
