//! Threads that answer questions, and the queue in which questions wait for them as jobs. A job is
//! refused at once if it would have to wait too long. Clients take turns, one job each, so that no
//! client waits for all jobs of another. Does not depend on what jobs do.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use crate::Client;
use agent_ground::locks::locked;

/// A new job is refused if it is expected to wait longer than this.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(250);
/// Maximum number of waiting jobs; each client with waiting jobs may have an equal share of them.
pub(super) const MAX_WAITING: usize = 1_024;
/// Minimum and maximum `Retry-After` in seconds for a refused job.
const RETRY_SECONDS: (f64, f64) = (1.0, 60.0);
/// Weight of the newest duration in the smoothed duration of a job, from 0 to 1.
const WEIGHT: f64 = 0.1;
/// Length of the time windows in which answers and refusals are counted, before their ratio is
/// smoothed.
const WINDOW: Duration = Duration::from_secs(1);

/// Why a job has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Too many jobs are waiting; try again after this many seconds.
    Busy(u64),
    /// The job missed its deadline.
    Expired,
    /// The queue accepts no more jobs, since the server is ending.
    Draining,
    /// The job panicked.
    Failed,
}

/// A job, and a check whether it is still needed.
struct Job {
    run: Box<dyn FnOnce() + Send>,
    /// Whether the job is no longer needed: its caller is gone, or its deadline has passed.
    pointless: Box<dyn Fn() -> bool + Send>,
}

/// Threads that run jobs, and the queue in which jobs wait for a thread.
pub(super) struct Queue {
    shared: Arc<Shared>,
    threads: usize,
}

/// The waiting jobs by client; the clients are in the order in which their turns come.
#[derive(Default)]
struct Lanes {
    /// Each client with its waiting jobs, at least one.
    lanes: VecDeque<(Client, VecDeque<Job>)>,
}

impl Lanes {
    /// Returns the number of waiting jobs of a client, and the number of clients with waiting jobs,
    /// including this client.
    fn of(&self, client: Client) -> (usize, usize) {
        match self.lanes.iter().find(|(of, _)| *of == client) {
            Some((_, jobs)) => (jobs.len(), self.lanes.len()),
            None => (0, self.lanes.len() + 1),
        }
    }

    fn push(&mut self, client: Client, job: Job) {
        match self.lanes.iter_mut().find(|(of, _)| *of == client) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.lanes.push_back((client, VecDeque::from([job]))),
        }
    }

    /// Takes the next job of the client whose turn it is; that client then goes to the end.
    fn pop(&mut self) -> Option<Job> {
        let (client, mut jobs) = self.lanes.pop_front()?;
        let job = jobs.pop_front();
        if !jobs.is_empty() {
            self.lanes.push_back((client, jobs));
        }
        job
    }

    fn len(&self) -> usize {
        self.lanes.iter().map(|(_, jobs)| jobs.len()).sum()
    }
}

struct Shared {
    waiting: Mutex<Lanes>,
    come: Condvar,
    closed: AtomicBool,
    /// Number of jobs that are running.
    running: AtomicUsize,
    /// Smoothed duration of a job, in nanoseconds; 0 before the first job.
    typical: AtomicU64,
    load: Mutex<Load>,
}

/// Ratio of refused to answered jobs; this ratio, smoothed, is the `Retry-After` in seconds.
struct Load {
    /// When the current time window began.
    since: Instant,
    /// Number of jobs answered in the current time window.
    answered: u64,
    /// Number of jobs refused in the current time window.
    refused: u64,
    /// Smoothed number of refusals per answer over past time windows.
    smoothed: f64,
}

