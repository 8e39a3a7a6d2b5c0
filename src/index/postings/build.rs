//! Builds an inverted index with bounded memory.
//!
//! Texts are buffered, split into chunks and tokenized in parallel; a chunk has the postings of its
//! nodes by word. Chunks stay in memory up to a limit and are then merged into a run on disk; at
//! the end all runs are merged. Words are numbered in order of first appearance, so the result does
//! not depend on chunks, runs or threads.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek, Write},
    ops::Range,
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use safetensors::Dtype;

use crate::{
    IndexError, Result,
    arrays::{Arrays, Strings, named},
    bm25::Bm25,
    postings::{
        chunk::Chunk,
        coding::{Gaps, KEPT, put_frequent, put_gaps, take},
        is_rare,
        vocabulary::{Hasher, Vocabulary},
    },
    stream::{self, failed},
};
use agent_ground::words::{Analysis, for_each_reference_word};
use agent_kb::NodeId;

// Unit tests have small limits, so that a few texts suffice for several chunks and runs.

/// Total size in bytes of buffered texts at which they are tokenized.
const BATCH_BYTES: usize = if cfg!(test) { 256 } else { 16 << 20 };
/// Size in bytes of texts at which a chunk ends.
const CHUNK_BYTES: usize = if cfg!(test) { 64 } else { 4 << 20 };
/// Total size in bytes of postings in memory at which some are moved to disk.
const HELD_BYTES: usize = if cfg!(test) { 2_048 } else { 128 << 20 };
/// Number of runs on disk at which they are merged into one run.
const MAX_RUNS: usize = if cfg!(test) { 3 } else { 32 };
/// Size in bytes of the buffer for reading or writing a run.
const RUN_BUFFER: usize = 256 << 10;
/// Maximum number of distinct words over all texts.
const MAX_WORDS: usize = u32::MAX as usize - BATCH_BYTES;

/// Builds the inverted index of one text per node; takes nodes in ascending order. O(words).
///
/// To bound memory, call [`settle`] after each node. Memory then holds the vocabulary, 4 bytes per
/// node, and less than 256 MiB for all builders that are settled together.
pub struct PostingsBuilder {
    path: PathBuf,
    analysis: Analysis,
    /// The BM25 setting for which the stored bounds are computed.
    kept: Bm25,
    hasher: Hasher,
    vocabulary: Vocabulary,
    lengths: Vec<u32>,
    text: String,
    /// The nodes whose texts are in `text`, each with the end of its text.
    ends: Vec<(NodeId, usize)>,
    chunks: Vec<Chunk>,
    runs: Vec<File>,
}

/// Bounds the memory of builders: when their buffered texts together reach a limit, tokenizes
/// these, then moves postings to disk by [`make_room`].
///
/// # Errors
/// [`IndexError::Io`] if the disk is full; [`IndexError::TooLarge`] above 4.2 billion distinct
/// words.
pub fn settle(builders: &mut [PostingsBuilder]) -> Result<()> {
    if !is_much(builders) {
        return Ok(());
    }
    builders.iter_mut().try_for_each(PostingsBuilder::read)?;
    make_room(builders)
}

/// Whether the buffered texts of all builders together have reached the limit at which [`settle`]
/// tokenizes them.
pub fn is_much(builders: &[PostingsBuilder]) -> bool {
    builders.iter().map(|builder| builder.text.len()).sum::<usize>() >= BATCH_BYTES
}

/// Bounds the memory of builders: moves postings to disk, those of the largest builder first, until
/// the total size of postings in memory is below a limit.
///
/// # Errors
/// [`IndexError::Io`] if the disk is full.
pub fn make_room(builders: &mut [PostingsBuilder]) -> Result<()> {
    while builders.iter().map(PostingsBuilder::held).sum::<usize>() >= HELD_BYTES {
        let Some(largest) = builders.iter_mut().max_by_key(|builder| builder.held()) else { break };
        largest.spill()?;
    }
    Ok(())
}

