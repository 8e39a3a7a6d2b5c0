//! Answers questions over many nodes with tables.
