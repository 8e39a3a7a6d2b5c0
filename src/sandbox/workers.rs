//! Threads that run programs: a limited number, with big stacks, that take jobs from a bounded
//! queue.
//!
//! Dropping a long chain of program values recurses once per link, and a stack overflow ends the
//! process. A chain has at most as many links as a program has operations, and a link takes at most
//! about 220 bytes of stack. So [`STACK_BYTES`] depends on [`Limits::operations`](crate::Limits):
//! when one of them changes, measure whether the other must change too.
//!
//! Each worker is the only thread of its own rayon pool, so parallel work inside a job runs on the
//! worker itself, sequentially. All threads of the global rayon pool may be waiting for programs.
//! So a program that waits for work in the global pool could wait forever. If a job waits for work
//! on other threads, that work must stay out of the global pool too: see [`separate_pool`].
//!
//! Does not depend on what jobs do. The number of threads never changes a result: jobs share
//! nothing, and answers are collected in the order of the jobs.

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

use agent_ground::{clock::Timer, locks::locked, stack};

/// Size of the stack of a worker, in bytes. Only touched pages cost memory.
pub const STACK_BYTES: usize = 256 << 20;
/// Maximum number of jobs in the queue per worker; if the queue is full, callers wait.
pub const QUEUE_PER_WORKER: usize = 4;
/// Maximum number of workers of one pool; each may use the full memory budget of a call.
pub const MAX_WORKERS: usize = 256;
/// Maximum number of threads of a separate pool, see [`separate_pool`].
const MAX_SEPARATE_THREADS: usize = 16;
/// Maximum number of workers of one pool that are replaced because they are stuck in an abandoned
/// job.
const MAX_STUCK: usize = 16;
/// Additional processor time and wall time that a job gets after its deadline before it is
/// abandoned. Jobs that check their own deadline end within this time.
const GRACE: Duration = Duration::from_millis(400);
/// Minimum pause between checks of whether a job has ended; also the pause between attempts to
/// enter a full queue.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Pause between checks of whether a job has started.
const START_POLL: Duration = Duration::from_millis(100);

thread_local! {
    static HAS_BIG_STACK: Cell<bool> = const { Cell::new(false) };
}

/// What a worker does after a job.
#[derive(Clone, Copy, PartialEq)]
enum After {
    /// Takes the next job.
    Next,
    /// Ends, because another worker has replaced it.
    Leave,
}

type Job = Box<dyn FnOnce() -> After + Send>;

/// Why a job returned no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobLost {
    /// The job panicked.
    #[error("the job panicked on its worker")]
    Panicked,
    /// The job missed its deadline and was abandoned after this time; it may still run.
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// No worker was left to run the job: all are stuck in abandoned jobs.
    #[error("more than {MAX_STUCK} programs did not end; restart the process")]
    NoWorker,
}

/// State of a job that waits or runs.
const WORKING: u8 = 0;
const ENDED: u8 = 1;
/// State of a job that was abandoned while it ran; its worker is replaced.
const GIVEN_UP: u8 = 2;
/// State of a job that was abandoned before it started, because no worker was left.
const UNTAKEN: u8 = 3;

/// State of a job, shared between its worker and the caller that waits for it.
#[derive(Default)]
struct JobState {
    /// Timer of the job, set when the job starts.
    timer: OnceLock<Timer>,
    state: AtomicU8,
}

impl JobState {
    /// Changes the state from [`WORKING`] to `state`. Returns false if the state is no longer
    /// [`WORKING`].
    fn set(&self, state: u8) -> bool {
        let order = Ordering::SeqCst;
        self.state.compare_exchange(WORKING, state, order, order).is_ok()
    }

    fn is(&self, state: u8) -> bool {
        self.state.load(Ordering::SeqCst) == state
    }
}

/// Handle to a submitted job, by which its result can be awaited.
pub struct Pending<T>(Receiver<T>);

impl<T> Pending<T> {
    /// Waits until the job ends, and returns its result.
    ///
    /// # Errors
    /// [`JobLost::Panicked`] if the job panicked.
    pub fn wait(self) -> Result<T, JobLost> {
        self.0.recv().map_err(|_| JobLost::Panicked)
    }
}

/// State shared by the workers of one pool.
struct Shared {
    jobs: Mutex<Receiver<Job>>,
    /// Number of workers that take jobs.
    able: AtomicUsize,
    /// Number of replaced workers that are still running a job.
    stuck: AtomicUsize,
}

/// A pool of threads with big stacks that run jobs. Dropping the pool waits for submitted jobs,
/// unless a worker is stuck in an abandoned one.
pub struct Workers {
    queue: Option<SyncSender<Job>>,
    shared: Arc<Shared>,
    threads: Mutex<Vec<Worker>>,
    n: usize,
}

