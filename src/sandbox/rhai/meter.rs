//! Measures what the running call uses, and stops a call that exceeds a limit.
//!
//! There is one meter per thread, because one thread uses an engine at a time and a call stays on
//! its thread. A stop is recorded until the call ends, so that neither the program nor a native
//! function that swallows errors, such as a sort, can continue after it.
//!
//! The heap charged to a program is the growth of the thread's heap since the start of the call,
//! without the memory that the host allocated meanwhile (caches and records), plus the size of the
//! tool results that the program still holds. So the charge does not depend on the host's caches.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use crate::{
    sandbox::{
        FailureKind, Limits, Position, Usage,
        alloc::{live_bytes, take_most_bytes},
        clock::{Instant, Timer},
        push_clean,
    },
    tools::ToolHost,
};

/// Number of steps of a program, or tokens of its source, between two readings of the clock. A
/// reading costs as much as a step.
const LOOK_EVERY: u64 = 16;

/// Why a call stopped.
pub(super) struct Stop {
    pub(super) kind: FailureKind,
    pub(super) message: String,
    pub(super) position: Option<Position>,
}

struct Meter {
    operations: Cell<u64>,
    max_operations: Cell<u64>,
    tool_calls: Cell<u64>,
    max_tool_calls: Cell<u64>,
    started: Cell<Option<Instant>>,
    /// Measures the time until the deadline.
    timer: Cell<Option<Timer>>,
    /// The timer cannot expire before this moment; reading the timer costs a system call.
    look: Cell<Option<Instant>>,
    /// Time that the host waited for language models; not charged to the program.
    waited: Cell<Duration>,
    heap_at_start: Cell<i64>,
    host_bytes: Cell<i64>,
    held_bytes: Cell<i64>,
    peak_bytes: Cell<i64>,
    memory_bytes: Cell<i64>,
    output_bytes: Cell<usize>,
    tokens: Cell<u64>,
    max_tokens: Cell<u64>,
    stopped: Cell<bool>,
}

thread_local! {
    static METER: Meter = const {
        Meter {
            operations: Cell::new(0),
            max_operations: Cell::new(0),
            tool_calls: Cell::new(0),
            max_tool_calls: Cell::new(0),
            started: Cell::new(None),
            timer: Cell::new(None),
            look: Cell::new(None),
            waited: Cell::new(Duration::ZERO),
            heap_at_start: Cell::new(0),
            host_bytes: Cell::new(0),
            held_bytes: Cell::new(0),
            peak_bytes: Cell::new(0),
            memory_bytes: Cell::new(0),
            output_bytes: Cell::new(0),
            tokens: Cell::new(0),
            max_tokens: Cell::new(0),
            stopped: Cell::new(false),
        }
    };
    static STOP: RefCell<Option<Stop>> = const { RefCell::new(None) };
    static OUTPUT: RefCell<String> = const { RefCell::new(String::new()) };
    static HOST: RefCell<Option<Box<dyn ToolHost>>> = const { RefCell::new(None) };
}

/// Sets all counters to zero for a call with these limits. Without a host, the call may not use
/// tools.
pub(super) fn begin(limits: &Limits, host: Option<Box<dyn ToolHost>>) {
    HOST.with(|slot| *slot.borrow_mut() = host);
    STOP.with(|stop| *stop.borrow_mut() = None);
    OUTPUT.with(|output| *output.borrow_mut() = String::new());
    METER.with(|meter| {
        meter.operations.set(0);
        meter.max_operations.set(limits.operations);
        meter.tool_calls.set(0);
        meter.max_tool_calls.set(limits.tool_calls);
        meter.started.set(Some(Instant::now()));
        bound(meter, limits.deadline);
        meter.waited.set(Duration::ZERO);
        take_most_bytes();
        meter.heap_at_start.set(live_bytes());
        meter.host_bytes.set(0);
        meter.held_bytes.set(0);
        meter.peak_bytes.set(0);
        meter.memory_bytes.set(i64::try_from(limits.memory_bytes).unwrap_or(i64::MAX));
        meter.output_bytes.set(limits.output_bytes);
        meter.tokens.set(0);
        meter.stopped.set(false);
    });
}

