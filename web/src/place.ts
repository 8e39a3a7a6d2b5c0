// Where the reader is: a view and its parameters, all of it in the address. Must not know what a
// view shows.

import { isInlined } from './record';

/** The views, in the order of the navigation, with what they are called. */
export const VIEWS = [
  ['ask', 'Ask'],
  ['node', 'Node'],
  ['data', 'Data'],
  ['compare', 'Compare'],
  ['run', 'Runs'],
  ['playground', 'Playground'],
] as const;

export type View = (typeof VIEWS)[number][0];

/** What an address may say beside the view; what is empty is left out. */
export type Parameters = Record<string, string | number | null | undefined>;

export interface Place {
  view: View;
  params: URLSearchParams;
}

/** Says that the address has changed. */
export const MOVED = 'moved';

/** The folder that all views lie in; a proxy may serve it below a path. */
const root = new URL('./', document.baseURI);

/** The view and parameters of the present address. */
export function here(): Place {
  // A file has no address but its own; what is shown of it is in the fragment.
  if (isInlined) return { view: 'run', params: new URLSearchParams(location.hash.slice(1)) };
  const name = location.pathname.slice(root.pathname.length);
  const view = VIEWS.find(([id]) => id === name)?.[0] ?? 'ask';
  return { view, params: new URLSearchParams(location.search) };
}

/** The address of a view. The base is kept, as it is part of where one is. */
export function to(view: View, params: Parameters = {}): string {
  const query = new URLSearchParams();
  const base = here().params.get('base');
  for (const [name, value] of Object.entries({ base, ...params })) {
    if (value !== null && value !== undefined && value !== '') query.set(name, String(value));
  }
  const text = query.toString();
  if (isInlined) return `#${text}`;
  return `${view === 'ask' ? './' : view}${text ? `?${text}` : ''}`;
}

/** The present address with some parameters changed. */
export function changed(params: Parameters): string {
  const { view, params: present } = here();
  return to(view, { ...Object.fromEntries(present), ...params });
}

/** Goes to an address; `replace` leaves no step behind to come back to. */
export function go(address: string, replace = false): void {
  if (isInlined) {
    location.hash = address;
    return;
  }
  const url = new URL(address, root);
  if (url.href === location.href) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', url);
  window.dispatchEvent(new Event(MOVED));
}

/** Lets links within the explorer change the view without loading the page again. */
export function followLinks(): void {
  window.addEventListener('popstate', () => window.dispatchEvent(new Event(MOVED)));
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.composedPath().find((node) => node instanceof Element && node.matches('a'));
    if (!link) return;
    // Links of drawings keep their address in an attribute only.
    const address = (link as Element).getAttribute('href');
    if (!address || (link as Element).hasAttribute('target')) return;
    const url = new URL(address, document.baseURI);
    const name = url.pathname.slice(root.pathname.length);
    const ours = url.origin === location.origin && url.pathname.startsWith(root.pathname);
    const within = url.hash && url.pathname + url.search === location.pathname + location.search;
    if (!ours || within || !(name === '' || VIEWS.some(([id]) => id === name))) return;
    event.preventDefault();
    go(url.href);
  });
}