impl Queue {
    /// Starts the threads and an empty queue.
    ///
    /// # Errors
    /// If the operating system refuses to start threads.
    pub(super) fn start(threads: usize) -> std::io::Result<Queue> {
        let load = Load { since: Instant::now(), answered: 0, refused: 0, smoothed: 0.0 };
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            come: Condvar::new(),
            closed: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            typical: AtomicU64::new(0),
            load: Mutex::new(load),
        });
        for n in 0..threads {
            let shared = shared.clone();
            thread::Builder::new().name(format!("answer-{n}")).spawn(move || shared.work())?;
        }
        Ok(Queue { shared, threads })
    }

    /// Runs the job `work` on one of the threads and returns its result. A job is not started any
    /// more once its caller is gone or its deadline has passed.
    ///
    /// # Errors
    /// [`Refused`] if the job was refused, panicked, or missed the deadline.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let (done, result) = oneshot::channel();
        let done = Arc::new(Mutex::new(Some(done)));
        let waits = done.clone();
        let pointless = move || {
            let waits = locked(&waits);
            waits.as_ref().is_none_or(oneshot::Sender::is_closed) || Instant::now() >= deadline
        };
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            let sender = locked(&done).take();
            if let (Some(sender), Ok(outcome)) = (sender, outcome) {
                // The caller may be gone.
                let _ = sender.send(outcome);
            }
        };
        self.push(Job { run: Box::new(run), pointless: Box::new(pointless) })?;
        let left = deadline.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, result).await {
            Ok(Ok(outcome)) => Ok(outcome),
            // The job ended without a result before its deadline, so it panicked.
            Ok(Err(_)) if Instant::now() < deadline => Err(Refused::Failed),
            _ => Err(Refused::Expired),
        }
    }

    fn push(&self, job: Job) -> Result<(), Refused> {
        let shared = &self.shared;
        if shared.closed.load(Ordering::Relaxed) {
            return Err(Refused::Draining);
        }
        let client = Client::now();
        let mut waiting = locked(&shared.waiting);
        let typical = Duration::from_nanos(shared.typical.load(Ordering::Relaxed));
        let (own, clients) = waiting.of(client);
        let before = u32::try_from(own * clients / self.threads.max(1)).unwrap_or(u32::MAX);
        if own >= MAX_WAITING / clients || typical.saturating_mul(before) > LONGEST_WAIT {
            drop(waiting);
            return Err(Refused::Busy(shared.count(false)));
        }
        waiting.push(client, job);
        drop(waiting);
        shared.come.notify_one();
        Ok(())
    }

    /// Refuses jobs from now on; waiting jobs are still run.
    pub(super) fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        self.shared.come.notify_all();
    }

    /// Returns the number of waiting jobs.
    pub(super) fn waiting(&self) -> usize {
        locked(&self.shared.waiting).len()
    }

    /// Returns the number of running jobs.
    pub(super) fn running(&self) -> usize {
        self.shared.running.load(Ordering::Relaxed)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Runs jobs until the queue is closed and empty.
    fn work(&self) {
        while let Some(job) = self.next() {
            if (job.pointless)() {
                continue;
            }
            self.running.fetch_add(1, Ordering::Relaxed);
            let began = Instant::now();
            (job.run)();
            self.running.fetch_sub(1, Ordering::Relaxed);
            self.note(began.elapsed());
        }
    }

    fn next(&self) -> Option<Job> {
        let mut waiting = locked(&self.waiting);
        loop {
            if let Some(job) = waiting.pop() {
                return Some(job);
            }
            if self.closed.load(Ordering::Relaxed) {
                return None;
            }
            waiting = self.come.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn note(&self, took: Duration) {
        let (took, old) = (took.as_nanos() as f64, self.typical.load(Ordering::Relaxed) as f64);
        let smoothed = if old == 0.0 { took } else { old + WEIGHT * (took - old) };
        self.typical.store(smoothed as u64, Ordering::Relaxed);
        self.count(true);
    }

    /// Counts a job that was answered or, if not `answered`, refused. Returns the current
    /// `Retry-After` in seconds.
    fn count(&self, answered: bool) -> u64 {
        let mut load = locked(&self.load);
        match answered {
            true => load.answered += 1,
            false => load.refused += 1,
        }
        if load.since.elapsed() >= WINDOW {
            let ratio = load.refused as f64 / load.answered.max(1) as f64;
            load.smoothed += 0.5 * (ratio - load.smoothed);
            (load.since, load.answered, load.refused) = (Instant::now(), 0, 0);
        }
        load.smoothed.clamp(RETRY_SECONDS.0, RETRY_SECONDS.1).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[tokio::test]
    async fn work_is_done_and_its_panics_are_told() {
        let queue = Queue::start(2).unwrap();
        assert_eq!(queue.run(soon(), || 6 * 7).await, Ok(42));
        assert_eq!(queue.run(soon(), || -> u32 { panic!("no") }).await, Err(Refused::Failed));
        assert_eq!(queue.run(soon(), || 1).await, Ok(1), "the thread goes on");
        queue.close();
        assert_eq!(queue.run(soon(), || 1).await, Err(Refused::Draining));
    }

    #[tokio::test]
    async fn what_would_wait_too_long_is_refused_and_what_nobody_waits_for_is_not_done() {
        let queue = Arc::new(Queue::start(1).unwrap());
        let (go, gate) = mpsc::channel::<()>();
        let hold = tokio::spawn({
            let queue = queue.clone();
            async move { queue.run(soon(), move || gate.recv()).await }
        });
        while queue.running() == 0 {
            tokio::task::yield_now().await;
        }
        // One piece of work is said to take long; a second one behind it would wait for that.
        queue.shared.typical.store(400_000_000, Ordering::Relaxed);
        let done = Arc::new(AtomicBool::new(false));
        let first = {
            let (queue, done) = (queue.clone(), done.clone());
            tokio::spawn(async move {
                queue.run(soon(), move || done.store(true, Ordering::SeqCst)).await
            })
        };
        while queue.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(queue.run(soon(), || ()).await, Err(Refused::Busy(1)));
        first.abort();
        let _ = first.await;
        go.send(()).unwrap();
        assert!(hold.await.unwrap().unwrap().is_ok());
        while queue.waiting() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(!done.load(Ordering::SeqCst), "nobody waited for it");
    }

    #[tokio::test]
    async fn clients_take_turns_and_one_that_floods_is_refused_alone() {
        let queue = Arc::new(Queue::start(1).unwrap());
        let (go, gate) = mpsc::channel::<()>();
        let (done, order) = mpsc::channel();
        let ask = |client: usize, work: Box<dyn FnOnce() + Send>| {
            let queue = queue.clone();
            tokio::spawn(Client::of(client).asks(async move { queue.run(soon(), work).await }))
        };
        let hold = ask(0, Box::new(move || assert!(gate.recv().is_ok())));
        while queue.running() == 0 {
            tokio::task::yield_now().await;
        }
        queue.shared.typical.store(100_000_000, Ordering::Relaxed);
        let mut asked = Vec::new();
        for (n, client) in [0, 0, 0, 1].into_iter().enumerate() {
            let done = done.clone();
            asked.push(ask(client, Box::new(move || done.send(client).unwrap())));
            while queue.waiting() <= n {
                tokio::task::yield_now().await;
            }
        }
        // Three pieces and the turns of the other would take longer than the bound.
        let flooding = Client::of(0).asks(queue.run(soon(), || ())).await;
        assert!(matches!(flooding, Err(Refused::Busy(_))));
        go.send(()).unwrap();
        for one in asked {
            one.await.unwrap().unwrap();
        }
        hold.await.unwrap().unwrap();
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [0, 1, 0, 0]);
    }

    #[test]
    fn explanations_wait_for_each_other_and_not_before_plain_questions() {
        let mut lanes = Lanes::default();
        let client = Client::of(0);
        for _ in 0..3 {
            let job = Job { run: Box::new(|| ()), pointless: Box::new(|| false) };
            lanes.push(client.explaining(true), job);
        }
        assert_eq!(lanes.of(client.explaining(true)), (3, 1));
        assert_eq!(lanes.of(client), (0, 2));
    }

    #[tokio::test]
    async fn work_that_is_late_is_told_so() {
        let queue = Queue::start(1).unwrap();
        let late = Instant::now() + Duration::from_millis(5);
        let slow = || thread::sleep(Duration::from_millis(200));
        assert_eq!(queue.run(late, slow).await, Err(Refused::Expired));
    }
}
