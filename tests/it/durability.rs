//! Runs
