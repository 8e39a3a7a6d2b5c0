// How a model was trained: what its looks at validation queries found, and its settings.

import { html, type TemplateResult } from 'lit';

import './chart';
import type { RecordedModel } from './record';

export function trained({ name, record }: RecordedModel): TemplateResult {
  const { system, source, model, curve } = record;
  const [first] = curve;
  // The first of equal ones, as where the weights are kept.
  const best = curve.reduce((best, look) => (look.mrr > best.mrr ? look : best), first!);
  const shown = (look: (typeof curve)[number]) => `${(look.mrr * 100).toFixed(1)} %`;
  const figures: [string, string][] = [[String(source.queries[0]), 'training queries']];
  if (first) {
    figures.unshift(
      [shown(best), `mean reciprocal rank of ${source.queries[1]} validation queries at step ${best.step}, whose weights were kept`],
      [shown(first), `the same at step ${first.step}`],
    );
  }
  const drawn = (title: string, of: (look: (typeof curve)[number]) => number) => {
    const points = curve.map((look) => (look === best ? of(look) : null));
    const drawing = {
      steps: curve.map(({ step }) => step),
      points: ['weights kept', points],
      line: [title, curve.map(of)],
      stepped: false,
      told: `${title} by step or epoch`,
    };
    return html`<h2>${title}</h2><run-chart .drawing=${drawing}></run-chart>`;
  };
  const curves = html`${drawn('Mean reciprocal rank of validation queries, %', ({ mrr }) => mrr * 100)}
    ${drawn('Loss of training queries, nats', ({ loss }) => loss)}`;
  return html`<h1>Model ${name}</h1>
    <p class="soft">${system}, trained on ${source.dataset}</p>
    <dl class="figures">${figures.map(([value, of]) => html`<div><dt>${of}</dt><dd>${value}</dd></div>`)}</dl>
    <p class="soft">Validation queries said when to stop, so they flatter the model; some models rank them among fewer nodes than answer a search. Test queries were not opened.</p>
    ${first ? curves : html`<p>No look at validation queries was taken.</p>`}
    <h2>How it was learnt</h2>
    <div class="wide" tabindex="0" role="group" aria-label="Settings"><table><tbody>${settings('', model).map(([of, value]) => html`<tr><th scope="row">${of}</th><td><code>${value}</code></td></tr>`)}</tbody></table></div>`;
}

/** The single values of an object and of those within, with their paths; lists are left out. */
function settings(path: string, value: unknown): [string, string][] {
  if (value === null || Array.isArray(value)) return [];
  if (typeof value !== 'object') return [[path, String(value)]];
  return Object.entries(value).flatMap(([of, within]) => settings(path ? `${path}.${of}` : of, within));
}
