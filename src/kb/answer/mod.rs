//! Answers to questions: their value and their explanation.
//!
//! | file | content |
//! | --- | --- |
//! | `value` | ranked nodes, a single value or a table |
//! | `explanation` | the reasons for an answer, as a tree of names and values |

mod explanation;
mod value;

pub use crate::answer::{
    explanation::Explanation,
    value::{AnswerValue, Cell, MAX_CELL_BYTES, MAX_COLUMNS, MAX_ROWS, Single, Table, ValueError},
};