/// Writes the index of texts to the file `path`; the texts belong to the nodes 0, 1, 2 and so on.
///
/// # Errors
/// As [`settle`].
pub fn build<T: AsRef<str>>(
    path: &Path,
    analysis: Analysis,
    texts: impl IntoIterator<Item = T>,
) -> Result<()> {
    let (mut builder, mut n) = (PostingsBuilder::create(path, analysis), 0);
    for text in texts {
        builder.add(n as NodeId, [text.as_ref()]);
        settle(std::slice::from_mut(&mut builder))?;
        n += 1;
    }
    builder.finish(n)
}

impl PostingsBuilder {
    /// Starts an index in the file `path`; temporary files are created in the same directory.
    pub fn create(path: &Path, analysis: Analysis) -> Self {
        Self::weighted(path, analysis, KEPT)
    }

    /// As [`create`](Self::create), with bounds for the BM25 setting `kept`;
    /// [`Postings::open_weighted`](super::Postings::open_weighted) must be given the same setting.
    pub(crate) fn weighted(path: &Path, analysis: Analysis, kept: Bm25) -> Self {
        Self {
            path: path.to_owned(),
            analysis,
            kept,
            hasher: Hasher::new(),
            vocabulary: Vocabulary::new(),
            lengths: Vec::new(),
            text: String::new(),
            ends: Vec::new(),
            chunks: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Adds the text of a node, in parts. Nodes must ascend between calls; omitted nodes have an
    /// empty text.
    pub fn add<'a>(&mut self, node: NodeId, parts: impl IntoIterator<Item = &'a str>) {
        for part in parts {
            self.text.push_str(part);
            self.text.push('\n');
        }
        self.ends.push((node, self.text.len()));
    }

    /// Adds postings of `nodes`, which must follow all nodes added so far: triples (word number,
    /// node, count), ascending. `word` returns the text of a word number. The length of each text
    /// is stored as 1. To bound memory, call [`make_room`] afterwards.
    ///
    /// # Errors
    /// [`IndexError::TooLarge`] as [`settle`].
    pub(crate) fn add_postings<'a>(
        &mut self,
        nodes: Range<NodeId>,
        postings: &[(u32, NodeId, u32)],
        word: &dyn Fn(u32) -> &'a [u8],
    ) -> Result<()> {
        let mut chunk = Chunk::new(nodes.map(|node| (node, 1)).collect());
        let (mut words, mut part) = (Vec::new(), Vec::new());
        for same in postings.chunk_by(|a, b| a.0 == b.0) {
            words.push(word(same[0].0));
            part.clear();
            part.extend(same.iter().map(|&(_, node, count)| (node, count)));
            chunk.push(&part);
        }
        chunk.shrink();
        let hasher = self.hasher;
        self.hold(words.into_iter().map(|word| (word, hasher.hash(word))), chunk)
    }

    /// Writes the index of the nodes `0..n`.
    ///
    /// # Errors
    /// As [`settle`].
    pub fn finish(mut self, n: usize) -> Result<()> {
        self.read()?;
        self.lengths.resize(n, 0);
        if !self.runs.is_empty() {
            self.spill()?;
        }
        let path = self.path.clone();
        self.write().map_err(IndexError::io(&path))
    }

    fn held(&self) -> usize {
        self.chunks.iter().map(Chunk::held).sum()
    }

