//! Where numbers stand in a drawing. Must not know what they mean.

use serde::Serialize;

use agent_retrieve::eval::Interval;

/// Width of every drawing, in units of its own.
pub(super) const WIDTH: f64 = 720.0;
/// Height of the chart of programs.
pub(super) const HEIGHT: f64 = 260.0;
/// Room for labels at the left, above, at the right and below.
const ROOM: [f64; 4] = [40.0, 12.0, 12.0, 28.0];
/// Lines across the chart.
const GRID: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];

/// A value with its interval, in the order in which it came.
pub(super) struct Sample {
    pub(super) mean: f64,
    pub(super) interval: Interval,
    /// What it and all before it reach together.
    pub(super) together: f64,
    pub(super) label: String,
    /// Names its look: `tried`, `accepted` or `frozen`.
    pub(super) class: &'static str,
}

/// A sample in the drawing.
#[derive(Serialize)]
pub(super) struct Point {
    x: f64,
    y: f64,
    low: f64,
    high: f64,
    label: String,
    class: &'static str,
}

/// A line across the drawing.
#[derive(Serialize)]
pub(super) struct Level {
    y: f64,
    label: String,
    class: &'static str,
}

/// A chart of shares from 0 to 1 in their order.
#[derive(Serialize)]
pub(super) struct Chart {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    bottom: f64,
    grid: Vec<Level>,
    levels: Vec<Level>,
    points: Vec<Point>,
    /// What all samples so far reach together, as the points of a line.
    together: String,
}

fn height_of(share: f64) -> f64 {
    let [_, top, _, below] = ROOM;
    rounded(top + (1.0 - share.clamp(0.0, 1.0)) * (HEIGHT - top - below))
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Draws samples from left to right, and levels across.
pub(super) fn chart(samples: Vec<Sample>, levels: &[(String, f64, &'static str)]) -> Chart {
    let [left, _, right, below] = ROOM;
    let (width, n) = (WIDTH - left - right, samples.len().max(1) as f64);
    let x = |at: usize| rounded(left + width * (at as f64 + 0.5) / n);
    let level = |(label, share, class): (String, f64, &'static str)| Level {
        y: height_of(share),
        label,
        class,
    };
    let together: Vec<String> = samples
        .iter()
        .enumerate()
        .map(|(at, sample)| format!("{},{}", x(at), height_of(sample.together)))
        .collect();
    let point = |(at, sample): (usize, Sample)| Point {
        x: x(at),
        y: height_of(sample.mean),
        low: height_of(sample.interval.low),
        high: height_of(sample.interval.high),
        label: sample.label,
        class: sample.class,
    };
    Chart {
        width: WIDTH,
        height: HEIGHT,
        left,
        right: WIDTH - right,
        bottom: HEIGHT - below,
        grid: GRID.iter().map(|&at| level((format!("{:.0}", 100.0 * at), at, "grid"))).collect(),
        levels: levels.iter().cloned().map(level).collect(),
        points: samples.into_iter().enumerate().map(point).collect(),
        together: together.join(" "),
    }
}

/// Draws numbers from 0 up over the steps at which they were taken, steps ascending, with a dot at one
/// of them, told in words.
pub(super) fn curve(numbers: &[(usize, f64)], most: f64, dot: &(usize, String)) -> Chart {
    let [left, _, right, below] = ROOM;
    let first = numbers.first().map_or(0, |number| number.0);
    let steps = numbers.last().map_or(0, |number| number.0 - first).max(1) as f64;
    let place = |&(step, number): &(usize, f64)| {
        let along = (step - first) as f64 / steps;
        (
            rounded(left + (WIDTH - left - right) * along),
            height_of(number / most.max(f64::MIN_POSITIVE)),
        )
    };
    let line: Vec<String> = numbers.iter().map(place).map(|(x, y)| format!("{x},{y}")).collect();
    let dotted = numbers.iter().find(|number| number.0 == dot.0).map(place);
    let point = |(x, y)| Point { x, y, low: y, high: y, label: dot.1.clone(), class: "accepted" };
    let decimals = if most < 10.0 { 2 } else { 0 };
    let level = |&at: &f64| Level {
        y: height_of(at),
        label: format!("{:.decimals$}", at * most),
        class: "grid",
    };
    Chart {
        width: WIDTH,
        height: HEIGHT,
        left,
        right: WIDTH - right,
        bottom: HEIGHT - below,
        grid: GRID.iter().map(level).collect(),
        levels: Vec::new(),
        points: dotted.into_iter().map(point).collect(),
        together: line.join(" "),
    }
}

/// A bar with its interval, on a scale of 0 to 100.
#[derive(Serialize)]
pub(super) struct Bar {
    mean: f64,
    low: f64,
    high: f64,
}

/// A share with its interval as a bar.
pub(super) fn bar(mean: f64, interval: Interval) -> Bar {
    let percent = |share: f64| rounded(100.0 * share.clamp(0.0, 1.0));
    Bar { mean: percent(mean), low: percent(interval.low), high: percent(interval.high) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_stay_in_the_drawing_with_high_values_above() {
        let sample = |mean: f64| Sample {
            mean,
            interval: Interval { low: mean - 0.5, high: mean + 0.5 },
            together: mean,
            label: String::new(),
            class: "tried",
        };
        let drawn = chart([0.2, 0.9, 0.4, 1.0].map(sample).into(), &[]);
        for point in &drawn.points {
            assert!((0.0..=WIDTH).contains(&point.x) && (0.0..=HEIGHT).contains(&point.y));
            assert!(point.high <= point.y && point.y <= point.low && point.low <= HEIGHT);
        }
        let [first, second, ..] = drawn.points.as_slice() else { panic!("points are gone") };
        assert!(first.x < second.x && first.y > second.y);
        assert!(drawn.together.starts_with(&format!("{},{} ", first.x, first.y)));
        assert_eq!(chart(Vec::new(), &[]).together, "");
    }

    #[test]
    fn a_curve_ends_at_both_sides_and_has_its_largest_number_above() {
        let drawn = curve(&[(0, 1.0), (1, 4.0), (4, 0.0)], 4.0, &(1, "best".to_owned()));
        let [left, top, right, below] = ROOM;
        let x = rounded(left + (WIDTH - left - right) / 4.0);
        let (start, end) = (height_of(0.25), HEIGHT - below);
        assert_eq!(drawn.together, format!("{left},{start} {x},{top} {},{end}", WIDTH - right));
        let [dot] = drawn.points.as_slice() else { panic!("one dot") };
        assert_eq!((dot.x, dot.y), (x, top));
        assert_eq!(drawn.grid[5].label, "4.00");
        assert_eq!(curve(&[(3, 0.0)], 0.0, &(3, String::new())).together, format!("{left},{end}"));
    }
}
