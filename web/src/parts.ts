// What several views show in the same way: waiting, failures, nothing, nodes, paths, words.

import { html, nothing, type TemplateResult } from 'lit';

import type { Failure } from './api';
import type { Hit, Named, Step } from './model';
import { go, to } from './place';

/** What is being waited for, and for how long already. */
export function busy(what: string, ms: number): TemplateResult {
  const time = ms >= 1000 ? `, ${Math.round(ms / 1000)} s` : '';
  return html`<p class="busy" role="status">${what}${time} …</p>`;
}

/** Why there is nothing to see, and what to do about it. */
export function failed(failure: Failure): TemplateResult {
  return html`<div class="note bad" role="alert">
    <strong>${sentence(failure.message)}</strong>
    <p>${sentence(failure.remedy)}</p>
  </div>`;
}

/** That there is nothing, and what to do next. */
export function empty(what: string, next: unknown): TemplateResult {
  return html`<div class="note"><strong>${what}</strong><p>${next}</p></div>`;
}

/** A message as a sentence: errors are written in lower case without a final period. */
export function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?:`]$/.test(begun) ? begun : `${begun}.`;
}

/** A whole number with separators. */
export function count(n: number): string {
  return n.toLocaleString('en');
}

/** A count with what is counted: `1 node`, `2 nodes`. */
export function counted(n: number, what: string, many = `${what}s`): string {
  return `${count(n)} ${n === 1 ? what : many}`;
}

/** A number in four digits. */
export function number(x: number): string {
  const size = Math.abs(x);
  if (x !== 0 && (size >= 1e6 || size < 1e-4)) return x.toExponential(2);
  return String(Number(x.toPrecision(4)));
}

/** A share as percent. */
export function percent(x: number): string {
  return `${(x * 100).toFixed(x > 0 && x < 0.1 ? 1 : 0)} %`;
}

/** Seconds as people say them. */
export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

/** The beginning of an id. */
export function short(id: string): string {
  return id.slice(0, 12);
}

/** The line of something that opens and closes in its place; `address` is where that leads. */
export function opener(open: boolean, address: string, shown: unknown): TemplateResult {
  return html`<button class="head" aria-expanded=${open} @click=${() => go(address)}>${shown}</button>`;
}

export function typeBadge(type: string): TemplateResult {
  return html`<span class="type">${type}</span>`;
}

export function nodeLink(node: Named): TemplateResult {
  return html`<a href=${to('node', { id: node.id })}>${node.name || `node ${node.id}`}</a>`;
}

/** A way through the graph, such as `A -directed-> B`; the last node is the answer itself. */
export function path(steps: Step[]): TemplateResult {
  const last = steps.length - 1;
  const parts = steps.map((step, at) => {
    const arrow = step.relation
      ? step.direction === 'in'
        ? ` <-${step.relation}- `
        : ` -${step.relation}-> `
      : '';
    const name =
      at === last && last > 0
        ? html`<span class="soft">this</span>`
        : nodeLink({ id: step.node, name: step.name, type: step.type });
    return html`<span class="relation">${arrow}</span>${name}`;
  });
  return html`<span class="path">${parts}</span>`;
}

/** Why a node is among the answers, in one line. */
export function reason(hit: Hit): TemplateResult | typeof nothing {
  const steps = hit.path ?? [];
  if (steps.length > 1) return path(steps);
  if (steps.length === 1) return html`<span class="soft">named by the question</span>`;
  const words = hit.words ?? [];
  if (words.length === 0) return nothing;
  const marked = words.map((word, at) => html`${at ? ', ' : ''}<mark>${word}</mark>`);
  return html`<span class="soft">found by words: </span>${marked}`;
}

/** A text in which words are marked, whatever their endings. */
export function highlighted(text: string, words: readonly string[]): unknown {
  const stems = words
    .map((word) => word.toLowerCase().replace(/(ies|ing|ed|es|s|y)$/u, ''))
    .filter((stem) => stem.length > 1)
    .map((stem) => stem.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  if (stems.length === 0) return text;
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(?:${stems.join('|')})\\p{L}{0,4}(?![\\p{L}\\p{N}])`, 'giu');
  const parts: unknown[] = [];
  let end = 0;
  for (const found of text.matchAll(pattern)) {
    parts.push(text.slice(end, found.index), html`<mark>${found[0]}</mark>`);
    end = found.index + found[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

/** A bar to the right of zero if positive, to the left if negative; `most` is the longest. */
export function bar(value: number, most: number): TemplateResult {
  const width = most > 0 ? (Math.abs(value) / most) * 50 : 0;
  const from = value < 0 ? 50 - width : 50;
  return html`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
    <rect class=${value < 0 ? 'less' : 'more'} x=${from} y="1" width=${width} height="8"></rect>
    <line x1="50" x2="50" y1="0" y2="10"></line>
  </svg>`;
}

/** A bar from the left; `share` is of the whole width. */
export function share(part: number): TemplateResult {
  return html`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
    <rect class="whole" x="0" y="1" width="100" height="8"></rect>
    <rect class="more" x="0" y="1" width=${Math.max(0, Math.min(1, part)) * 100} height="8"></rect>
  </svg>`;
}