    /// Tokenizes the buffered texts and writes their postings to `out`, for [`take`](Self::take) of
    /// another builder.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn give(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let chunks = self.read_chunks();
        stream::write_number(out, chunks.len())?;
        chunks.iter().try_for_each(|(words, chunk)| chunk.write(words.iter().map(|one| one.0), out))
    }

    /// Adds the postings that [`give`](Self::give) of another builder wrote. Their nodes must
    /// follow all nodes added so far and be below `end`. To bound memory, call [`make_room`]
    /// afterwards.
    ///
    /// # Errors
    /// [`IndexError::Io`] if the input is malformed, [`IndexError::TooLarge`] as [`settle`].
    pub fn take(&mut self, input: &mut dyn Read, end: NodeId) -> Result<()> {
        self.read()?;
        for _ in 0..stream::read_number(input).map_err(failed)? {
            let from = self.lengths.len() as NodeId;
            let (words, chunk) = Chunk::read(input, from..end).map_err(failed)?;
            let hasher = self.hasher;
            self.hold(words.iter().map(|word| (word, hasher.hash(word))), chunk)?;
        }
        Ok(())
    }

    /// Tokenizes the buffered texts and keeps their postings.
    fn read(&mut self) -> Result<()> {
        self.read_chunks().into_iter().try_for_each(|(words, chunk)| self.hold(words.iter(), chunk))
    }

    /// Keeps a chunk. `words` yields the words of the chunk in order, each with its hash. The nodes
    /// of the chunk must follow all nodes added so far.
    fn hold<'a>(
        &mut self,
        words: impl Iterator<Item = (&'a [u8], u64)>,
        mut chunk: Chunk,
    ) -> Result<()> {
        chunk.words = words.map(|(word, hash)| self.vocabulary.number(word, hash)).collect();
        if self.vocabulary.len() > MAX_WORDS {
            return Err(IndexError::TooLarge("distinct words", MAX_WORDS as u64));
        }
        for (node, length) in std::mem::take(&mut chunk.lengths) {
            self.lengths.resize(node as usize, 0);
            self.lengths.push(length);
        }
        self.chunks.push(chunk);
        Ok(())
    }

    /// Tokenizes the buffered texts into chunks, in order; each has a vocabulary of its own.
    /// Empties the buffer.
    fn read_chunks(&mut self) -> Vec<(Vocabulary, Chunk)> {
        let cuts = cuts(&self.ends);
        let chunks = cuts.into_par_iter().map(|cut| self.read_chunk(cut)).collect();
        self.text.clear();
        self.ends.clear();
        chunks
    }

    /// Tokenizes a range of the buffered texts into a chunk; its words are numbered in the returned
    /// vocabulary, not in that of the builder.
    fn read_chunk(&self, cut: Range<usize>) -> (Vocabulary, Chunk) {
        let hash = |word: &str| self.hasher.hash(word.as_bytes());
        let (mut words, mut lengths) = (Vocabulary::new(), Vec::new());
        // Words as written. If forms such as stems are indexed instead, `forms` holds the numbers
        // of the forms of each written word.
        let (mut written, stems) = (Vocabulary::new(), self.analysis.stems());
        let (mut forms, mut ends) = (Vec::new(), Vec::new());
        // For each word: the number of the last text that contains it, from 1, and the word's count
        // in that text.
        let mut seen: Vec<(u32, u32)> = Vec::new();
        let mut found: Vec<u32> = Vec::new();
        let mut postings: Vec<(u32, NodeId, u32)> = Vec::new();
        let mut start = cut.start.checked_sub(1).map_or(0, |before| self.ends[before].1);
        for (at, &(node, end)) in (1..).zip(&self.ends[cut]) {
            let mut length = 0;
            for_each_reference_word(&self.text[start..end], |word| {
                let number = written.number(word.as_bytes(), hash(word));
                let mut count = |number: u32| {
                    if number as usize >= seen.len() {
                        seen.resize(number as usize + 1, (0, 0));
                    }
                    let (text, count) = &mut seen[number as usize];
                    if *text != at {
                        (*text, *count) = (at, 0);
                        found.push(number);
                    }
                    *count += 1;
                    length += 1;
                };
                if self.analysis == Analysis::Words {
                    return count(number);
                }
                if number as usize == ends.len() {
                    self.analysis.for_each_form(&stems, word, &mut |form, _| {
                        forms.push(words.number(form.as_bytes(), hash(form)));
                    });
                    ends.push(forms.len());
                }
                let start = (number as usize).checked_sub(1).map_or(0, |before| ends[before]);
                forms[start..ends[number as usize]].iter().copied().for_each(count);
            });
            postings.extend(found.drain(..).map(|word| (word, node, seen[word as usize].1)));
            lengths.push((node, length));
            start = end;
        }
        if self.analysis == Analysis::Words {
            words = written;
        }
        let by_word = ByWord::new(words.len(), postings.iter().copied());
        let mut chunk = Chunk::new(lengths);
        by_word.each().for_each(|(_, postings)| chunk.push(postings));
        chunk.shrink();
        (words, chunk)
    }

    /// Moves the postings of all chunks into a run on disk; merges the runs if there are too many.
    fn spill(&mut self) -> Result<()> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let mut merged = || -> io::Result<()> {
            let (chunks, n_words) = (std::mem::take(&mut self.chunks), self.vocabulary.len());
            self.runs.push(write_run(dir, |each| for_each_in_chunks(&chunks, n_words, each))?);
            if self.runs.len() >= MAX_RUNS {
                let runs = std::mem::take(&mut self.runs);
                self.runs.push(write_run(dir, |each| for_each_in_runs(runs, n_words, each))?);
            }
            Ok(())
        };
        merged().map_err(IndexError::io(dir))
    }

    fn write(self) -> io::Result<()> {
        let n = self.lengths.len();
        let tokens: u64 = self.lengths.iter().map(|&length| u64::from(length)).sum();
        let weights = self.kept.lengths((tokens as f64 / n.max(1) as f64) as f32);
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let mut spool = BufWriter::with_capacity(RUN_BUFFER, tempfile::tempfile_in(dir)?);
        let (mut starts, mut counts) = (vec![0u64], Vec::new());
        let (mut postings, mut bytes) = (Vec::new(), Vec::new());
        let mut write = |_: u32, parts: &[u8]| {
            postings.clear();
            read_parts(parts, &mut postings);
            bytes.clear();
            if is_rare(postings.len() as u32, n) {
                put_gaps(&mut bytes, &postings);
            } else {
                put_frequent(&mut bytes, &postings, n, |node, count| {
                    weights.share(count, self.lengths[node as usize])
                });
            }
            counts.push(postings.len() as u32);
            starts.push(starts[starts.len() - 1] + bytes.len() as u64);
            spool.write_all(&bytes)
        };
        if self.runs.is_empty() {
            for_each_in_chunks(&self.chunks, self.vocabulary.len(), &mut write)?;
        } else {
            for_each_in_runs(self.runs, self.vocabulary.len(), &mut write)?;
        }
        drop(self.chunks);
        let mut ids: Vec<u32> = (0..self.vocabulary.len() as u32).collect();
        ids.par_sort_unstable_by_key(|&id| self.vocabulary.get(id as usize));
        let (bounds, words) =
            Strings::layout(ids.iter().map(|&id| self.vocabulary.get(id as usize)));
        let mut spool = spool.into_inner().map_err(io::IntoInnerError::into_error)?;
        spool.rewind()?;
        Arrays::write_with(
            &self.path,
            &[
                named("starts", &starts),
                named("bounds", &bounds),
                named("tokens", &[tokens]),
                named("ids", &ids),
                named("counts", &counts),
                named("lengths", &self.lengths),
                named("analysis", &self.analysis.to_bytes()),
                named("words", &words),
            ],
            ("postings", Dtype::U8, starts[starts.len() - 1]),
            &[],
            |file| io::copy(&mut spool, file).map(|_| ()),
        )
    }
}

