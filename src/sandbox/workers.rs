//! Threads on which programs run: few, with big stacks, fed by a bounded queue.
//!
//! Dropping a long chain of program values recurses once per link, and an overflow ends the
//! process. A chain cannot have more links than a program has operations, and a link takes at most
//! some 220 bytes of stack, so [`STACK_BYTES`] goes with
//! [`Limits::operations`](crate::Limits): change one and measure the other.
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
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, Builder, JoinHandle, available_parallelism},
    time::Duration,
};

use rayon::{ThreadPool, ThreadPoolBuilder};

use agent_ground::clock::Timer;

/// Stack of a worker, bytes. Virtual: only touched pages cost memory.
pub const STACK_BYTES: usize = 256 << 20;
/// Jobs that may wait for each worker before a caller has to.
pub const QUEUE_PER_WORKER: usize = 4;
/// The most workers of one pool; each may hold a whole memory budget.
pub const MAX_WORKERS: usize = 256;
/// The most threads of one pool beside that of the process.
const MAX_APART: usize = 16;
/// Workers of one pool that may be stuck in a job that nobody waits for any more, and are replaced.
const MAX_STUCK: usize = 16;
/// Processor time of a job beyond its deadline before nobody waits for it any more. What ends by
/// itself ends below it.
const GRACE: Duration = Duration::from_millis(400);
/// How often a caller looks at a job that should have ended, at most.
const LOOK: Duration = Duration::from_millis(5);
/// How often a caller looks whether its job has begun.
const LOOK_FOR_BEGIN: Duration = Duration::from_millis(100);

thread_local! {
    static HAS_BIG_STACK: Cell<bool> = const { Cell::new(false) };
}

/// What becomes of a worker after a job.
#[derive(Clone, Copy, PartialEq)]
enum After {
    /// It takes the next.
    Next,
    /// It ends: another has taken its place.
    Leave,
}

type Job = Box<dyn FnOnce() -> After + Send>;

/// Why a job gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobLost {
    /// It panicked.
    #[error("the job panicked on its worker")]
    Panicked,
    /// It did not end when it had to; it may still work, and is not waited for.
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// So many jobs did not end that no worker is left.
    #[error("more than {MAX_STUCK} programs did not end; start again")]
    NoWorker,
}

/// Where a job is.
const WORKING: u8 = 0;
const ENDED: u8 = 1;
/// Nobody waits for it any more, and its worker was replaced.
const GIVEN_UP: u8 = 2;
/// Nobody waits for it any more, as no worker was left to take it.
const UNTAKEN: u8 = 3;

/// What a caller sees of its job.
#[derive(Default)]
struct Watched {
    /// When it began, and what it may take.
    timer: OnceLock<Timer>,
    state: AtomicU8,
}

impl Watched {
    /// Moves on from [`WORKING`]; whether it was there.
    fn set(&self, state: u8) -> bool {
        let order = Ordering::SeqCst;
        self.state.compare_exchange(WORKING, state, order, order).is_ok()
    }

    fn is(&self, state: u8) -> bool {
        self.state.load(Ordering::SeqCst) == state
    }
}

/// An answer that is on its way.
pub struct Pending<T>(Receiver<T>);

impl<T> Pending<T> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// [`JobLost::Panicked`].
    pub fn wait(self) -> Result<T, JobLost> {
        self.0.recv().map_err(|_| JobLost::Panicked)
    }
}

/// What workers of one pool share.
struct Shared {
    jobs: Mutex<Receiver<Job>>,
    /// Workers that take jobs.
    able: AtomicUsize,
    /// Workers that were replaced and still work.
    stuck: AtomicUsize,
}

/// A pool of threads with big stacks. Dropping it waits for the jobs that were submitted, but for
/// those that were given up.
pub struct Workers {
    queue: Option<SyncSender<Job>>,
    shared: Arc<Shared>,
    threads: Mutex<Vec<Worker>>,
    n: usize,
}