/// Limits the computing time of the thread from now on.
fn bound(meter: &Meter, time: Duration) {
    meter.timer.set(Some(Timer::start(time)));
    meter.look.set(Instant::now().checked_add(time));
}

/// Whether the time of the call is over.
fn late(meter: &Meter) -> bool {
    let now = Instant::now();
    if meter.look.get().is_none_or(|look| now <= look) {
        return false;
    }
    let left = meter.timer.get().map_or(Duration::MAX, |timer| timer.left());
    meter.look.set(now.checked_add(left));
    left.is_zero()
}

/// Sets the limits of parsing; called after [`begin`].
pub(super) fn begin_parsing(limits: &Limits) {
    METER.with(|meter| {
        meter.max_tokens.set(limits.source_tokens);
        bound(meter, limits.parse_deadline);
    });
}

/// Records of an ended call, and the host that [`begin`] received.
pub(super) struct Ended {
    pub(super) stop: Option<Stop>,
    pub(super) output: String,
    pub(super) host: Option<Box<dyn ToolHost>>,
    pub(super) usage: Usage,
}

/// Ends the call. `kept` is the heap of results that the program is not charged for, in bytes;
/// `leak_bytes` is the heap that may remain besides.
pub(super) fn end(kept: usize, leak_bytes: u64) -> Ended {
    let output = OUTPUT.with(|output| std::mem::take(&mut *output.borrow_mut()));
    METER.with(|meter| {
        note_peak(meter);
        let kept = i64::try_from(kept + output.capacity()).unwrap_or(i64::MAX);
        let left = u64::try_from(program_bytes(meter) - kept).unwrap_or(0);
        Ended {
            stop: STOP.with(|stop| stop.borrow_mut().take()),
            // The host is still borrowed if the call was stopped from outside during a tool call.
            host: HOST.with(|host| host.try_borrow_mut().ok().and_then(|mut host| host.take())),
            output,
            usage: Usage {
                operations: meter.operations.get(),
                tool_calls: meter.tool_calls.get(),
                ms: meter.started.get().map_or(0.0, |start| start.elapsed().as_secs_f64() * 1e3),
                peak_bytes: u64::try_from(meter.peak_bytes.get()).unwrap_or(0),
                leaked_bytes: if left > leak_bytes { left } else { 0 },
            },
        }
    })
}

/// Returns the heap that is charged to the program, in bytes.
fn program_bytes(meter: &Meter) -> i64 {
    own_bytes(meter) + meter.held_bytes.get()
}

/// Stops the call at the engine's next check; of several reasons, the first one is kept.
pub(super) fn stop(kind: FailureKind, message: String, position: Option<Position>) {
    METER.with(|meter| meter.stopped.set(true));
    STOP.with(|stop| {
        stop.borrow_mut().get_or_insert(Stop { kind, message, position });
    });
}

/// Whether the call must end.
pub(super) fn stopped() -> bool {
    METER.with(|meter| meter.stopped.get())
}

/// Counts one step; returns whether the call must end.
pub(super) fn step() -> bool {
    METER.with(|meter| {
        if meter.stopped.get() {
            return true;
        }
        let operations = meter.operations.get() + 1;
        meter.operations.set(operations);
        if operations > meter.max_operations.get() {
            let most = meter.max_operations.get();
            let message = format!("more than {most} steps; use tools instead of loops");
            stop(FailureKind::Operations, message, None);
            return true;
        }
        too_large(meter) || operations.is_multiple_of(LOOK_EVERY) && too_late(meter)
    })
}

/// Checks time and heap without counting a step; returns whether the call must end.
pub(super) fn over_budget() -> bool {
    METER.with(|meter| meter.stopped.get() || too_large(meter) || too_late(meter))
}

/// Returns the heap of the program's own values, without tool results, in bytes.
fn own_bytes(meter: &Meter) -> i64 {
    live_bytes() - meter.heap_at_start.get() - meter.host_bytes.get()
}

/// Updates the peak with the largest heap since the last update.
fn note_peak(meter: &Meter) {
    let other = meter.held_bytes.get() - meter.heap_at_start.get() - meter.host_bytes.get();
    let peak = take_most_bytes() + other;
    meter.peak_bytes.set(meter.peak_bytes.get().max(peak));
}