/// Splits texts, given by their ends in bytes, into ranges of about [`CHUNK_BYTES`] each.
fn cuts(ends: &[(NodeId, usize)]) -> Vec<Range<usize>> {
    let (mut cuts, mut first, mut start) = (Vec::new(), 0, 0);
    for (at, &(_, end)) in ends.iter().enumerate() {
        if end - start >= CHUNK_BYTES || at + 1 == ends.len() {
            cuts.push(first..at + 1);
            (first, start) = (at + 1, end);
        }
    }
    cuts
}

/// Pairs of numbers, grouped by word; pairs of a word are in the order in which they were given.
struct ByWord {
    pairs: Vec<(u32, u32)>,
    /// End of each word's pairs in `pairs`.
    ends: Vec<usize>,
}

impl ByWord {
    /// Groups triples (word number, pair) by a counting sort; `n_words` bounds the word numbers.
    fn new(n_words: usize, triples: impl Iterator<Item = (u32, u32, u32)> + Clone) -> Self {
        let mut ends = vec![0usize; n_words + 1];
        triples.clone().for_each(|triple| ends[triple.0 as usize + 1] += 1);
        for word in 1..ends.len() {
            ends[word] += ends[word - 1];
        }
        let mut pairs = vec![(0, 0); ends[n_words]];
        triples.for_each(|(word, first, second)| {
            let place = &mut ends[word as usize];
            pairs[*place] = (first, second);
            *place += 1;
        });
        ends.pop();
        Self { pairs, ends }
    }

