//! Time that is charged to who spends it: the processor time of one thread, and a bound on its work
//! by that clock and by the wall.
//!
//! A deadline by the wall fails good work on a crowded machine, so work is charged the processor
//! time of its thread. What a thread waits for, and what other threads do for it, that clock does
//! not see: so wall time is bounded as well, [`WALL_PER_WORK`] times as long.
//!
//! Must not know: what is done, or what becomes of work that is late.

use std::time::{Duration, Instant};

/// Wall time that work may take, in multiples of its processor time: a thread that gets a tenth of
/// a processor still ends in time.
pub const WALL_PER_WORK: u32 = 10;

/// The processor time of one thread, readable from any thread. Where the system tells no thread the
/// time of another (anything but Linux), wall time stands for it.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock {
    #[cfg(target_os = "linux")]
    id: libc::clockid_t,
    began: Instant,
}

impl ThreadClock {
    /// The clock of the calling thread.
    pub fn here() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            id: linux::clock_here(),
            began: Instant::now(),
        }
    }

    /// What the thread has computed so far; all of the wall time since [`here`](Self::here) once it
    /// has ended.
    pub fn now(&self) -> Duration {
        #[cfg(target_os = "linux")]
        if let Some(time) = linux::time_of(self.id) {
            return time;
        }
        self.began.elapsed()
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::time::Duration;

    /// The clock of the calling thread, or one that reads as no time if the system names none.
    pub(super) fn clock_here() -> libc::clockid_t {
        let mut id = libc::CLOCK_THREAD_CPUTIME_ID;
        // SAFETY: the thread is the one that runs, and the place is writable. A refusal leaves the
        // clock of whoever reads it, which is at most more patient.
        #[expect(unsafe_code, reason = "the system's interface")]
        let _ = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut id) };
        id
    }

    /// What a clock shows; none for that of a thread that has ended.
    pub(super) fn time_of(id: libc::clockid_t) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place is writable; an unknown clock is refused.
        #[expect(unsafe_code, reason = "the system's interface")]
        let refused = unsafe { libc::clock_gettime(id, &raw mut time) };
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        (refused == 0).then(|| Some(Duration::new(seconds.ok()?, nanos.ok()?))).flatten()
    }
}

/// A bound on work that began on some thread: processor time of that thread, and wall time.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    clock: ThreadClock,
    computed_before: Duration,
    began: Instant,
    most: Duration,
    most_wall: Duration,
}

impl Timer {
    /// Work of the calling thread that begins now and may compute for so long.
    pub fn start(most: Duration) -> Self {
        let clock = ThreadClock::here();
        Self {
            clock,
            computed_before: clock.now(),
            began: Instant::now(),
            most,
            most_wall: most.saturating_mul(WALL_PER_WORK),
        }
    }

    /// The same with this much more wall time, for waiting that is not the work's.
    pub fn with_waiting(self, more: Duration) -> Self {
        Self { most_wall: self.most_wall.saturating_add(more), ..self }
    }

    /// The same with this much more time by both clocks.
    pub fn with_grace(self, more: Duration) -> Self {
        Self { most: self.most.saturating_add(more), ..self.with_waiting(more) }
    }

    /// How long the work can go on at least before it is late; zero once it is late. Asks the
    /// system: a caller that asks often waits for that time to pass before it asks again.
    pub fn left(&self) -> Duration {
        let computed = self.clock.now().saturating_sub(self.computed_before);
        let wall = self.began.elapsed();
        self.most.saturating_sub(computed).min(self.most_wall.saturating_sub(wall))
    }

    /// Wall time since the start.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes for about so long.
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
        compute(&ThreadClock::here(), Duration::from_millis(25));
        assert_eq!(timer.left(), Duration::ZERO);
    }

    #[test]
    fn another_thread_sees_what_a_thread_computes_and_survives_its_end() {
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let clock = ThreadClock::here();
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
