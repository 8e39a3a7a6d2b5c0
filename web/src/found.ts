// What was found of a run's bundle on validation queries: baselines, losses, the router, the sequential
// test, and the commands that come to the same.

import { html, nothing, type TemplateResult } from 'lit';

import { share } from './parts';
import type { Losses, RecordedRun } from './record';

type Findings = RecordedRun['found'];

export function found(of: Findings): TemplateResult {
  return html`
    ${of.systems.length ? html`<h2>Baselines</h2>${systems(of.systems)}` : nothing}
    ${of.losses ? html`<h2>Where answers are lost</h2>${losses(of.losses)}` : nothing}
    ${of.router ? html`<h2>Router</h2><p>${of.router}.</p>` : nothing}
    <h2>Sequential test</h2>
    <p>${of.sequential_test ? `${of.sequential_test}.` : 'No change was tested on validation.'}</p>
  `;
}

/** How to come to the same result, and to ask it. */
export function again(of: Findings): TemplateResult {
  return html`<h2>Do it again</h2><pre tabindex="0">${of.commands.join('\n')}</pre>
    <p class="soft">The same seed, queries and base give the same bundle.</p>`;
}

function systems(all: Findings['systems']): TemplateResult {
  const rows = all.map(
    ({ name, share: part, mrr, hit1, recall20, difference, p }) => html`<tr>
      <th scope="row">${name}</th><td class="bars wide-only">${share(part)}</td><td class="number">${mrr}</td>
      <td class="number wide-only">${hit1}</td><td class="number wide-only">${recall20}</td>
      <td class="number">${difference}</td><td class="number">${p}</td></tr>`,
  );
  return html`<div class="wide" tabindex="0" role="group" aria-label="Baselines"><table>
      <thead><tr><th scope="col">system</th><th scope="col" class="wide-only"><span class="hidden">MRR as a bar</span></th><th scope="col" class="number">MRR</th><th scope="col" class="number wide-only">hit@1</th><th scope="col" class="number wide-only">recall@20</th><th scope="col" class="number">bundle better by (MRR)</th><th scope="col" class="number">p</th></tr></thead>
      <tbody>${rows}</tbody></table></div>
    <p class="soft">Percent of validation queries, which chose the bundle and so flatter it; test queries were not opened. Brackets are 95 % bootstrap intervals; p of paired randomisation tests, not corrected for their number.</p>`;
}

function losses({ lost, n, kinds, causes }: Losses): TemplateResult {
  if (lost === 0) return html`<p>Every validation query has an answer at rank 1.</p>`;
  return html`<div class="wide" tabindex="0" role="group" aria-label="Kinds of losses"><table>
      <thead><tr><th scope="col">kind</th><th scope="col"><span class="hidden">queries as a bar</span></th><th scope="col" class="number">queries</th></tr></thead>
      <tbody>${kinds.map((kind) => html`<tr><th scope="row">${kind.name}</th><td class="bars">${share(kind.n / n)}</td><td class="number">${kind.n} of ${n}</td></tr>`)}</tbody></table></div>
    <div class="wide tall" tabindex="0" role="group" aria-label="Losses by category and line"><table>
      <thead><tr><th scope="col">kind</th><th scope="col">category</th><th scope="col" class="number">line</th><th scope="col">function</th><th scope="col" class="number">queries</th><th scope="col" class="number">gain</th></tr></thead>
      <tbody>${causes.map((of) => html`<tr><th scope="row">${of.kind}</th><td>${of.category}</td><td class="number">${of.line ?? ''}</td><td><code>${of.function}</code></td><td class="number">${of.n}</td><td class="number">${of.gain}</td></tr>`)}</tbody></table></div>
    <p class="soft">Gain: points of the mean reciprocal rank over all validation queries if this were mended, an upper bound. The programs below mark the lines at which they lose answers themselves, also of queries that another category would have answered.</p>`;
}
