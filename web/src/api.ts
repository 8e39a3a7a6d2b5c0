// The requests of the explorer and the shape of their replies. Everything in a reply is data of
// others: it is only ever shown as text.

/** Says that the server wants a key. */
export const KEY_NEEDED = 'key-needed';
/** Where the key is kept: within this tab, until it is closed. */
const KEY = 'agent-key';

/** Why there is no reply, with what to do about it. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly remedy: string,
    readonly status = 0,
    readonly code = '',
  ) {
    super(message);
  }

  static of(error: unknown): Failure {
    if (error instanceof Failure) return error;
    const message = error instanceof Error ? error.message : String(error);
    return new Failure(message, 'Reload the page; if it happens again, please report it.');
  }
}

/** Keeps the key that is sent with every request. */
export function useKey(key: string): void {
  sessionStorage.setItem(KEY, key);
}

/** Whether a key is sent. */
export function hasKey(): boolean {
  return sessionStorage.getItem(KEY) !== null;
}

async function request(path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = sessionStorage.getItem(KEY);
  if (key) headers.set('Authorization', `Bearer ${key}`);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Failure('the server does not answer', 'Start it with `agent serve`, then ask again.');
  }
  if (response.ok) return response;
  const text = await response.text();
  if (response.status === 401) window.dispatchEvent(new Event(KEY_NEEDED));
  try {
    const { error } = JSON.parse(text);
    throw new Failure(error.message, error.remedy, response.status, error.code);
  } catch (error) {
    if (error instanceof Failure) throw error;
    const remedy = 'A proxy may have answered instead of the server; look at its log.';
    throw new Failure(`status ${response.status}: ${text.slice(0, 200)}`, remedy, response.status);
  }
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await request(path, signal ? { signal } : {})).json();
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const init: RequestInit = {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  };
  return (await request(path, signal ? { ...init, signal } : init)).json();
}

/** An address with parameters; those without a value are left out. */
export function address(path: string, params: Record<string, unknown>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== '') query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** One event of a stream. */
export interface ServerEvent {
  event: string;
  data: string;
  id: string;
}

/** Reads a stream of events until it ends. Not `EventSource`, which sends no key. */
export async function events(
  path: string,
  last: string,
  take: (event: ServerEvent) => void,
  signal: AbortSignal,
): Promise<void> {
  const headers: Record<string, string> = { Accept: 'text/event-stream' };
  if (last) headers['Last-Event-ID'] = last;
  const response = await request(path, { headers, signal });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value.replaceAll('\r', '');
    const blocks = text.split('\n\n');
    text = blocks.pop()!;
    for (const block of blocks) {
      const event: ServerEvent = { event: 'message', data: '', id: '' };
      const data: string[] = [];
      for (const line of block.split('\n')) {
        const [, name, rest] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
        if (name === 'data') data.push(rest ?? '');
        else if (name === 'event' || name === 'id') event[name] = rest ?? '';
      }
      event.data = data.join('\n');
      if (data.length > 0) take(event);
    }
  }
}
