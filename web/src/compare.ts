// Two systems on the labelled queries of a split: which queries each answers better, and both traces
// of a query side by side.

import { html, nothing, type TemplateResult } from 'lit';

import { address, get, post, Failure } from './api';
import { ViewElement } from './element';
import { Loader } from './loader';
import type { CategoryProgram, Compared, LabelledQuery, Ranking, RunListed, RunPrograms, Split, System } from './model';
import { counted, empty, failed, nodeLink, number, opener, percent, reason, typeBadge } from './parts';
import { changed, go, to } from './place';
import { traces } from './trace';

/** Queries that are compared at a time. */
const PART = 10;
/** Nodes of each side of an opened query. */
const K = 10;
/** Queries of one page. */
const PAGE = 40;
const SHOWN = [
  ['', 'all'],
  ['won', 'won by the left'],
  ['lost', 'lost by the left'],
  ['same', 'the same'],
] as const;

type Side = 'left' | 'right';
type Query = Compared['queries'][number];

class Compare extends ViewElement {
  static override properties = { failure: { state: true }, busy: { state: true } };
  declare failure: Failure | null;
  declare busy: boolean;
  private systems = new Loader<string[]>(this);
  private splits = new Loader<Split[]>(this);
  private sides = { left: new Loader<Ranking>(this), right: new Loader<Ranking>(this) };
  private programs = { left: new Loader<CategoryProgram[]>(this), right: new Loader<CategoryProgram[]>(this) };
  private labelled = new Loader<LabelledQuery | undefined>(this);
  private parts: Compared[] = [];
  private key = '';
  private abort = new AbortController();

  constructor() {
    super();
    this.failure = null;
    this.busy = false;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.abort.abort();
  }

  private side(side: Side): string {
    const given = this.param(side);
    if (given) return given;
    return side === 'left' && this.bundle ? 'active' : side === 'left' ? 'bm25' : 'bm25+names';
  }

  private get split(): string {
    const open = this.splits.value ?? [];
    return this.param('split') || (open.find(({ split }) => split === 'val') ?? open[0])?.split || '';
  }

  protected override load(): void {
    const base = this.base.name;
    this.systems.load(base, 'Asking what can be compared', async (signal) => {
      const [{ systems }, { runs }] = await Promise.all([
        get<{ systems: System[] }>(address('v1/systems', { base }), signal),
        get<{ runs: RunListed[] }>('v1/runs?limit=100', signal),
      ]);
      const finished = runs.filter(({ dataset, state }) => dataset === base && state === 'finished');
      return [
        ...(this.bundle ? ['active'] : []),
        ...finished.map(({ id }) => `bundle:${id}`),
        ...systems.map(({ name }) => name),
      ];
    });
    this.splits.load(base, 'Asking which splits there are', async (signal) => {
      const { splits } = await get<{ splits: Split[] }>(address('v1/splits', { base }), signal);
      return splits.filter(({ open, queries }) => open && queries > 0);
    });
    // A comparison is work for the server, so it begins when it is asked for.
    const key = JSON.stringify([base, this.param('left'), this.param('right'), this.param('split')]);
    if (key !== this.key) {
      this.abort.abort();
      [this.key, this.parts, this.failure, this.busy] = [key, [], null, false];
      if (this.param('split')) void this.compare();
    }
    this.open();
  }

  private async compare(): Promise<void> {
    this.abort.abort();
    const { signal } = (this.abort = new AbortController());
    [this.parts, this.failure, this.busy] = [[], null, true];
    const asked = { left: this.side('left'), right: this.side('right'), base: this.base.name, split: this.split, limit: PART };
    try {
      let cursor: number | null = 0;
      while (cursor !== null) {
        const part: Compared = await post('v1/compare', { ...asked, cursor, timeout_ms: 60000 }, signal);
        this.parts = [...this.parts, part];
        cursor = part.next;
        this.requestUpdate();
      }
    } catch (error) {
      if (signal.aborted) return;
      this.failure = Failure.of(error);
    }
    this.busy = false;
  }

