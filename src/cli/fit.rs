//! Fits a table to the width of a terminal. If the table is too wide, intervals go below their
//! numbers, and text wraps between words. Does not depend on what the cells mean. Widths are in
//! terminal columns.

use std::collections::BTreeSet;

use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Row, Table, Width::Fixed};

/// Gap between two columns of a table, in terminal columns.
pub(super) const GAP: u16 = 2;
/// Gap, in terminal columns, between two columns of a table that would be too wide with [`GAP`].
const SMALL_GAP: u16 = 1;
/// Minimum width, in terminal columns, to which a column of text is narrowed by breaking its words.
const LEAST: u16 = 8;
/// Maximum length, in characters, of a word that is kept whole by widening its column. Longer words
/// may be broken.
const LONGEST_WORD: u16 = 24;

/// Returns the table narrowed to `width`, or wider if its numbers and headings need more room.
pub(super) fn fitted(table: &Table, width: u16) -> Table {
    let mut fitted = table.clone();
    let natural = fitted.column_max_content_widths();
    if whole(&natural, GAP) <= width {
        return fitted;
    }
    if whole(&least(table), GAP) > width {
        put_intervals_below(&mut fitted);
    }
    let mut least = least(&fitted);
    let gap = if whole(&least, GAP) > width { SMALL_GAP } else { GAP };
    break_words(&mut least, &texts(&fitted), gap, width);
    let widths = shared(&fitted.column_max_content_widths(), &least, gap, width);
    fitted
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.max(whole(&widths, gap) + gap));
    for (column, wide) in fitted.column_iter_mut().zip(widths) {
        column.set_padding((0, gap));
        column.set_constraint(ColumnConstraint::Absolute(Fixed(wide + gap)));
    }
    fitted
}

/// Returns the total width of a table whose columns have these widths, with `gap` between them.
fn whole(widths: &[u16], gap: u16) -> u16 {
    let gaps =
        gap.saturating_mul(u16::try_from(widths.len().saturating_sub(1)).unwrap_or(u16::MAX));
    widths.iter().fold(gaps, |sum, &width| sum.saturating_add(width))
}

/// Returns the minimum width of each column: the length of its longest word, at most
/// [`LONGEST_WORD`]. A line that begins like a number or an interval counts as one word.
fn least(table: &Table) -> Vec<u16> {
    let mut least: Vec<u16> = Vec::new();
    for row in table.header().into_iter().chain(table.row_iter()) {
        for (at, cell) in row.cell_iter().enumerate() {
            if least.len() <= at {
                least.resize(at + 1, 0);
            }
            let content = cell.content();
            let longest = content.lines().flat_map(pieces).map(length).max().unwrap_or(0);
            least[at] = least[at].max(longest.min(LONGEST_WORD));
        }
    }
    least
}

/// Returns the indexes (from 0), ascending, of the columns that hold text. Such a column has, below
/// its heading, a cell that is neither empty nor `-` nor a number.
fn texts(table: &Table) -> Vec<usize> {
    let is_text = |cell: &Cell| {
        let content = cell.content();
        !content.is_empty() && content != "-" && !is_number(&content)
    };
    let of_row = |row: &Row| -> Vec<usize> {
        row.cell_iter().enumerate().filter(|(_, cell)| is_text(cell)).map(|pair| pair.0).collect()
    };
    let columns: BTreeSet<usize> = table.row_iter().flat_map(of_row).collect();
    columns.into_iter().collect()
}

/// Reduces the minimum widths of the columns of text (indexes `texts`), the widest first, until the
/// table fits or all are at [`LEAST`]. Words in these columns may then be broken; numbers are not.
fn break_words(least: &mut [u16], texts: &[usize], gap: u16, width: u16) {
    while whole(least, gap) > width {
        let longest = texts.iter().copied().filter(|&at| least[at] > LEAST);
        let Some(at) = longest.max_by_key(|&at| least[at]) else { return };
        least[at] -= 1;
    }
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| "+-<[0123456789".contains(c))
}

/// Splits a line of a cell into the parts that must not be broken: words, or the whole line if it
/// begins like a number.
fn pieces(line: &str) -> Vec<&str> {
    if is_number(line) { vec![line] } else { line.split(' ').collect() }
}

fn length(text: &str) -> u16 {
    u16::try_from(text.chars().count()).unwrap_or(u16::MAX)
}

/// Puts each interval `[low, high]` on the line below the number that it belongs to.
fn put_intervals_below(table: &mut Table) {
    for row in table.row_iter_mut() {
        let cells: Vec<Cell> =
            row.cell_iter().map(|cell| Cell::new(cell.content().replace(" [", "\n["))).collect();
        *row = Row::from(cells);
    }
}

/// Distributes `width` over the columns and returns their widths. Each column gets its minimum; the
/// remaining width goes first to the columns closest to their natural width, so that numbers stay
/// on one line and text wraps.
fn shared(natural: &[u16], least: &[u16], gap: u16, width: u16) -> Vec<u16> {
    let mut widths: Vec<u16> =
        natural.iter().zip(least).map(|(&natural, &least)| natural.min(least.max(LEAST))).collect();
    if whole(&widths, gap) > width {
        widths = natural.iter().zip(least).map(|(&natural, &least)| natural.min(least)).collect();
    }
    let mut order: Vec<usize> = (0..widths.len()).collect();
    order.sort_by_key(|&at| (natural[at].saturating_sub(widths[at]), at));
    for at in order {
        let left = width.saturating_sub(whole(&widths, gap));
        widths[at] += left.min(natural[at].saturating_sub(widths[at]));
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printer::table;

    /// Returns a table like that of an evaluation, with long names and many intervals.
    fn wide() -> Table {
        let headings = ["system", "n", "hit@1", "hit@5", "recall@20", "mrr", "p50 ms", "p95 ms"];
        let mut rows = table(headings, &[1, 2, 3, 4, 5, 6, 7]);
        for system in ["bm25+names", "bundle:home/runs/shop-0001/bundle.json"] {
            let cells = ["62.7 [55.1, 70.2]"; 4];
            rows.add_row([&[system, "1,500"], &cells[..], &["120.5", "1,330.1"]].concat());
        }
        rows
    }

    #[test]
    fn a_table_fits_the_terminal_and_loses_nothing() {
        let table = wide();
        for width in [80, 100, 132, 200] {
            let text = fitted(&table, width).trim_fmt();
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= usize::from(width), "{longest} > {width}:\n{text}");
            let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
            assert_eq!(bare(&text), bare(&table.trim_fmt()), "{text}");
            for whole in ["62.7", "[55.1, 70.2]", "1,330.1"] {
                assert!(text.contains(whole), "{whole} is broken in:\n{text}");
            }
        }
        assert_eq!(fitted(&table, 200).trim_fmt(), table.trim_fmt(), "it has room");
    }

    #[test]
    fn text_wraps_between_words_and_numbers_stay_on_their_lines() {
        let mut rows = table(["question type", "n", "gain"], &[1, 2]);
        rows.add_row([
            "film by named person and named studio and place",
            "80",
            "+15.2 [9.6, 21.5]",
        ]);
        let text = fitted(&rows, 50).trim_fmt();
        assert!(text.contains("+15.2 [9.6, 21.5]"), "{text}");
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.len() <= 50), "{text}");
    }
}
