//! Makes a table as narrow as a terminal: text wraps between its words, and where that is not
//! enough an interval goes below its number. Must not know what the cells say.

use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Row, Table, Width::Fixed};

/// Columns of the terminal between two columns of a table, and where there is little room.
pub(super) const GAP: u16 = 2;
const SMALL_GAP: u16 = 1;
/// Columns that text gets at least, if a word of it is not longer.
const LEAST: u16 = 8;
/// Longest word that is not broken.
const LONGEST_WORD: u16 = 24;

/// The table in at most `width` columns, as far as its numbers and headings let it.
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

/// Columns of the terminal that a table takes whose columns take these.
fn whole(widths: &[u16], gap: u16) -> u16 {
    let gaps =
        gap.saturating_mul(u16::try_from(widths.len().saturating_sub(1)).unwrap_or(u16::MAX));
    widths.iter().fold(gaps, |sum, &width| sum.saturating_add(width))
}

/// What each column cannot do without: its longest word, an interval counting as one.
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

/// The columns that hold text: some cell below the heading is neither empty nor a number.
fn texts(table: &Table) -> Vec<usize> {
    let is_text = |cell: &Cell| {
        let content = cell.content();
        !content.is_empty() && content != "-" && !is_number(&content)
    };
    let of_row = |row: &Row| -> Vec<usize> {
        row.cell_iter().enumerate().filter(|(_, cell)| is_text(cell)).map(|pair| pair.0).collect()
    };
    let mut columns: Vec<usize> = table.row_iter().flat_map(of_row).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Lets words of text be broken, the longest first, until the columns fit or nothing is left to
/// break: a number is never broken.
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

/// The parts of a line that stay whole.
fn pieces(line: &str) -> Vec<&str> {
    if is_number(line) { vec![line] } else { line.split(' ').collect() }
}

fn length(text: &str) -> u16 {
    u16::try_from(text.chars().count()).unwrap_or(u16::MAX)
}

/// Puts `[low, high]` below the number it belongs to.
fn put_intervals_below(table: &mut Table) {
    for row in table.row_iter_mut() {
        let cells: Vec<Cell> =
            row.cell_iter().map(|cell| Cell::new(cell.content().replace(" [", "\n["))).collect();
        *row = Row::from(cells);
    }
}

/// Widths within a whole: each column has its least, and what is left goes to the column that lacks
/// least to be as it is, one after another, so that numbers stay on their lines and text wraps.
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

    /// A table like those of evaluations, of long names and many intervals.
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
