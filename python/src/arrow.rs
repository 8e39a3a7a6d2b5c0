//! Rankings as Arrow tables, by the PyCapsule interface of Arrow's C streams. pyarrow, polars,
//! DuckDB and others read them directly; none of them is a dependency. A table is one batch, in the
//! order of queries, then of ranks, with the columns `query` (text), `rank` (from 1), `id` and
//! `score`, without nulls.

use std::sync::Arc;

use agent::retrieve::Ranking;
use arrow_array::{
    ArrayRef, Float32Array, RecordBatch, RecordBatchIterator, StringArray, UInt32Array,
    ffi_stream::FFI_ArrowArrayStream,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::{prelude::*, types::PyCapsule};

use crate::failure::{Failure, without_gil};

/// Name of a query, and the ids and scores of its ranking.
type Ranked<'py> = (String, numpy::PyReadonlyArray1<'py, u32>, numpy::PyReadonlyArray1<'py, f32>);

/// Makes the capsule of a stream of rankings. A consumer of the stream frees it; otherwise the
/// capsule does.
#[pyfunction]
pub(crate) fn arrow_stream<'py>(
    py: Python<'py>,
    rankings: Vec<Ranked<'py>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let rankings: Vec<(String, Ranking)> = rankings
        .into_iter()
        .map(|(query, ids, scores)| {
            let (ids, scores) = (ids.as_array(), scores.as_array());
            (query, ids.iter().copied().zip(scores.iter().copied()).collect())
        })
        .collect();
    let stream = without_gil(py, || {
        stream(&rankings).map_err(|error| Failure::Told(error.to_string(), None))
    })?;
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

fn stream(rankings: &[(String, Ranking)]) -> Result<FFI_ArrowArrayStream, ArrowError> {
    let nodes = || rankings.iter().flat_map(|(_, ranking)| ranking);
    let queries =
        rankings.iter().flat_map(|(query, ranking)| ranking.iter().map(move |_| Some(query)));
    let ranks = rankings.iter().flat_map(|(_, ranking)| (1..).zip(ranking).map(|(rank, _)| rank));
    let columns: [(&str, DataType, ArrayRef); 4] = [
        ("query", DataType::Utf8, Arc::new(queries.collect::<StringArray>())),
        ("rank", DataType::UInt32, Arc::new(ranks.collect::<UInt32Array>())),
        ("id", DataType::UInt32, Arc::new(nodes().map(|node| node.0).collect::<UInt32Array>())),
        (
            "score",
            DataType::Float32,
            Arc::new(nodes().map(|node| node.1).collect::<Float32Array>()),
        ),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, kind, _)| Field::new(*name, kind.clone(), false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let columns = columns.into_iter().map(|(_, _, column)| column).collect();
    let batch = RecordBatch::try_new(schema.clone(), columns)?;
    Ok(FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema))))
}
