//! Tests of the vector file and its searches.

use proptest::prelude::*;

use super::*;

pub(super) fn build(
    rows: &[Vec<f32>],
    dim: usize,
    precision: Precision,
) -> (tempfile::TempDir, VectorIndex) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors.safetensors");
    let mut writer = VectorWriter::create(&path, dim, precision, "model-7").unwrap();
    for block in rows.chunks(3) {
        writer.append(&Matrix::new(block.len(), dim, block.concat()).unwrap()).unwrap();
    }
    assert!(!path.exists(), "published too early");
    assert_eq!(writer.finish().unwrap(), rows.len() as u64);
    let index = VectorIndex::open(&path).unwrap();
    index.verify().unwrap();
    (folder, index)
}

fn naive(
    rows: &[Vec<f32>],
    query: &[f32],
    k: usize,
    filter: Option<&[NodeId]>,
) -> Vec<(NodeId, f32)> {
    let mut all: Vec<(NodeId, f32)> = (0..rows.len() as NodeId)
        .filter(|node| filter.is_none_or(|filter| filter.contains(node)))
        .map(|node| (node, rows[node as usize].iter().zip(query).map(|(a, b)| a * b).sum()))
        .collect();
    all.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
    all.truncate(k);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Small whole numbers make sums exact and ties frequent.
    #[test]
    fn top_k_equals_sorting_everything(
        rows in prop::collection::vec(prop::collection::vec((-2i8..=2).prop_map(f32::from), 3), 0..40),
        query in prop::collection::vec((-2i8..=2).prop_map(f32::from), 3),
        k in 0usize..50,
        kept in prop::collection::vec(any::<bool>(), 40),
        half in any::<bool>(),
    ) {
        let precision = if half { Precision::F16 } else { Precision::F32 };
        let (_folder, index) = build(&rows, 3, precision);
        let filter: Vec<NodeId> = (0..rows.len() as NodeId).filter(|i| kept[*i as usize]).collect();
        for filter in [None, Some(&filter[..])] {
            let expected = naive(&rows, &query, k, filter);
            prop_assert_eq!(index.top_k(&query, k, filter).unwrap(), expected);
        }
    }
}

fn wave(n: usize, dim: usize) -> Vec<Vec<f32>> {
    (0..n).map(|i| (0..dim).map(|j| ((i * 31 + j * 7) as f32 * 0.01).sin()).collect()).collect()
}

#[test]
fn many_blocks_give_the_same_answer_on_one_thread_and_two() {
    let rows = wave(2 * BLOCK_ROWS + 100, 20);
    let (_folder, index) = build(&rows, 20, Precision::F32);
    let answer = |n_threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
        pool.install(|| index.top_k(&rows[77], 50, None).unwrap())
    };
    let (one, two) = (answer(1), answer(2));
    assert_eq!(one, two);
    let queries = Matrix::new(300, 20, rows[..300].concat()).unwrap();
    let batch = index.top_k_batch(&queries, 50, None).unwrap();
    assert_eq!((batch.len(), &batch[77]), (300, &one), "a batch answers as its queries alone");
    let nodes: Vec<NodeId> = one.iter().map(|hit| hit.0).collect();
    let scores: Vec<f32> = one.iter().map(|hit| hit.1).collect();
    assert_eq!(index.score(&rows[77], &nodes).unwrap(), scores, "score and top_k agree");
    assert!(scores.is_sorted_by(|a, b| a >= b));
    assert_eq!(index.row(5000).unwrap(), rows[5000]);
}

#[test]
fn half_precision_agrees_with_full_within_its_rounding() {
    let rows = wave(50, 33);
    let (_a, full) = build(&rows, 33, Precision::F32);
    let (_b, half) = build(&rows, 33, Precision::F16);
    let nodes: Vec<NodeId> = (0..50).rev().collect();
    let (full, half) = (full.score(&rows[3], &nodes), half.score(&rows[3], &nodes));
    for (full, half) in full.unwrap().iter().zip(half.unwrap()) {
        assert!((full - half).abs() < 33.0 * 5e-4, "{full} {half}");
    }
}