/// A worker: a thread, which is the only one of its own rayon pool.
struct Worker {
    pool: ThreadPool,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Starts a thread that runs jobs until the queue is closed.
    fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let index = shared.able.load(Ordering::SeqCst);
        let mut started = None;
        let pool = ThreadPoolBuilder::new()
            .num_threads(1)
            .spawn_handler(|thread| {
                let builder =
                    Builder::new().name(format!("program-{index}")).stack_size(STACK_BYTES);
                started = Some(builder.spawn(move || thread.run())?);
                Ok(())
            })
            .build()
            .map_err(io::Error::other)?;
        let thread = started.ok_or_else(|| io::Error::other("the pool has no thread"))?;
        shared.able.fetch_add(1, Ordering::SeqCst);
        let shared = shared.clone();
        pool.spawn(move || work(&shared.jobs));
        Ok(Self { pool, thread })
    }
}

/// Starts a rayon pool for parallel work that a job waits for. Work already spawned finishes even
/// if the pool is dropped; a panic ends only the work that panicked.
///
/// # Errors
/// If the system refuses to start a thread.
pub(super) fn separate_pool(name: &'static str) -> io::Result<ThreadPool> {
    ThreadPoolBuilder::new()
        .num_threads(available_parallelism().map_or(1, usize::from).min(MAX_SEPARATE_THREADS))
        .thread_name(move |_| name.to_owned())
        .panic_handler(|_| ())
        .build()
        .map_err(io::Error::other)
}

