//! Processor time of one thread, and a deadline for work that limits both processor and wall time.
//!
//! A deadline in wall time alone would fail good work on a busy machine, so work is charged the
//! processor time of its thread. Processor time does not include waiting or the work of other
//! threads, so wall time is limited as well: its limit is [`WALL_PER_WORK`] times the limit of
//! processor time.

use std::time::{Duration, Instant};

/// Ratio of the wall-time limit of work to its processor-time limit. A thread that gets a tenth of
/// a processor can still finish in time.
pub const WALL_PER_WORK: u32 = 10;

/// Clock of the processor time of one thread, which any thread can read. On systems other than
/// Linux it measures wall time.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock {
    #[cfg(target_os = "linux")]
    id: libc::clockid_t,
    started: Instant,
}

impl ThreadClock {
    /// Returns the clock of the calling thread.
    pub fn current() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            id: linux::current_clock(),
            started: Instant::now(),
        }
    }

    /// Returns the processor time that the thread has used so far. Once the thread has ended,
    /// returns the wall time since the call of [`current`](Self::current).
    pub fn now(&self) -> Duration {
        #[cfg(target_os = "linux")]
        if let Some(time) = linux::time_of(self.id) {
            return time;
        }
        self.started.elapsed()
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::time::Duration;

    /// Returns the id of the calling thread's processor-time clock. On failure, returns
    /// `CLOCK_THREAD_CPUTIME_ID`, which measures the thread that reads it.
    pub(super) fn current_clock() -> libc::clockid_t {
        let mut id = libc::CLOCK_THREAD_CPUTIME_ID;
        // SAFETY: the calling thread exists, and `id` is writable. On failure `id` stays the clock
        // of the reading thread, which can only make a deadline later.
        #[expect(unsafe_code, reason = "the system's interface")]
        let _ = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut id) };
        id
    }

    /// Returns the time of a clock; `None` if its thread has ended.
    pub(super) fn time_of(id: libc::clockid_t) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is writable; the system returns an error for an unknown clock.
        #[expect(unsafe_code, reason = "the system's interface")]
        let refused = unsafe { libc::clock_gettime(id, &raw mut time) };
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        (refused == 0).then(|| Some(Duration::new(seconds.ok()?, nanos.ok()?))).flatten()
    }
}

/// Deadline of work on one thread: a limit on its processor time and a limit on wall time.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    clock: ThreadClock,
    computed_before: Duration,
    started: Instant,
    limit: Duration,
    wall_limit: Duration,
}

impl Timer {
    /// Starts a timer on the calling thread. `limit` is the limit of processor time; the limit of
    /// wall time is [`WALL_PER_WORK`] times as long.
    pub fn start(limit: Duration) -> Self {
        let clock = ThreadClock::current();
        Self {
            clock,
            computed_before: clock.now(),
            started: Instant::now(),
            limit,
            wall_limit: limit.saturating_mul(WALL_PER_WORK),
        }
    }

    /// Extends the limit of wall time only, for waits that are not charged as work.
    pub fn with_waiting(self, more: Duration) -> Self {
        Self { wall_limit: self.wall_limit.saturating_add(more), ..self }
    }

    /// Extends the limits of processor time and of wall time.
    pub fn with_grace(self, more: Duration) -> Self {
        Self { limit: self.limit.saturating_add(more), ..self.with_waiting(more) }
    }

    /// Returns the shortest time until the deadline can pass; zero once it has passed. Makes a
    /// system call, so frequent callers should call it again only after this time.
    pub fn left(&self) -> Duration {
        let computed = self.clock.now().saturating_sub(self.computed_before);
        let wall = self.started.elapsed();
        self.limit.saturating_sub(computed).min(self.wall_limit.saturating_sub(wall))
    }

    /// Returns the wall time since the timer was started.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the processor busy for about `time`.
    fn compute(clock: &ThreadClock, time: Duration) {
        let end = clock.now() + time;
        while clock.now() < end {
            std::hint::spin_loop();
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn waiting_costs_no_processor_time_but_is_bounded_by_the_wall() {
        let timer = Timer::start(Duration::from_millis(100));
        std::thread::sleep(Duration::from_millis(200));
        let left = timer.left();
        assert!(left > Duration::from_millis(50), "{left:?} left after sleeping");
        let timer = Timer::start(Duration::from_millis(5));
        std::thread::sleep(Duration::from_millis(5 * u64::from(WALL_PER_WORK) + 5));
        assert_eq!(timer.left(), Duration::ZERO);
        assert!(!timer.with_waiting(Duration::from_secs(60)).left().is_zero());
    }

    #[test]
    fn computing_uses_it_up() {
        let timer = Timer::start(Duration::from_millis(20));
        compute(&ThreadClock::current(), Duration::from_millis(25));
        assert_eq!(timer.left(), Duration::ZERO);
    }

    #[test]
    fn another_thread_sees_what_a_thread_computes_and_survives_its_end() {
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let clock = ThreadClock::current();
            let before = clock.now();
            compute(&clock, Duration::from_millis(20));
            tell.send((clock, before)).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        });
        let (clock, before) = told.recv().unwrap();
        assert!(clock.now() - before >= Duration::from_millis(20));
        thread.join().unwrap();
        clock.now();
    }
}