#[test]
fn misuse_is_a_typed_error() {
    let (folder, index) = build(&wave(4, 2), 2, Precision::F32);
    assert_eq!((index.n(), index.dim(), index.embedder()), (4, 2, "model-7"));
    let error = index.top_k(&[1.0], 3, None).unwrap_err();
    assert!(error.to_string().starts_with("vector has 1 dimensions, the index expects 2"));
    let nan = index.score(&[f32::NAN, 0.0], &[]);
    assert!(matches!(nan, Err(VectorError::NotFinite { row: 0 })));
    let unsorted = index.top_k(&[1.0, 0.0], 3, Some(&[2, 2]));
    assert!(matches!(unsorted, Err(VectorError::UnsortedFilter { previous: 2, next: 2 })));
    let unknown = index.top_k(&[1.0, 0.0], 3, Some(&[2, 4]));
    assert!(matches!(unknown, Err(VectorError::UnknownNode { node: 4, n: 4 })));
    assert!(matches!(index.row(4), Err(VectorError::UnknownNode { .. })));
    let path = folder.path().join("other");
    let mut writer = VectorWriter::create(&path, 2, Precision::F16, "").unwrap();
    let error = writer.append(&Matrix::new(1, 2, vec![0.0, 1e5]).unwrap());
    assert!(matches!(error, Err(VectorError::NotFinite { row: 0 })));
    let error = writer.append(&Matrix::new(1, 3, vec![0.0; 3]).unwrap());
    assert!(matches!(error, Err(VectorError::Dimension { expected: 2, got: 3 })));
    drop(writer);
    assert!(!path.exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no leftovers");
    let error = VectorWriter::create(&path, 0, Precision::F32, "").err().unwrap();
    assert_eq!(error.to_string(), "length of a vector is 0; it must be 1 to 16384");
    let long = "x".repeat(MAX_FINGERPRINT_BYTES + 1);
    assert!(VectorWriter::create(&path, 2, Precision::F32, &long).is_err());
}

#[test]
fn truncated_or_altered_files_are_refused() {
    let (folder, index) = build(&wave(10, 5), 5, Precision::F32);
    drop(index);
    let path = folder.path().join("vectors.safetensors");
    let good = std::fs::read(&path).unwrap();
    for end in [0, 7, 8, 100, HEADER_BYTES - 1, HEADER_BYTES, good.len() - 1] {
        std::fs::write(&path, &good[..end]).unwrap();
        assert!(matches!(VectorIndex::open(&path), Err(VectorError::Damaged { .. })), "{end}");
    }
    let mut bad = good.clone();
    bad[HEADER_BYTES + 17] ^= 1;
    std::fs::write(&path, &bad).unwrap();
    let index = VectorIndex::open(&path).unwrap();
    assert!(matches!(index.verify(), Err(VectorError::Damaged { .. })));
    drop(index);
    let mut bad = good.clone();
    bad[good.len() - 5] ^= 1;
    std::fs::write(&path, &bad).unwrap();
    let error = VectorIndex::open(&path).unwrap().verify().unwrap_err();
    assert!(error.to_string().contains("its codes do not match their checksum"));
    std::fs::write(&path, b"not a tensor file at all").unwrap();
    assert!(matches!(VectorIndex::open(&path), Err(VectorError::Damaged { .. })));
    let none = VectorIndex::open(&folder.path().join("none"));
    assert!(matches!(none, Err(VectorError::Io { .. })));
}

#[test]
fn an_empty_index_answers_with_nothing() {
    let (_folder, index) = build(&[], 4, Precision::F16);
    assert_eq!(index.top_k(&[0.0; 4], 5, None).unwrap(), []);
    assert_eq!(index.top_k(&[0.0; 4], 5, Some(&[])).unwrap(), []);
    assert!(index.score(&[0.0; 4], &[]).unwrap().is_empty());
}
