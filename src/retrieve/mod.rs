//! Retrievers: query in, ranking out.
