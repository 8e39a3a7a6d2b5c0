//! Tests of the journal.