    /// Iterates over all words, ascending, with their pairs.
    fn each(&self) -> impl Iterator<Item = (u32, &[(u32, u32)])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let bounds = starts.zip(self.ends.iter().copied());
        (0..).zip(bounds.map(|(start, end)| &self.pairs[start..end]))
    }
}

/// Decodes the postings of one word from its parts, one after another, and appends them to
/// `postings`.
fn read_parts(mut parts: &[u8], postings: &mut Vec<(NodeId, u32)>) {
    while let Some(n) = take(&mut parts) {
        postings.extend(Gaps::new(&mut parts).take(n as usize));
    }
}

/// Callback that receives each word number, ascending, with the coded postings of that word from
/// all chunks.
type WordHandler<'a> = &'a mut dyn FnMut(u32, &[u8]) -> io::Result<()>;

fn for_each_in_chunks(chunks: &[Chunk], n_words: usize, each: WordHandler<'_>) -> io::Result<()> {
    let parts = (0..)
        .zip(chunks)
        .flat_map(|(chunk, at)| (0..).zip(&at.words).map(move |(part, &word)| (word, chunk, part)));
    let by_word = ByWord::new(n_words, parts);
    let mut bytes = Vec::new();
    by_word.each().try_for_each(|(word, parts)| {
        bytes.clear();
        for &(chunk, part) in parts {
            bytes.extend_from_slice(chunks[chunk as usize].part(part as usize));
        }
        each(word, &bytes)
    })
}

/// Writes a run to a temporary file in `dir`: for each word with postings, the word number, the
/// length in bytes of its coded postings, and the coded postings.
fn write_run(
    dir: &Path,
    for_each: impl FnOnce(WordHandler<'_>) -> io::Result<()>,
) -> io::Result<File> {
    let mut run = BufWriter::with_capacity(RUN_BUFFER, tempfile::tempfile_in(dir)?);
    for_each(&mut |word, parts| {
        if !parts.is_empty() {
            run.write_all(&word.to_le_bytes())?;
            run.write_all(&(parts.len() as u64).to_le_bytes())?;
            run.write_all(parts)?;
        }
        Ok(())
    })?;
    let mut run = run.into_inner().map_err(io::IntoInnerError::into_error)?;
    run.rewind()?;
    Ok(run)
}

fn for_each_in_runs(runs: Vec<File>, n_words: usize, each: WordHandler<'_>) -> io::Result<()> {
    fn next(run: &mut BufReader<File>) -> io::Result<Option<u32>> {
        let mut word = [0; 4];
        match run.read_exact(&mut word) {
            Ok(()) => Ok(Some(u32::from_le_bytes(word))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
    let mut heads = Vec::new();
    for run in runs {
        let mut run = BufReader::with_capacity(RUN_BUFFER, run);
        heads.push((next(&mut run)?, run));
    }
    let mut bytes = Vec::new();
    for word in 0..n_words as u32 {
        bytes.clear();
        for (head, run) in &mut heads {
            if *head == Some(word) {
                let mut length = [0; 8];
                run.read_exact(&mut length)?;
                run.take(u64::from_le_bytes(length)).read_to_end(&mut bytes)?;
                *head = next(run)?;
            }
        }
        each(word, &bytes)?;
    }
    Ok(())
}
