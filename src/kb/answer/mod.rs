//! What an answer is made of, whoever gives it: its value, and why it is that.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `value` | which nodes, which single value or which table answers a question |
//! | `explanation` | why, as a tree of names and values |
//!
//! Must not know: who answers, how an answer is found or printed.

mod explanation;
mod value;

pub use crate::answer::{
    explanation::Explanation,
    value::{AnswerValue, Cell, MAX_CELL_BYTES, MAX_COLUMNS, MAX_ROWS, Single, Table, ValueError},
};