  /** Asks both systems for the opened query. */
  private open(): void {
    const [base, id] = [this.base.name, this.param('query')];
    const query = this.queries().find((of) => String(of.id) === id);
    if (!query) {
      for (const loader of [...Object.values(this.sides), this.labelled]) loader.clear();
      return;
    }
    const of = query.query;
    this.labelled.load(JSON.stringify([base, this.split, id]), 'Fetching the right answers', async (signal) => {
      const path = address(`v1/splits/${this.split}/queries`, { base, contains: of, limit: 20 });
      const { queries } = await get<{ queries: LabelledQuery[] }>(path, signal);
      return queries.find((known) => known.id === query.id);
    });
    for (const side of ['left', 'right'] as const) {
      const system = this.side(side);
      const asked = { query: of, system, k: K, base, explain: 'full' };
      this.sides[side].load(JSON.stringify(asked), `Asking ${system}`, (signal) => post<Ranking>('v1/search', asked, signal));
      this.programs[side].load(JSON.stringify([base, system]), 'Fetching its programs', (signal) => this.programsOf(system, signal));
    }
  }

  private async programsOf(system: string, signal: AbortSignal): Promise<CategoryProgram[]> {
    const base = this.base.name;
    if (system === 'active') {
      return (await get<{ programs: CategoryProgram[] }>(address('v1/bundles/active/programs', { base }), signal)).programs;
    }
    if (!system.startsWith('bundle:')) return [];
    const path = `v1/runs/${encodeURIComponent(system.slice('bundle:'.length))}/programs`;
    const all: CategoryProgram[] = [];
    let cursor: number | null = 0;
    while (cursor !== null) {
      const part: RunPrograms = await get(address(path, { cursor, limit: 100 }), signal);
      all.push(...part.programs.filter(({ frozen }) => frozen));
      cursor = part.next;
    }
    return all;
  }

  private queries(): Query[] {
    return this.parts.flatMap(({ queries }) => queries);
  }

  protected override updated(): void {
    // The queries come after the address, which may name one of them.
    if (this.param('query') && this.sides.left.state.kind === 'idle' && this.queries().length) this.open();
  }

  protected override render(): TemplateResult {
    return html`<h1>Compare</h1>
      ${this.systems.show((systems) => this.splits.show((splits) => this.form(systems, splits)))}
      ${this.failure ? failed(this.failure) : nothing}
      ${this.busy ? html`<p class="busy" role="status">${this.progress()}</p>` : nothing}
      ${this.parts.length ? this.outcome() : this.busy || this.failure ? nothing : this.hint()}`;
  }

  private progress(): string {
    const total = this.parts[0]?.total;
    return total === undefined ? 'Comparing the first queries …' : `Compared ${this.queries().length} of ${counted(total, 'query', 'queries')} …`;
  }

  private hint(): unknown {
    const splits = this.splits.value;
    if (splits && splits.length === 0) {
      return empty('This base has no labelled queries.', html`<code>agent synthesize</code> makes some; then serve it again.`);
    }
    return empty('Nothing is compared yet.', 'Choose two systems and a split, then press Compare.');
  }

  private form(systems: string[], splits: Split[]): TemplateResult {
    const submit = (event: SubmitEvent) => {
      event.preventDefault();
      const form = new FormData(event.target as HTMLFormElement);
      const [left, right, split] = ['left', 'right', 'split'].map((name) => String(form.get(name)));
      const before = location.href;
      go(changed({ left, right, split, query: null, show: null, from: null }));
      if (location.href === before && !this.busy) void this.compare();
    };
    const choice = (side: Side) => {
      const chosen = this.side(side);
      const all = systems.includes(chosen) ? systems : [chosen, ...systems];
      return html`<label>${side}
        <select name=${side}>${all.map((name) => html`<option value=${name} ?selected=${name === chosen}>${name === 'active' ? `active bundle` : name}</option>`)}</select></label>`;
    };
    return html`<form class="line" @submit=${submit}>
      ${choice('left')} ${choice('right')}
      <label>on <select name="split">${splits.map(({ split, queries }) => html`<option value=${split} ?selected=${split === this.split}>${split} (${queries})</option>`)}</select></label>
      <button class="primary" ?disabled=${this.busy || splits.length === 0}>Compare</button>
    </form>`;
  }

