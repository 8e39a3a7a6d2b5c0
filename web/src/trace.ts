// A program with what its calls gave, line by line, and the other reasons for a node's place.

import { html, nothing, type TemplateResult } from 'lit';

import type { Call, CategoryProgram, Explanation, Feature, Way } from './model';
import { bar, counted, number, percent, short } from './parts';
import { to } from './place';
import { tokens, type Kind } from './rhai';

/** Calls of one line that are shown at once; the others can be opened. */
const CALLS_AT_ONCE = 3;
/** Features that are shown at once, as on the command line. */
const FEATURES = 6;
/** Characters of a result that are shown at once. */
const RESULT_CHARS = 70;

/** A line of a program in colours. */
function line(parts: [string, Kind][]): unknown {
  return parts.map(([text, kind]) =>
    kind === 'other' || kind === 'name' ? text : html`<span class=${`code-${kind}`}>${text}</span>`,
  );
}

/** The lines of a source, numbered; `below` is what stands under a line. */
export function source(
  text: string,
  below: (line: number) => unknown = () => nothing,
  bad?: number | null,
): TemplateResult {
  const rows = tokens(text.trimEnd()).map((parts, at) => {
    const under = below(at + 1);
    const kind = at + 1 === bad ? 'bad' : under === nothing ? '' : 'called';
    return html`<li class=${kind}><code>${line(parts)}</code>${under}</li>`;
  });
  return html`<ol class="source" tabindex="0" aria-label="Program by line">
    ${rows}
  </ol>`;
}

function valueText(value: Call['value'] | undefined): unknown {
  if (typeof value === 'number') return html`<strong>${number(value)}</strong>`;
  if (typeof value === 'boolean') return value ? html`<strong>in</strong>` : 'not in';
  return nothing;
}

function call(of: Call): TemplateResult {
  const { result } = of;
  const shown =
    result.length <= RESULT_CHARS
      ? html`<span class="soft">${result}</span>`
      : html`<details class="result">
          <summary class="soft">${result.slice(0, RESULT_CHARS)}…</summary>
          ${result}
        </details>`;
  return html`<div class=${of.failed ? 'call bad' : 'call'}>
    <span class="value">${valueText(of.value)}</span>
    <span><b>${of.tool}</b> ${shown}</span>
  </div>`;
}

function callsOf(all: Call[]): TemplateResult | typeof nothing {
  if (all.length === 0) return nothing;
  const rest = all.slice(CALLS_AT_ONCE);
  const further = rest.length
    ? html`<details>
        <summary class="soft">${counted(rest.length, 'more call')} of this line</summary>
        ${rest.map(call)}
      </details>`
    : nothing;
  return html`<div class="calls">${all.slice(0, CALLS_AT_ONCE).map(call)}${further}</div>`;
}

/** A program with its calls; those whose line is not known come first. */
export function traced(text: string, calls: Call[], bad?: number | null): TemplateResult {
  const byLine = Map.groupBy(calls, (of) => of.line ?? 0);
  return html`${callsOf(byLine.get(0) ?? [])}
  ${source(text, (at) => callsOf(byLine.get(at) ?? []), bad)}`;
}

/** The traces of all programs that answered, most probable first. */
export function traces(
  route: Way[],
  calls: Call[],
  programs: CategoryProgram[],
): TemplateResult {
  const sections = route.map((way, at) => {
    const program = programs.find(({ id }) => id.startsWith(way.program));
    const own = calls.filter(({ category }) => category === way.category || category === '');
    const body = program
      ? traced(program.source, own)
      : html`<div class="calls">${own.map(call)}</div>`;
    const edit = program
      ? html`<a href=${to('playground', { program: short(program.id) })}>open in the playground</a>`
      : nothing;
    return html`<details ?open=${at === 0}>
      <summary>
        <strong>${way.category}</strong> ${percent(way.probability)}
        <span class="soft">program ${way.program}, ${counted(own.length, 'call')}</span>
      </summary>
      ${edit} ${body}
    </details>`;
  });
  return html`${sections}`;
}

/** What the learned re-ranker says, largest gain first. */
export function features(all: Feature[]): TemplateResult | typeof nothing {
  if (all.length === 0) return nothing;
  const most = Math.max(...all.map(({ gain }) => Math.abs(gain)));
  const row = ({ name, value, weight, gain }: Feature) => html`<tr>
    <th scope="row">${name}</th>
    <td class="wide-only number">${number(value)}</td>
    <td class="wide-only number">${number(weight)}</td>
    <td class="number">${gain > 0 ? '+' : ''}${gain.toFixed(3)}</td>
    <td class="bars">${bar(gain, most)}</td>
  </tr>`;
  const table = (rows: Feature[]) => html`<div class="wide" tabindex="0" role="group" aria-label="Features">
    <table>
      <thead>
        <tr>
          <th scope="col">feature</th>
          <th scope="col" class="wide-only number">value</th>
          <th scope="col" class="wide-only number">weight</th>
          <th scope="col" class="number">gain</th>
          <th scope="col"><span class="hidden">gain as a bar</span></th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(row)}
      </tbody>
    </table>
  </div>`;
  const rest = all.slice(FEATURES);
  return html`${table(all.slice(0, FEATURES))}
  ${rest.length ? html`<details><summary>${counted(rest.length, 'more feature')}</summary>${table(rest)}</details>` : nothing}`;
}

/** An explanation with its parts. */
export function explanation(of: Explanation): TemplateResult {
  const value = of.value ?? null;
  const shown = typeof value === 'number' ? number(value) : value === null ? '' : String(value);
  const parts = of.children ?? [];
  return html`<li>
    ${of.name} <strong>${shown}</strong>
    ${parts.length ? html`<ul>${parts.map(explanation)}</ul>` : nothing}
  </li>`;
}
