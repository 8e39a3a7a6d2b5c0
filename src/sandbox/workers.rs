//! Threads on which programs run: few, with big stacks, fed by a bounded queue.
//!
//! Dropping a long chain of program values recurses once per link, and an overflow ends the
//! process. A chain cannot have more links than a program has operations, and a link takes at most
//! some 220 bytes of stack, so [`STACK_BYTES`] goes with
//! [`Limits::operations`](crate::sandbox::Limits): change one and measure the other.
//!
//! Each worker is the one thread of a rayon pool of its own, so that parallel work inside a job runs
//! on the worker itself, one piece after the other. In the pool of the process every thread may be
//! waiting for a program, and a program that waited for them would never end. What a job waits for
//! on another thread must stay out of that pool as well: see [`pool_apart`].
//!
//! Must not know what a job is. The number of threads never changes a result: jobs share nothing,
//! and answers are collected in the order of the jobs.

use std::{
    cell::Cell,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{Builder, JoinHandle, available_parallelism},
};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Stack of a worker, bytes. Virtual: only touched pages cost memory.
pub const STACK_BYTES: usize = 256 << 20;
/// Jobs that may wait for each worker before a caller has to.
pub const QUEUE_PER_WORKER: usize = 4;
/// The most workers of one pool; each may hold a whole memory budget.
pub const MAX_WORKERS: usize = 256;
/// The most threads of one pool beside that of the process.
const MAX_APART: usize = 16;

thread_local! {
    static HAS_BIG_STACK: Cell<bool> = const { Cell::new(false) };
}

type Job = Box<dyn FnOnce() + Send>;

/// The job ended without an answer: it panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the job panicked on its worker")]
pub struct JobLost;

/// An answer that is on its way.
pub struct Pending<T>(Receiver<T>);

impl<T> Pending<T> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// [`JobLost`] when the job panicked.
    pub fn wait(self) -> Result<T, JobLost> {
        self.0.recv().map_err(|_| JobLost)
    }
}

/// A pool of threads with big stacks. Dropping it waits for the jobs that were submitted.
pub struct Workers {
    queue: Option<SyncSender<Job>>,
    threads: Vec<Worker>,
}

/// A thread and the pool of which it is the only one.
struct Worker {
    pool: ThreadPool,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Starts a thread that works off jobs until no more can come.
    fn start(at: usize, jobs: Arc<Mutex<Receiver<Job>>>) -> io::Result<Self> {
        let mut started = None;
        let pool = ThreadPoolBuilder::new()
            .num_threads(1)
            .spawn_handler(|thread| {
                let builder = Builder::new().name(format!("program-{at}")).stack_size(STACK_BYTES);
                started = Some(builder.spawn(move || thread.run())?);
                Ok(())
            })
            .build()
            .map_err(io::Error::other)?;
        let thread = started.ok_or_else(|| io::Error::other("the pool has no thread"))?;
        pool.spawn(move || work(&jobs));
        Ok(Self { pool, thread })
    }
}

/// A pool for parallel work that a job waits for on another thread. Dropping it lets what was
/// spawned in it end. A panic of what was spawned ends that alone.
///
/// # Errors
/// When the system refuses a thread.
pub(super) fn pool_apart(name: &'static str) -> io::Result<ThreadPool> {
    ThreadPoolBuilder::new()
        .num_threads(available_parallelism().map_or(1, usize::from).min(MAX_APART))
        .thread_name(move |_| name.to_owned())
        .panic_handler(|_| ())
        .build()
        .map_err(io::Error::other)
}