/// A thread and the pool of which it is the only one.
struct Worker {
    pool: ThreadPool,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Starts a thread that works off jobs until no more can come.
    fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let at = shared.able.load(Ordering::SeqCst);
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
        shared.able.fetch_add(1, Ordering::SeqCst);
        let own = shared.clone();
        pool.spawn(move || work(&own.jobs));
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
        let (able, stuck) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let shared = Arc::new(Shared { jobs: Mutex::new(jobs), able, stuck });
        let threads = (0..n).map(|_| Worker::start(&shared)).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { queue: Some(queue), shared, threads: Mutex::new(threads), n })
    }

    /// How many threads there are.
    pub fn count(&self) -> usize {
        self.n
    }

    /// Hands a job to the pool; waits while the queue is full. A job submitted by a worker runs at
    /// once on that worker, as waiting for itself would never end.
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Pending<T> {
        let (answer, pending) = sync_channel(1);
        self.enqueue(Box::new(move || {
            // Nobody may be waiting any more; then the answer is dropped here, on the big stack.
            let _ = answer.send(job());
            After::Next
        }));
        Pending(pending)
    }

    /// Runs one job and waits for it.
    ///
    /// # Errors
    /// [`JobLost::Panicked`].
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JobLost> {
        self.submit(job).wait()
    }

    /// Runs one job that ends by itself within `deadline`, in processor time of its thread, and
    /// waits for it no longer than a little beyond, in wall time [`WALL_PER_WORK`] times and
    /// `waiting` more. A worker whose job does not end is replaced, and ends when the job does. A
    /// job of a worker runs at once on it, within the bounds of the worker's own.
    ///
    /// [`WALL_PER_WORK`]: agent_ground::clock::WALL_PER_WORK
    ///
    /// # Errors
    /// [`JobLost`].
    pub fn run_within<T: Send + 'static>(
        &self,
        deadline: Duration,
        waiting: Duration,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JobLost> {
        if on_big_stack() {
            return self.run(job);
        }
        let watched = Arc::new(Watched::default());
        let (of_job, shared) = (watched.clone(), self.shared.clone());
        let (answer, wait) = sync_channel(1);
        self.enqueue(Box::new(move || {
            let timer = Timer::start(deadline).with_grace(GRACE).with_waiting(waiting);
            let _ = of_job.timer.set(timer);
            if of_job.is(UNTAKEN) {
                return After::Next;
            }
            let done = catch_unwind(AssertUnwindSafe(job));
            if of_job.set(ENDED) {
                if let Ok(done) = done {
                    let _ = answer.send(done);
                }
                return After::Next;
            }
            if of_job.is(UNTAKEN) {
                return After::Next;
            }
            shared.stuck.fetch_sub(1, Ordering::SeqCst);
            After::Leave
        }));
        self.wait_for(&watched, &wait)
    }

    /// Waits for a job until it has to have ended.
    fn wait_for<T>(&self, watched: &Watched, wait: &Receiver<T>) -> Result<T, JobLost> {
        let mut patience = LOOK_FOR_BEGIN;
        loop {
            match wait.recv_timeout(patience) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) if watched.timer.get().is_none() => {
                    return Err(JobLost::NoWorker);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(JobLost::Panicked),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let Some(timer) = watched.timer.get() else {
                if self.shared.able.load(Ordering::SeqCst) == 0 && watched.set(UNTAKEN) {
                    return Err(JobLost::NoWorker);
                }
                continue;
            };
            let left = timer.left();
            if left.is_zero() && watched.set(GIVEN_UP) {
                self.replace_one();
                return Err(JobLost::Late(timer.elapsed()));
            }
            patience = left.max(LOOK);
        }
    }

    /// Puts another worker in the place of one that does not end, unless too many are stuck. The
    /// other one begins first, so that nobody sees a pool without workers meanwhile.
    fn replace_one(&self) {
        // Where the system refuses a thread, the pool is smaller by one.
        if self.shared.stuck.fetch_add(1, Ordering::SeqCst) < MAX_STUCK
            && let Ok(worker) = Worker::start(&self.shared)
        {
            let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            threads.push(worker);
        }
        self.shared.able.fetch_sub(1, Ordering::SeqCst);
    }

    /// Hands over a job; waits while the queue is full, unless no worker is left to take one. A job
    /// that is not taken is dropped, and with it the sender of its answer: the caller sees that.
    fn enqueue(&self, mut job: Job) {
        if on_big_stack() {
            let _ = catch_unwind(AssertUnwindSafe(job));
            return;
        }
        let Some(queue) = &self.queue else { return };
        while let Err(TrySendError::Full(back)) = queue.try_send(job) {
            if self.shared.able.load(Ordering::SeqCst) == 0 {
                return;
            }
            job = back;
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue = None;
        // A worker that is stuck may never end: then none is waited for.
        if self.shared.stuck.load(Ordering::SeqCst) > 0 {
            return;
        }
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for Worker { pool, thread } in threads.drain(..) {
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
                if catch_unwind(AssertUnwindSafe(job)).is_ok_and(|after| after == After::Leave) {
                    return;
                }
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
    use std::{
        sync::mpsc::channel,
        thread,
        time::{Duration, Instant},
    };

    use rayon::prelude::*;

    use super::{JobLost, MAX_STUCK, Workers, pool_apart};

    const SHORT: Duration = Duration::from_millis(10);
    const NONE: Duration = Duration::ZERO;

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

    /// Workers that wait for one another's jobs could not answer; a pool of one that is stuck has
    /// to be another's.
    #[test]
    fn a_job_that_does_not_end_is_given_up_and_its_worker_replaced() {
        let workers = Workers::new(1).expect("threads");
        let (end, ended) = channel::<()>();
        let began = Instant::now();
        let lost = workers.run_within(SHORT, NONE, move || ended.recv().is_ok());
        assert!(matches!(lost, Err(JobLost::Late(_))), "{lost:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert_eq!(workers.run_within(SHORT, NONE, || 7), Ok(7));
        drop(end);
        assert_eq!(workers.run_within(SHORT, NONE, || 8), Ok(8));
    }

    #[test]
    fn waiting_that_is_allowed_is_waited_for() {
        let workers = Workers::new(1).expect("threads");
        let slow = || thread::sleep(Duration::from_secs(1));
        assert_eq!(workers.run_within(NONE, Duration::from_secs(60), slow), Ok(()));
        let lost = workers.run_within(SHORT, NONE, || std::panic::resume_unwind(Box::new(())));
        assert_eq!(lost, Err::<(), _>(JobLost::Panicked));
    }

    #[test]
    fn when_too_many_jobs_are_stuck_callers_are_told() {
        let workers = Workers::new(1).expect("threads");
        let mut ends = Vec::new();
        let told = thread::scope(|scope| {
            let callers: Vec<_> = (0..MAX_STUCK + 3)
                .map(|_| {
                    let (end, ended) = channel::<()>();
                    ends.push(end);
                    let stuck = move || ended.recv().is_ok();
                    scope.spawn(|| workers.run_within(NONE, NONE, stuck).map(|_| ()))
                })
                .collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(told.iter().filter(|told| **told == Err(JobLost::NoWorker)).count(), 2);
        drop(ends);
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