impl Workers {
    /// Starts a pool of `n` workers, at least one and at most [`MAX_WORKERS`].
    ///
    /// # Errors
    /// If the system refuses to start a thread with a stack of [`STACK_BYTES`].
    pub fn new(n: usize) -> io::Result<Self> {
        let n = n.clamp(1, MAX_WORKERS);
        let (queue, jobs) = sync_channel::<Job>(n * QUEUE_PER_WORKER);
        let (able, stuck) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let shared = Arc::new(Shared { jobs: Mutex::new(jobs), able, stuck });
        let threads = (0..n).map(|_| Worker::start(&shared)).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { queue: Some(queue), shared, threads: Mutex::new(threads), n })
    }

    /// Returns the number of workers that the pool was started with.
    pub fn count(&self) -> usize {
        self.n
    }

    /// Submits a job, and returns without waiting for its result; waits while the queue is full. A
    /// job submitted by a worker runs at once on that worker, which would otherwise wait for
    /// itself.
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Pending<T> {
        let (answer, pending) = sync_channel(1);
        self.enqueue(Box::new(move || {
            // Without a receiver the answer is dropped here, on the big stack.
            let _ = answer.send(job());
            After::Next
        }));
        Pending(pending)
    }

    /// Runs one job and waits for its result, without a time limit.
    ///
    /// # Errors
    /// [`JobLost::Panicked`] if the job panicked.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JobLost> {
        self.submit(job).wait()
    }

    /// Runs one job and waits for its result, until the job's thread has used slightly more
    /// processor time than `deadline`. The limit of wall time is [`WALL_PER_WORK`] times as long,
    /// plus `waiting`. If the job does not end by then, its worker is replaced, and stops once the
    /// job ends. A job submitted by a worker runs at once on that worker, without these limits.
    ///
    /// [`WALL_PER_WORK`]: agent_ground::clock::WALL_PER_WORK
    ///
    /// # Errors
    /// Returns why the job was lost, see [`JobLost`].
    pub fn run_within<T: Send + 'static>(
        &self,
        deadline: Duration,
        waiting: Duration,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JobLost> {
        if on_big_stack() {
            return self.run(job);
        }
        let state = Arc::new(JobState::default());
        let (job_state, shared) = (state.clone(), self.shared.clone());
        let (answer, wait) = sync_channel(1);
        self.enqueue(Box::new(move || {
            let timer = Timer::start(deadline).with_grace(GRACE).with_waiting(waiting);
            let _ = job_state.timer.set(timer);
            if job_state.is(UNTAKEN) {
                return After::Next;
            }
            let done = catch_unwind(AssertUnwindSafe(job));
            if job_state.set(ENDED) {
                if let Ok(done) = done {
                    let _ = answer.send(done);
                }
                return After::Next;
            }
            if job_state.is(UNTAKEN) {
                return After::Next;
            }
            shared.stuck.fetch_sub(1, Ordering::SeqCst);
            After::Leave
        }));
        self.wait_for(&state, &wait)
    }

    /// Waits for the result of a job until the job ends or its time is over.
    fn wait_for<T>(&self, state: &JobState, wait: &Receiver<T>) -> Result<T, JobLost> {
        let mut pause = START_POLL;
        loop {
            match wait.recv_timeout(pause) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) if state.timer.get().is_none() => {
                    return Err(JobLost::NoWorker);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(JobLost::Panicked),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let Some(timer) = state.timer.get() else {
                if self.shared.able.load(Ordering::SeqCst) == 0 && state.set(UNTAKEN) {
                    return Err(JobLost::NoWorker);
                }
                continue;
            };
            let left = timer.left();
            if left.is_zero() && state.set(GIVEN_UP) {
                self.replace_one();
                return Err(JobLost::Late(timer.elapsed()));
            }
            pause = left.max(POLL_INTERVAL);
        }
    }

    /// Replaces a stuck worker by a new one, unless [`MAX_STUCK`] workers are stuck already. The
    /// new worker is counted before the stuck one is subtracted, so that callers never see a pool
    /// without workers.
    fn replace_one(&self) {
        // If the system refuses a thread, the pool shrinks by one.
        if self.shared.stuck.fetch_add(1, Ordering::SeqCst) < MAX_STUCK
            && let Ok(worker) = Worker::start(&self.shared)
        {
            let mut threads = locked(&self.threads);
            threads.push(worker);
        }
        self.shared.able.fetch_sub(1, Ordering::SeqCst);
    }

    /// Queues a job; waits while the queue is full. If no worker is left, drops the job and the
    /// sender of its result, which tells the caller that the job is lost.
    fn enqueue(&self, mut job: Job) {
        if on_big_stack() {
            let _ = catch_unwind(AssertUnwindSafe(job));
            return;
        }
        let Some(queue) = &self.queue else { return };
        while let Err(TrySendError::Full(returned)) = queue.try_send(job) {
            if self.shared.able.load(Ordering::SeqCst) == 0 {
                return;
            }
            job = returned;
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue = None;
        // A stuck worker may never end.
        if self.shared.stuck.load(Ordering::SeqCst) > 0 {
            return;
        }
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for Worker { pool, thread } in threads.drain(..) {
            // The thread ends once its pool is dropped and no job is left.
            drop(pool);
            let _ = thread.join();
        }
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    HAS_BIG_STACK.set(true);
    loop {
        let job = locked(jobs).recv();
        match job {
            // A panic loses the answer; the worker continues.
            Ok(job) => {
                if catch_unwind(AssertUnwindSafe(job)).is_ok_and(|after| after == After::Leave) {
                    return;
                }
                // A program may have used the whole stack; return its memory to the system.
                stack::give_back();
            }
            Err(_) => return,
        }
    }
}

/// Whether this thread has a big stack, so that it may run programs and drop their values.
pub(super) fn on_big_stack() -> bool {
    HAS_BIG_STACK.get()
}

/// Drops a value on a thread with a big stack, which is started if necessary. If the system refuses
/// the thread, the value is leaked, because a stack overflow would end the process.
pub(super) fn drop_on_big_stack<T: Send + 'static>(value: T) {
    if on_big_stack() {
        drop(value);
        return;
    }
    let slot = Arc::new(Mutex::new(Some(value)));
    let moved = slot.clone();
    let thread = Builder::new().stack_size(STACK_BYTES).spawn(move || {
        drop(locked(&moved).take());
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

    use super::{JobLost, MAX_STUCK, Workers, separate_pool};

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
    fn a_separate_pool_lets_its_work_end_and_outlives_a_panic() {
        let (answer, wait) = std::sync::mpsc::sync_channel(1);
        let pool = separate_pool("test").expect("threads");
        pool.spawn(|| std::panic::resume_unwind(Box::new(())));
        pool.spawn(move || answer.send((0..100).into_par_iter().sum::<u32>()).expect("a receiver"));
        drop(pool);
        assert_eq!(wait.recv(), Ok(4_950));
    }

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
    fn callers_get_an_error_when_too_many_jobs_are_stuck() {
        let workers = Workers::new(1).expect("threads");
        let mut ends = Vec::new();
        let results = thread::scope(|scope| {
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
        assert_eq!(results.iter().filter(|result| **result == Err(JobLost::NoWorker)).count(), 2);
        drop(ends);
    }

    #[test]
    fn answers_come_in_the_order_of_jobs_and_a_panic_does_not_end_a_worker() {
        let workers = Workers::new(2).expect("threads");
        let pending: Vec<_> = (0..100).map(|n| workers.submit(move || n * 2)).collect();
        let answers: Vec<_> = pending.into_iter().map(|answer| answer.wait().ok()).collect();
        assert_eq!(answers, (0..100).map(|n| Some(n * 2)).collect::<Vec<_>>());
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