impl Workers {
    /// A pool of `n` threads, at least one and at most [`MAX_WORKERS`].
    ///
    /// # Errors
    /// When the system refuses a thread of [`STACK_BYTES`].
    pub fn new(n: usize) -> io::Result<Self> {
        let n = n.clamp(1, MAX_WORKERS);
        let (queue, jobs) = sync_channel::<Job>(n * QUEUE_PER_WORKER);
        let jobs = Arc::new(Mutex::new(jobs));
        let threads =
            (0..n).map(|at| Worker::start(at, jobs.clone())).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { queue: Some(queue), threads })
    }

    /// How many threads there are.
    pub fn count(&self) -> usize {
        self.threads.len()
    }

    /// Hands a job to the pool; waits while the queue is full. A job submitted by a worker runs at
    /// once on that worker, as waiting for itself would never end.
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Pending<T> {
        let (answer, pending) = sync_channel(1);
        let job: Job = Box::new(move || {
            // Nobody may be waiting any more; then the answer is dropped here, on the big stack.
            let _ = answer.send(job());
        });
        if on_big_stack() {
            let _ = catch_unwind(AssertUnwindSafe(job));
        } else if let Some(queue) = &self.queue {
            // A failed send drops the job, and with it the sender: the caller sees `JobLost`.
            let _ = queue.send(job);
        }
        Pending(pending)
    }

    /// Runs one job and waits for it.
    ///
    /// # Errors
    /// [`JobLost`] when the job panicked.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JobLost> {
        self.submit(job).wait()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue = None;
        for Worker { pool, thread } in self.threads.drain(..) {
            // Its thread ends once it is gone and no job is left.
            drop(pool);
            let _ = thread.join();
        }
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    HAS_BIG_STACK.set(true);
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            // A job that panics loses its answer; the worker goes on.
            Ok(job) => {
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
            Err(_) => return,
        }
    }
}

/// Whether this thread may run and drop program values.
pub(super) fn on_big_stack() -> bool {
    HAS_BIG_STACK.get()
}

/// Drops a value on a thread with a big stack; where none can be had, the value is leaked, as an
/// overflow would end the process.
pub(super) fn drop_on_big_stack<T: Send + 'static>(value: T) {
    if on_big_stack() {
        drop(value);
        return;
    }
    let slot = Arc::new(Mutex::new(Some(value)));
    let there = slot.clone();
    let thread = Builder::new().stack_size(STACK_BYTES).spawn(move || {
        drop(there.lock().unwrap_or_else(PoisonError::into_inner).take());
    });
    match thread {
        Ok(thread) => {
            let _ = thread.join();
        }
        Err(_) => std::mem::forget(slot),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rayon::prelude::*;

    use super::{Workers, pool_apart};

    #[test]
    fn parallel_work_of_a_job_runs_on_its_worker_alone() {
        let workers = Workers::new(2).expect("threads");
        let elsewhere = || {
            let worker = thread::current().id();
            let pieces = (0..10_000).into_par_iter().map(|_| thread::current().id());
            let elsewhere = pieces.filter(|&id| id != worker).count();
            let (left, right) = rayon::join(|| thread::current().id(), || thread::current().id());
            (elsewhere, left == worker && right == worker, rayon::current_num_threads())
        };
        for _ in 0..10 {
            assert_eq!(workers.run(elsewhere), Ok((0, true, 1)));
        }
    }

    #[test]
    fn a_pool_apart_lets_its_work_end_and_outlives_a_panic() {
        let (answer, wait) = std::sync::mpsc::sync_channel(1);
        let pool = pool_apart("test").expect("threads");
        pool.spawn(|| std::panic::resume_unwind(Box::new(())));
        pool.spawn(move || answer.send((0..100).into_par_iter().sum::<u32>()).expect("a receiver"));
        drop(pool);
        assert_eq!(wait.recv(), Ok(4_950));
    }

    #[test]
    fn answers_come_in_the_order_of_jobs_and_a_panic_does_not_end_a_worker() {
        let workers = Workers::new(2).expect("threads");
        let pending: Vec<_> = (0..100).map(|at| workers.submit(move || at * 2)).collect();
        let answers: Vec<_> = pending.into_iter().map(|answer| answer.wait().ok()).collect();
        assert_eq!(answers, (0..100).map(|at| Some(at * 2)).collect::<Vec<_>>());
        for _ in 0..4 {
            let lost = workers.run(|| std::panic::resume_unwind(Box::new(())));
            assert!(lost.is_err());
        }
        assert_eq!(workers.run(|| 7), Ok(7));
    }

    #[test]
    fn a_job_may_submit_a_job() {
        let workers = std::sync::Arc::new(Workers::new(1).expect("threads"));
        let inner = workers.clone();
        assert_eq!(workers.run(move || inner.run(|| 3)), Ok(Ok(3)));
    }
}
