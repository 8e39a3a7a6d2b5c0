//! Tests of encoders.
