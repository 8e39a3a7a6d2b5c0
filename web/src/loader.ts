// What a view waits for: nothing yet, a reply on its way, a reply, or why there is none.

import { type ReactiveController, type ReactiveControllerHost, type TemplateResult } from 'lit';

import { Failure } from './api';
import { busy, failed } from './parts';

type State<T> =
  | { kind: 'idle' }
  | { kind: 'busy'; what: string; since: number }
  | { kind: 'done'; value: T }
  | { kind: 'failed'; failure: Failure };

/** One reply of the server, asked for again whenever what it depends on has changed. */
export class Loader<T> implements ReactiveController {
  state: State<T> = { kind: 'idle' };
  private key: string | undefined;
  private abort = new AbortController();
  private clock: ReturnType<typeof setInterval> | undefined;

  constructor(private host: ReactiveControllerHost) {
    host.addController(this);
  }

  hostDisconnected(): void {
    this.clear();
  }

  get value(): T | undefined {
    return this.state.kind === 'done' ? this.state.value : undefined;
  }

  /** Forgets the reply; one that is on its way is not waited for. */
  clear(): void {
    this.key = undefined;
    this.abort.abort();
    this.set({ kind: 'idle' });
  }

  /** Asks, unless the same was asked before; `what` is told while it takes. */
  load(key: string, what: string, work: (signal: AbortSignal) => Promise<T>): void {
    if (key === this.key) return;
    this.key = key;
    this.again(what, work);
  }

  /** Asks, even if the same was asked before. */
  again(what: string, work: (signal: AbortSignal) => Promise<T>): void {
    this.abort.abort();
    const abort = (this.abort = new AbortController());
    this.set({ kind: 'busy', what, since: performance.now() });
    work(abort.signal).then(
      (value) => abort.signal.aborted || this.set({ kind: 'done', value }),
      (error: unknown) =>
        abort.signal.aborted || this.set({ kind: 'failed', failure: Failure.of(error) }),
    );
  }

  /** Takes a value that came by another way. */
  take(value: T): void {
    this.abort.abort();
    this.set({ kind: 'done', value });
  }

  /** Asks for a newer value while the old one is shown; what fails leaves the old one. */
  refresh(work: (signal: AbortSignal) => Promise<T>): void {
    if (this.state.kind !== 'done') return;
    this.abort.abort();
    const abort = (this.abort = new AbortController());
    work(abort.signal).then(
      (value) => abort.signal.aborted || this.set({ kind: 'done', value }),
      () => undefined,
    );
  }

  /** What there is to show. */
  show(done: (value: T) => unknown, idle: () => unknown = () => ''): unknown | TemplateResult {
    switch (this.state.kind) {
      case 'idle':
        return idle();
      case 'busy':
        return busy(this.state.what, performance.now() - this.state.since);
      case 'failed':
        return failed(this.state.failure);
      case 'done':
        return done(this.state.value);
    }
  }

  private set(state: State<T>): void {
    this.state = state;
    clearInterval(this.clock);
    if (state.kind === 'busy') this.clock = setInterval(() => this.host.requestUpdate(), 500);
    this.host.requestUpdate();
  }
}
