// What two texts differ in, line by line, and what two rankings differ in, node by node.

import { html, type TemplateResult } from 'lit';

/** Unchanged lines that are shown around changed ones. */
const CONTEXT = 2;
/** Lines of a text that are compared; the rest is taken as it is. */
const MAX_LINES = 2000;

type Line = [' ' | '-' | '+', string];

/** The lines of both texts in order: kept, removed or added; as few removed and added as possible. */
export function lines(before: string, after: string): Line[] {
  const [a, b] = [before.split('\n').slice(0, MAX_LINES), after.split('\n').slice(0, MAX_LINES)];
  const width = b.length + 1;
  // The length of the longest common part of what is left, from behind.
  const common = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] =
        a[i] === b[j]
          ? common[(i + 1) * width + j + 1]! + 1
          : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
    }
  }
  const out: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push([' ', a[i]!]);
      [i, j] = [i + 1, j + 1];
    } else if (j >= b.length || (i < a.length && common[(i + 1) * width + j]! >= common[i * width + j + 1]!)) {
      out.push(['-', a[i++]!]);
    } else out.push(['+', b[j++]!]);
  }
  return out;
}

/** The changed lines with some around them. */
export function diff(before: string, after: string): TemplateResult {
  const all = lines(before, after);
  const near = (at: number) =>
    all.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(([mark]) => mark !== ' ');
  const rows: unknown[] = [];
  let skipped = false;
  all.forEach(([mark, text], at) => {
    if (!near(at)) {
      skipped = true;
      return;
    }
    if (skipped) rows.push(html`<span class="gap">…\n</span>`);
    skipped = false;
    const kind = mark === '+' ? 'new' : mark === '-' ? 'gone' : '';
    rows.push(html`<span class=${kind}>${mark} ${text}\n</span>`);
  });
  if (rows.length === 0) return html`<p class="soft">The text is the same; only parameters differ.</p>`;
  return html`<pre class="diff" tabindex="0" aria-label="Changed lines">${rows}</pre>`;
}

/** How a rank has changed, in words that need no colour. */
export function moved(now: number | null, before: number | null | undefined): TemplateResult {
  if (before === undefined || now === before) return html`<span class="soft">${before === undefined ? '' : 'same'}</span>`;
  if (before === null) return html`<span class="new">new</span>`;
  if (now === null) return html`<span class="gone">gone, was ${before}</span>`;
  return now < before
    ? html`<span class="new">up from ${before}</span>`
    : html`<span class="gone">down from ${before}</span>`;
}
