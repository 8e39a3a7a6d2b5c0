// A program that is edited and run: its ranking, its trace, and what the last change did to both.
// Programs run on the server inside WebAssembly; nothing of them runs here.

import { html, nothing, type PropertyValues, type TemplateResult } from 'lit';

import { address, get, post } from './api';
import { moved } from './diff';
import './editor';
import type { Editor } from './editor';
import { ViewElement } from './element';
import { Loader } from './loader';
import type { CategoryProgram, ProgramError, ProgramRun, RunPrograms, SampleRun, Split, Tool } from './model';
import { counted, empty, nodeLink, number, percent, sentence, short, typeBadge } from './parts';
import { changed, go, to } from './place';
import { traced } from './trace';

/** Queries of a sample. */
const SAMPLES = [5, 10, 20];
/** The seed of a sample, so that two programs are tried on the same queries. */
const SEED = 7;
const K = 20;
/** What the fragment of an address begins with, before the packed source. */
const PACKED = '#source=';

/** What the editor holds where there is nothing else to begin with. */
const TEMPLATE = `//! category: by words
//! Searches documents, and lets nodes that the question names lead to their neighbours.
fn params() {
    #{ weight: #{ value: 0.5, min: 0.0, max: 1.0 } }
}

fn retrieve(query, candidates, params) {
    let words = search(query);
    let named = link(query);
    let all = words.normalize() + neighbors(named) * params.weight;
    all.top(100)
}
`;

