//! Work that threads do for requests: bounded by the time it would wait, refused at once when there
//! is too much. Clients take turns, so that a client waits for its own work and one piece of each other
//! client, not for all that others sent. Must not know what the work is.

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

use crate::client::Client;

/// Longest time that new work may be expected to wait.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(250);
/// Pieces of work that wait at most, whatever they take; clients that have some share them.
pub(super) const MAX_WAITING: usize = 1_024;
/// Bounds of the time after which a refused client is told to come again, seconds.
const RETRY_SECONDS: (f64, f64) = (1.0, 60.0);
/// What a new figure weighs in a smoothed one.
const WEIGHT: f64 = 0.1;
/// Time over which answers and refusals are counted before they are smoothed.
const WINDOW: Duration = Duration::from_secs(1);

/// Why work was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There is too much of it; the seconds after which to ask again.
    Busy(u64),
    /// It was not begun before its deadline, or not finished.
    Expired,
    /// No more work is taken.
    Draining,
    /// It panicked.
    Failed,
}

/// A piece of work; it gets whether it is to be done or was too late.
struct Job {
    run: Box<dyn FnOnce() + Send>,
    /// Whether nobody waits for it any more, or it is too late.
    pointless: Box<dyn Fn() -> bool + Send>,
}

/// Threads with a queue before them.
pub(super) struct Queue {
    shared: Arc<Shared>,
    threads: usize,
}

/// Work that waits, by client; the client whose turn it is first.
#[derive(Default)]
struct Lanes {
    /// None is empty.
    lanes: VecDeque<(Client, VecDeque<Job>)>,
}

impl Lanes {
    /// Pieces of work of a client, and the clients that have some with this one among them.
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

    /// The next piece of the client whose turn it is, which then goes to the end.
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
    /// Pieces of work that threads do now.
    running: AtomicUsize,
    /// Smoothed time of one, nanoseconds.
    typical: AtomicU64,
    load: Mutex<Load>,
}

/// Refusals for each answer, smoothed: how many turns a client waits for one of its own.
struct Load {
    since: Instant,
    answered: u64,
    refused: u64,
    smoothed: f64,
}

impl Queue {
    /// A queue with this many threads.
    ///
    /// # Errors
    /// That the system refuses them.
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

    /// Does a piece of work on one of the threads and gives what it gives.
    ///
    /// # Errors
    /// [`Refused`]; work whose caller is gone is not begun.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let (done, result) = oneshot::channel();
        let done = Arc::new(Mutex::new(Some(done)));
        let waits = done.clone();
        let pointless = move || {
            let waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
            waits.as_ref().is_none_or(oneshot::Sender::is_closed) || Instant::now() >= deadline
        };
        let run = move || {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            let sender = done.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let (Some(sender), Ok(outcome)) = (sender, outcome) {
                // Whoever asked may be gone.
                let _ = sender.send(outcome);
            }
        };
        self.push(Job { run: Box::new(run), pointless: Box::new(pointless) })?;
        let left = deadline.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, result).await {
            Ok(Ok(outcome)) => Ok(outcome),
            // Dropped without an outcome: too late before it began, or a panic.
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
        let mut waiting = shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Takes no more work; what waits is still done.
    pub(super) fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        self.shared.come.notify_all();
    }

    /// Pieces of work that wait.
    pub(super) fn waiting(&self) -> usize {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Pieces of work that are being done.
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
    /// Runs work until the queue is closed and empty.
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
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Counts an answer or a refusal; gives the seconds after which a refused client should ask
    /// again.
    fn count(&self, answered: bool) -> u64 {
        let mut load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
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