/// Stops the call if it holds too much heap; returns whether it does.
fn too_large(meter: &Meter) -> bool {
    note_peak(meter);
    let most = meter.memory_bytes.get();
    // One step may copy all of the program's own values, so they may fill half of the budget.
    if own_bytes(meter) > most / 2 || program_bytes(meter) > most {
        let most = most >> 20;
        let message = format!(
            "the values of the program, doubled, and the tool results it holds are more than \
             {most} MiB; hold less at once"
        );
        stop(FailureKind::Memory, message, None);
        return true;
    }
    false
}

/// Stops the call if its time is over; returns whether it is.
fn too_late(meter: &Meter) -> bool {
    let late = late(meter);
    if late {
        let elapsed = meter.started.get().map_or(Duration::ZERO, |start| start.elapsed());
        let ms = elapsed.saturating_sub(meter.waited.get()).as_millis();
        stop(FailureKind::Deadline, format!("stopped after {ms} ms"), None);
    }
    late
}

/// Returns the number of bytes that the program may still allocate for its own values.
pub(super) fn free_bytes() -> usize {
    METER.with(|meter| {
        usize::try_from((meter.memory_bytes.get() / 2).saturating_sub(own_bytes(meter)))
            .unwrap_or(0)
    })
}

/// Counts one token of the source; returns a message for the author if parsing must end.
pub(super) fn token() -> Option<String> {
    METER.with(|meter| {
        let tokens = meter.tokens.get() + 1;
        meter.tokens.set(tokens);
        if meter.stopped.get() {
            return Some("parsing was stopped".to_owned());
        }
        if tokens > meter.max_tokens.get() {
            let most = meter.max_tokens.get();
            return Some(format!("the program has more than {most} tokens; shorten it"));
        }
        if too_large(meter) || tokens.is_multiple_of(LOOK_EVERY) && too_late(meter) {
            return Some("the program takes too long to parse; shorten its lists".to_owned());
        }
        None
    })
}

/// Appends a printed line to the output, with control characters escaped.
pub(super) fn print(text: &str) {
    if stopped() {
        return;
    }
    let most = METER.with(|meter| meter.output_bytes.get());
    let whole = OUTPUT.with(|output| {
        let mut output = output.borrow_mut();
        push_clean(&mut output, text, most) && push_clean(&mut output, "\n", most)
    });
    if !whole {
        stop(FailureKind::Output, format!("more than {most} bytes printed"), None);
    }
}

/// Counts one tool call; returns whether it may be made.
pub(super) fn may_call_tool() -> bool {
    METER.with(|meter| {
        let calls = meter.tool_calls.get() + 1;
        meter.tool_calls.set(calls);
        let most = meter.max_tool_calls.get();
        if calls > most {
            let message = format!("more than {most} tool calls; give tools sets, not single nodes");
            stop(FailureKind::ToolBudget, message, None);
        }
        !meter.stopped.get()
    })
}

/// Does work whose heap is not charged to the program.
pub(super) fn as_host<T>(work: impl FnOnce() -> T) -> T {
    METER.with(note_peak);
    let before = live_bytes();
    let done = work();
    METER.with(|meter| {
        take_most_bytes();
        meter.host_bytes.set(meter.host_bytes.get() + live_bytes() - before);
    });
    done
}

/// Charges bytes of a tool result that the program holds; negative bytes reduce the charge.
pub(super) fn hold(bytes: i64) {
    METER.with(|meter| meter.held_bytes.set(meter.held_bytes.get() + bytes));
}

/// Extends the limit of wall time by the host's waits for language models since the last call.
fn note_waiting(meter: &Meter, waited: Duration) {
    let more = waited.saturating_sub(meter.waited.replace(waited));
    meter.timer.set(meter.timer.get().map(|timer| timer.with_waiting(more)));
}

/// Calls the host and records how long it has waited; `None` if the call has no host.
pub(super) fn with_host<T>(work: impl FnOnce(&mut dyn ToolHost) -> T) -> Option<T> {
    HOST.with(|host| match host.try_borrow_mut() {
        Ok(mut host) => host.as_mut().map(|host| {
            let done = work(&mut **host);
            METER.with(|meter| note_waiting(meter, host.waited()));
            done
        }),
        Err(_) => None,
    })
}