/** A text in the form of an address: deflated, in letters that need no escape. */
async function pack(text: string): Promise<string> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream('deflate-raw'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
  return letters.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

async function unpack(packed: string): Promise<string> {
  const letters = atob(packed.replaceAll('-', '+').replaceAll('_', '/'));
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Response(stream).text();
}

/** A program with the parameters it was found with. */
interface Begun {
  source: string;
  params: Record<string, number>;
}

class Playground extends ViewElement {
  private tools = new Loader<Tool[]>(this);
  private splits = new Loader<Split[]>(this);
  private programs = new Loader<CategoryProgram[]>(this);
  private source = new Loader<Begun>(this);
  private one = new Loader<ProgramRun>(this);
  private many = new Loader<SampleRun>(this);
  /** The run before of another program or with other parameters, on the same question or sample. */
  private last: { ranks: Map<number, number | null>; mrr?: number; hit1?: number } | undefined;
  private shown: { of: string; made: string; run: ProgramRun | SampleRun } | undefined;

  private get editor(): Editor | null {
    return this.querySelector<Editor>('program-editor');
  }

  private get split(): string {
    return this.param('split');
  }

  /** The parameters that are set; others are as the program declares them. */
  private get set(): Record<string, number> {
    try {
      return JSON.parse(this.param('set'));
    } catch {
      return this.source.value?.params ?? {};
    }
  }

  private get n(): number {
    const n = Number(this.param('n'));
    return SAMPLES.includes(n) ? n : 10;
  }

  protected override load(): void {
    const base = this.base.name;
    this.tools.load('all', 'Fetching the tools', async (signal) => (await get<{ tools: Tool[] }>('v1/tools', signal)).tools);
    this.splits.load(base, 'Asking which splits there are', async (signal) => (await get<{ splits: Split[] }>(address('v1/splits', { base }), signal)).splits.filter(({ open, queries }) => open && queries > 0));
    if (this.bundle) {
      this.programs.load(base + this.bundle.id, 'Fetching the programs of the bundle', async (signal) => {
        return (await get<{ programs: CategoryProgram[] }>(address('v1/bundles/active/programs', { base }), signal)).programs;
      });
    }
    const [run, program] = [this.param('run'), this.param('program')];
    this.source.load(JSON.stringify([base, run, program]), 'Fetching the program', (signal) => this.begin(run, program, signal));
  }

  /** The program to begin with: the address's own, that of a run or bundle, or a small one. */
  private async begin(run: string, program: string, signal: AbortSignal): Promise<Begun> {
    if (location.hash.startsWith(PACKED)) {
      try {
        return { source: await unpack(location.hash.slice(PACKED.length)), params: {} };
      } catch {
        // A cut address: what it names otherwise is shown instead.
      }
    }
    const base = this.base.name;
    if (run) {
      let cursor: number | null = 0;
      while (cursor !== null) {
        const part: RunPrograms = await get(address(`v1/runs/${encodeURIComponent(run)}/programs`, { cursor }), signal);
        const found = part.programs.find(({ id, variant }) => id.startsWith(program) || variant === program);
        if (found) return found;
        cursor = part.next;
      }
    } else if (this.bundle) {
      const { programs } = await get<{ programs: CategoryProgram[] }>(address('v1/bundles/active/programs', { base }), signal);
      const found = programs.find(({ id }) => id.startsWith(program));
      if (found) return found;
    }
    return { source: TEMPLATE, params: {} };
  }

  protected override updated(changes: PropertyValues): void {
    super.updated(changes);
    const { editor } = this;
    if (!editor) return;
    editor.known = this.tools.value ?? [];
    if (changes.has('params')) {
      const input = this.querySelector<HTMLInputElement>('#question');
      if (input) input.value = this.param('q');
    }
  }

  private run(event?: Event): void {
    event?.preventDefault();
    const { editor, split, n } = this;
    if (!editor) return;
    const q = this.querySelector<HTMLInputElement>('#question')?.value.trim() ?? this.param('q');
    if (!split && !q) {
      this.querySelector<HTMLInputElement>('#question')?.focus();
      return;
    }
    go(changed({ q, node: null }), true);
    void this.keep();
    const [source, base, params] = [editor.value, this.base.name, this.set];
    const of = JSON.stringify([base, split || q, n]);
    const made = JSON.stringify([source, params]);
    editor.bad = null;
    if (split) {
      this.one.clear();
      const sample = { split, limit: n, seed: SEED };
      this.many.again(`Running it on ${n} queries of ${split}`, async (signal) => {
        const run = await post<SampleRun>('v1/programs/run', { source, base, params, sample, timeout_ms: 60000 }, signal);
        this.took(of, made, run);
        return run;
      });
    } else {
      this.many.clear();
      this.one.again('Running it on the question', async (signal) => {
        const run = await post<ProgramRun>('v1/programs/run', { source, base, params, query: q, k: K, timeout_ms: 60000 }, signal);
        this.took(of, made, run);
        return run;
      });
    }
  }

  /** Notes what the run before gave, if it was of the same question or sample. */
  private took(of: string, made: string, run: ProgramRun | SampleRun): void {
    const { editor, shown } = this;
    if (editor) editor.bad = run.error?.line ?? null;
    if (run.status === 'error') return;
    if (shown?.of !== of) this.last = undefined;
    else if (shown.made !== made) {
      const { run: before } = shown;
      const ranked = 'queries' in before ? before.queries : before.hits;
      const ranks = new Map(ranked.map(({ id, rank }) => [id, rank]));
      this.last = 'queries' in before ? { ranks, mrr: before.mrr, hit1: before.hit1 } : { ranks };
    }
    this.shown = { of, made, run };
  }

  /** Puts the source into the address, so that it can be sent to others. */
  private async keep(): Promise<void> {
    const { editor } = this;
    if (!editor) return;
    const packed = await pack(editor.value);
    history.replaceState(null, '', `${location.pathname}${location.search}${PACKED}${packed}`);
  }

  protected override render(): TemplateResult {
    return html`
      <h1>Playground</h1>
      <p class="soft">The program runs on the server inside WebAssembly, with the tools and limits that every program has.</p>
      ${this.chooser()}
      ${this.source.show(({ source }) => html`<program-editor .value=${source} @run=${() => this.run()} @edited=${() => void this.keep()}></program-editor>`)}
      ${this.form()}
      ${this.one.show((run) => this.ranking(run))}
      ${this.many.show((run) => this.sample(run))}
      ${this.one.state.kind === 'idle' && this.many.state.kind === 'idle' ? this.hint() : nothing}
      ${this.tools.show((tools) => this.reference(tools))}
    `;
  }

  private chooser(): TemplateResult | typeof nothing {
    const programs = this.programs.value ?? [];
    if (programs.length === 0) return nothing;
    const begin = (event: Event) => {
      const program = (event.target as HTMLSelectElement).value;
      if (program) go(changed({ program, run: null, set: null }));
    };
    const present = this.param('program');
    const chosen = (id: string) => present !== '' && !this.param('run') && id.startsWith(present);
    return html`<label class="line">begin with
      <select @change=${begin}>
        <option value="">a program of the bundle</option>
        ${programs.map(({ category, id }) => html`<option value=${short(id)} ?selected=${chosen(id)}>${category}</option>`)}
      </select>
    </label>`;
  }

  private form(): TemplateResult {
    const choose = (name: string) => (event: Event) =>
      go(changed({ [name]: (event.target as HTMLSelectElement).value, node: null }), true);
    const splits = this.splits.value ?? [];
    return html`<form class="line find" @submit=${(event: Event) => this.run(event)}>
      <label>on
        <select @change=${choose('split')}>
          <option value="" ?selected=${!this.split}>one question</option>
          ${splits.map(({ split, queries }) => html`<option value=${split} ?selected=${split === this.split}>a sample of ${split} (${counted(queries, 'query', 'queries')})</option>`)}
        </select>
      </label>
      ${this.split
        ? html`<label>queries
            <select @change=${choose('n')}>${SAMPLES.map((n) => html`<option ?selected=${n === this.n}>${n}</option>`)}</select>
          </label>`
        : html`<label for="question" class="hidden">Question</label>
            <input id="question" placeholder="A question" .value=${this.param('q')} />`}
      <button class="primary">Run</button>
      <span class="soft wide-only">Ctrl+Enter in the editor runs too; Ctrl+Space completes</span>
    </form>`;
  }

  /** The declared parameters with their present values; a change runs the program again. */
  private parameters(params: ProgramRun['params']): TemplateResult | typeof nothing {
    if (params.length === 0) return nothing;
    const change = (name: string) => (event: Event) => {
      const value = (event.target as HTMLInputElement).valueAsNumber;
      if (!Number.isFinite(value)) return;
      go(changed({ set: JSON.stringify({ ...this.set, [name]: value }) }), true);
      void this.updateComplete.then(() => this.run());
    };
    return html`<div class="line" role="group" aria-label="Parameters"><span class="soft">parameters</span>
      ${params.map(
        ({ name, value, min, max, integer }) =>
          html`<label>${name} <input type="number" .value=${String(value)} min=${min} max=${max} step=${integer ? 1 : 'any'} @change=${change(name)} /></label>`,
      )}
    </div>`;
  }

  private hint(): unknown {
    const first = this.splits.value?.[0];
    return empty('Nothing has run yet.', html`Write a question and run the program${first ? html`, or choose a sample of <b>${first.split}</b> to see how often it is right` : nothing}. Change a line and run it again: the ranking tells what moved.`);
  }

  private problem(error: ProgramError): TemplateResult {
    const where = error.line ? ` in line ${error.line}${error.column ? `, column ${error.column}` : ''}` : '';
    return html`<div class="note bad" role="alert"><strong>The program failed${where} (${error.kind}).</strong>
      <p>${sentence(error.message)}</p></div>`;
  }

  private ranking(run: ProgramRun): TemplateResult {
    const chosen = Number(this.param('node') || -1);
    const hit = run.hits.find(({ id }) => id === chosen);
    const { last } = this;
    const now = new Set(run.hits.map(({ id }) => id));
    const gone = last ? [...last.ranks].filter(([id]) => !now.has(id)) : [];
    const rows = run.hits.map(
      (of) => html`<tr class=${of.id === chosen ? 'chosen' : ''}>
        <td class="number">${of.rank}</td>
        <th scope="row"><a href=${keepHash(changed({ node: of.id === chosen ? null : of.id }))} aria-current=${of.id === chosen ? 'true' : nothing}>${of.name}</a> ${typeBadge(of.type)}</th>
        <td class="number">${number(of.score)}</td>
        <td>${last ? moved(of.rank, last.ranks.get(of.id) ?? null) : nothing}</td>
      </tr>`,
    );
    const calls = hit?.calls ?? run.trace.map((of) => ({ ...of, category: '', value: null }));
    const { operations, tool_calls, ms } = run.usage;
    return html`
      ${run.error ? this.problem(run.error) : nothing} ${this.parameters(run.params)}
      ${run.hits.length === 0 && !run.error
        ? empty('The program ranked nothing.', 'Look at the trace: which call gave no nodes?')
        : nothing}
      ${run.hits.length
        ? html`<h2>Ranking</h2>
            <div class="wide tall" tabindex="0" role="group" aria-label="Ranking"><table>
              <thead><tr><th scope="col" class="number">rank</th><th scope="col">node</th><th scope="col" class="number">score</th><th scope="col">${last ? 'since the run before' : html`<span class="hidden">change</span>`}</th></tr></thead>
              <tbody>${rows}</tbody></table></div>
            ${gone.length ? html`<p class="soft">${counted(gone.length, 'node')} of the run before ${gone.length === 1 ? 'is' : 'are'} no longer among the first ${K}.</p>` : nothing}`
        : nothing}
      <h2>${hit ? `Trace: what each line says of ${hit.name}` : 'Trace'}</h2>
      ${hit ? nothing : html`<p class="soft">Choose a node of the ranking to see what each call says of it.</p>`}
      ${traced(this.editor?.value ?? '', calls, run.error?.line)}
      ${run.output ? html`<h3>Printed</h3><pre tabindex="0">${run.output}</pre>` : nothing}
      <p class="soft">program ${run.program}: ${counted(tool_calls, 'tool call')}, ${counted(operations, 'operation')}, ${number(ms)} ms</p>
    `;
  }

  private sample(run: SampleRun): TemplateResult {
    if (run.error) return this.problem(run.error);
    const { last } = this;
    const rows = run.queries.map(
      ({ id, query, rank, top, error }) => html`<tr>
        <th scope="row"><a href=${keepHash(changed({ split: null, q: query }))}>${query}</a></th>
        <td class="number">${error ? html`<span class="gone">failed</span>` : (rank ?? '–')}</td>
        <td>${last ? moved(rank, last.ranks.get(id)) : nothing}</td>
        <td class="wide-only">${top[0] ? html`${nodeLink(top[0])} ${top[0].right ? html`<span class="new">right</span>` : nothing}` : nothing}</td>
      </tr>`,
    );
    const was = (value: number | undefined) => (value === undefined ? nothing : html` <span class="soft">was ${percent(value)}</span>`);
    return html`<h2>Sample of ${run.split}</h2>
      <p>Mean reciprocal rank <strong>${percent(run.mrr)}</strong>${was(last?.mrr)}, right at rank 1 <strong>${percent(run.hit1)}</strong>${was(last?.hit1)}, ${counted(run.n, 'query', 'queries')}${run.failed ? html`, <span class="gone">${run.failed} failed</span>` : nothing}.</p>
      <div class="wide" tabindex="0" role="group" aria-label="Queries"><table>
        <thead><tr><th scope="col">query</th><th scope="col" class="number">rank of the first right node</th><th scope="col">${last ? 'since the run before' : html`<span class="hidden">change</span>`}</th><th scope="col" class="wide-only">at rank 1</th></tr></thead>
        <tbody>${rows}</tbody></table></div>`;
  }

  private reference(tools: Tool[]): TemplateResult {
    const groups = [...Map.groupBy(tools, ({ group }) => group)];
    return html`<h2>Tools</h2>
      ${groups.map(
        ([name, all]) => html`<details><summary><strong>${name}</strong> <span class="soft">${all.map((tool) => tool.name).join(', ')}</span></summary>
          ${all.map(({ signature, doc, example, cost }) => html`<section class="tool"><code>${signature}</code><p>${doc}</p><p><code>${example}</code></p><p class="soft">Cost: ${cost}</p></section>`)}
        </details>`,
      )}
      <p class="soft"><a href=${to('ask')}>Ask</a> shows the programs of the bundle at work.</p>`;
  }
}

/** An address with the source that is in the present one. */
function keepHash(address: string): string {
  return address + (location.hash.startsWith(PACKED) ? location.hash : '');
}

customElements.define('playground-view', Playground);
