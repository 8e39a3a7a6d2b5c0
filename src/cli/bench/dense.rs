//! What an exact search by vector costs: one query at a time, and many at once.

use std::{fs, hint::black_box, path::Path};

use anyhow::{Context as _, anyhow};
use safetensors::{Dtype, SafeTensors};

use crate::{
    Context,
    bench::{K, WorkArgs, digest, measure},
};
use agent_app::{dataset, error::Result};
use agent_embed::Matrix;
use agent_index::vectors::{Precision, VectorIndex, VectorWriter};
use agent_kb::NodeId;

/// Queries drawn from the rows.
const DRAWN: usize = 256;
/// Queries asked one at a time.
const SINGLE: usize = 20;

pub(super) fn run(args: &WorkArgs, ctx: &Context) -> Result<()> {
    match &args.work {
        Some(path) => {
            let place = tempfile::tempdir()?;
            let (index, queries) = read(path, place.path())?;
            search(&index, &queries, args, ctx)
        }
        None => {
            let base = dataset::open(&dataset::find(&args.args.dataset, ctx)?, ctx)?;
            let step = (base.vectors.n() / DRAWN).max(1);
            let nodes = (0..base.vectors.n()).step_by(step).take(DRAWN);
            let mut rows = Vec::new();
            for node in nodes {
                rows.extend(base.vectors.row(node as NodeId)?);
            }
            let dim = base.vectors.dim();
            search(&base.vectors, &Matrix::new(rows.len() / dim, dim, rows)?, args, ctx)
        }
    }
}

/// Makes an index of the rows of a file, and takes its queries.
fn read(path: &Path, place: &Path) -> Result<(VectorIndex, Matrix)> {
    let wrong = || format!("{} does not hold rows and queries as F32", path.display());
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file = SafeTensors::deserialize(&bytes).with_context(wrong)?;
    let matrix = |name: &str| -> Result<Matrix> {
        let tensor = file.tensor(name).with_context(wrong)?;
        let &[n, dim] = tensor.shape() else { return Err(anyhow!(wrong()).into()) };
        if tensor.dtype() != Dtype::F32 {
            return Err(anyhow!(wrong()).into());
        }
        let numbers = tensor.data().chunks_exact(4).filter_map(|bytes| bytes.first_chunk());
        Ok(Matrix::new(n, dim, numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect())?)
    };
    let rows = matrix("rows")?;
    let place = place.join("vectors");
    let mut writer = VectorWriter::create(&place, rows.dim(), Precision::F32, "")?;
    writer.append(&rows)?;
    writer.finish()?;
    Ok((VectorIndex::open(&place)?, matrix("queries")?))
}

fn search(index: &VectorIndex, queries: &Matrix, args: &WorkArgs, ctx: &Context) -> Result<()> {
    let single: Vec<&[f32]> = (0..SINGLE).filter_map(|row| queries.row(row)).collect();
    let ids = |ranking: Vec<(NodeId, f32)>| -> Vec<NodeId> {
        let mut ids: Vec<NodeId> = ranking.into_iter().map(|(node, _)| node).collect();
        // The order of equal scores depends on how products are summed.
        ids.sort_unstable();
        ids
    };
    let found = single.iter().map(|query| Ok(ids(index.top_k(query, K, None)?)));
    let found = found.collect::<Result<Vec<_>>>()?;
    measure("dense", single.len(), || {
        single.iter().for_each(|query| drop(black_box(index.top_k(query, K, None))));
    })
    .with("rows", index.n())
    .with("dim", index.dim())
    .with("digest", digest(found))
    .print(args.args.json, ctx)?;

    let found = index.top_k_batch(queries, K, None)?;
    measure("dense_batch", queries.rows(), || {
        drop(black_box(index.top_k_batch(queries, K, None)));
    })
    .with("rows", index.n())
    .with("dim", index.dim())
    .with("digest", digest(found.into_iter().map(ids)))
    .print(args.args.json, ctx)
}