  private outcome(): TemplateResult {
    const sum = (of: (part: Compared) => number) => this.parts.reduce((total, part) => total + of(part), 0);
    const n = sum((part) => part.n);
    const mrr = (side: Side) => sum((part) => part[`${side}_mrr`] * part.n) / Math.max(1, n);
    const show = this.param('show');
    const fitting = this.queries().filter(({ outcome }) => !show || outcome === show);
    const from = Number(this.param('from') || 0);
    const rows = fitting.slice(from, from + PAGE);
    const before = from > 0 ? html`<a href=${changed({ from: Math.max(0, from - PAGE) || null, query: null })}>previous</a>` : nothing;
    const after = from + PAGE < fitting.length ? html`<a href=${changed({ from: from + PAGE, query: null })}>next</a>` : nothing;
    const numbers: Record<string, number> = { '': n, won: sum(({ won }) => won), lost: sum(({ lost }) => lost), same: sum(({ same }) => same) };
    return html`
      <dl class="figures">
        <div><dt>mean reciprocal rank of the left, ${this.side('left')}</dt><dd>${percent(mrr('left'))}</dd></div>
        <div><dt>of the right, ${this.side('right')}</dt><dd>${percent(mrr('right'))}</dd></div>
        <div><dt>queries won and lost by the left</dt><dd>${numbers['won']} : ${numbers['lost']}</dd></div>
        <div><dt>the same</dt><dd>${numbers['same']}</dd></div>
      </dl>
      <p class="line" role="group" aria-label="Which queries are shown">
        ${SHOWN.map(([id, name]) => html`<a class="chip" href=${changed({ show: id || null, from: null, query: null })} aria-current=${id === show ? 'true' : nothing}>${name} <span class="soft">${numbers[id]}</span></a>`)}
      </p>
      ${rows.length ? html`<ul class="hits">${rows.map((query) => this.query(query))}</ul><p class="line"><span class="soft">${from + 1} to ${from + rows.length} of ${fitting.length}</span> ${before} ${after}</p>` : html`<p class="soft">None.</p>`}`;
  }

  private query(query: Query): TemplateResult {
    const open = String(query.id) === this.param('query');
    const rank = (side: Side) => query[`${side}_error`] ? html`<span class="gone">failed</span>` : (query[side] ?? '–');
    const outcome = { won: html`<span class="new">won</span>`, lost: html`<span class="gone">lost</span>`, same: html`<span class="soft">same</span>` }[query.outcome];
    const line = html`<span class="outcome">${outcome}</span><span class="ranks" title="rank of the first right node, left and right">${rank('left')} : ${rank('right')}</span>
      <span class="name">${query.query}</span>`;
    return html`<li class=${open ? 'hit open' : 'hit'}>
      ${opener(open, changed({ query: open ? null : query.id }), line)}
      ${open ? this.both(query) : nothing}
    </li>`;
  }

  private both(query: Query): TemplateResult {
    return html`<div class="detail">
      ${this.labelled.show((known) => known ? html`<p><span class="soft">right: </span>${known.answers.map((node, at) => html`${at ? ', ' : ''}${nodeLink(node)}`)}${known.n_answers > known.answers.length ? ` and ${known.n_answers - known.answers.length} more` : ''}</p>` : html`<p class="soft">The right answers are not to be had.</p>`)}
      <div class="columns">
        ${(['left', 'right'] as const).map((side) => html`<section>
          <h2 class="side">${side}: ${this.side(side) === 'active' ? 'active bundle' : this.side(side)}</h2>
          ${query[`${side}_error`] ? html`<p class="gone">${query[`${side}_error`]}</p>` : nothing}
          ${this.sides[side].show((ranking) => this.ranking(side, ranking))}
        </section>`)}
      </div></div>`;
  }

  private ranking(side: Side, { hits, route }: Ranking): TemplateResult {
    const right = new Set(this.labelled.value?.answers.map(({ id }) => id));
    const node = Number(this.param('node') || -1);
    const chosen = hits.find(({ id }) => id === node) ?? hits.find(({ id }) => right.has(id)) ?? hits[0];
    if (!chosen) return html`<p class="soft">It ranks nothing.</p>`;
    const rows = hits.map(
      (hit) => html`<li><span class="rank">${hit.rank}</span>
        <a href=${changed({ node: hit.id })} aria-current=${hit.id === chosen.id ? 'true' : nothing}>${hit.name}</a> ${typeBadge(hit.type)}
        ${right.has(hit.id) ? html`<span class="new">right</span>` : nothing} <span class="soft">${number(hit.score)}</span></li>`,
    );
    const calls = chosen.calls ?? [];
    return html`<ol class="plain ranking">${rows}</ol>
      <h3>What is said of ${chosen.name}</h3>
      <p class="reason">${reason(chosen)}</p>
      ${calls.length && route?.length
        ? this.programs[side].show((programs) => traces(route, calls, programs))
        : html`<p class="soft">This system has no program, so there is no trace by line; <a href=${to('ask', { q: this.queries().find((of) => String(of.id) === this.param('query'))?.query, system: this.side(side), node: chosen.id })}>ask it</a> for its scores.</p>`}`;
  }
}

customElements.define('compare-view', Compare);
