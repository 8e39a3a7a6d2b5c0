// A question, its answers, and why each of them stands where it does.

import { html, nothing, type PropertyValues, type TemplateResult } from 'lit';
import { repeat } from 'lit/directives/repeat.js';

import { address, Failure, get, post } from './api';
import { ViewElement } from './element';
import { Loader } from './loader';
import type {
  Answer,
  CategoryProgram,
  Facets,
  Hit,
  LabelledQuery,
  Node,
  Ranking,
  Readings,
  Split,
  System,
  Tabled,
  Way,
} from './model';
import {
  count,
  counted,
  empty,
  highlighted,
  nodeLink,
  number,
  opener,
  percent,
  reason,
  sentence,
  typeBadge,
} from './parts';
import { changed, go, to } from './place';
import { explanation, features, traces } from './trace';

/** What `system` is when the bundle is asked. */
const BUNDLE = 'bundle';
/** What `system` is when tables are asked: how many, which most, whether related. */
const TABLES = 'tables';
/** Rows of a table that are shown. */
const ROWS = 50;
/** What is asked where no bundle answers. */
const WITHOUT_BUNDLE = 'bm25+names';
const LENGTHS = [10, 20, 50, 100];
/** Values of each facet that are offered. */
const VALUES = 12;
/** Questions that are offered to begin with. */
const EXAMPLES = 6;
/** Characters of a document that are shown. */
const DOCUMENT_CHARS = 1500;

type Reply = Answer | Ranking | Tabled | Readings;

/** A plan as it was typed. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Failure(`The plan is not JSON: ${(error as Error).message}`, 'Correct it below and run it again.');
  }
}

class Ask extends ViewElement {
  private reply = new Loader<Reply>(this);
  private programs = new Loader<CategoryProgram[]>(this);
  private systems = new Loader<System[]>(this);
  private examples = new Loader<LabelledQuery[]>(this);
  private document = new Loader<Node>(this);
  private facets = new Loader<Facets>(this);

  private get system(): string {
    return this.param('system') || (this.bundle ? BUNDLE : WITHOUT_BUNDLE);
  }

  private get k(): number {
    const k = Number(this.param('k'));
    return LENGTHS.includes(k) ? k : 20;
  }

  /** The reading that was chosen of a question that is asked back. */
  private get reading(): number | undefined {
    return Number(this.param('reading')) || undefined;
  }

  /** The plan that is run instead of reading a question. */
  private get plan(): string {
    return this.system === TABLES ? this.param('plan') : '';
  }

  /** The conditions that answers fulfil, as the address has them: one a line. */
  private get filter(): string[] {
    return this.system === TABLES ? [] : this.param('where').split('\n').filter(Boolean);
  }

  private get chosen(): number | null {
    return this.param('node') ? Number(this.param('node')) : null;
  }

  protected override load(): void {
    const [query, base, filter] = [this.param('q'), this.base.name, this.filter];
    this.systems.load(base, 'Asking which systems there are', async (signal) => {
      return (await get<{ systems: System[] }>(address('v1/systems', { base }), signal)).systems;
    });
    if (this.bundle) {
      this.programs.load(base + this.bundle.id, 'Fetching the programs', async (signal) => {
        const path = address('v1/bundles/active/programs', { base });
        return (await get<{ programs: CategoryProgram[] }>(path, signal)).programs;
      });
    }
    if (this.param('facets')) {
      this.facets.load(JSON.stringify([base, filter]), 'Counting values', (signal) =>
        post<Facets>('v1/facets', { base, filter, k: VALUES }, signal),
      );
    }
    if (!query && !this.plan) {
      this.reply.clear();
      this.examples.load(base, 'Looking for labelled questions', (signal) => this.labelled(signal));
      return;
    }
    const { k, system, reading, plan } = this;
    const asked = { query, k, base, filter, explain: 'full' };
    this.reply.load(JSON.stringify([asked, system, reading, plan]), `Asking ${this.asked()}`, (signal) =>
      this.send(system, asked, signal),
    );
    const node = this.chosen;
    if (node === null) this.document.clear();
    else {
      this.document.load(`${base} ${node}`, 'Fetching the document', (signal) =>
        get<Node>(address(`v1/nodes/${node}`, { base }), signal),
      );
    }
  }

  private async send(
    system: string,
    asked: { query: string; base: string; filter: string[] },
    signal: AbortSignal,
  ): Promise<Reply> {
    const { query, base } = asked;
    switch (system) {
      case BUNDLE:
        return post<Answer>('v1/query', asked, signal);
      case TABLES:
        return this.plan
          ? post<Tabled>('v1/ask', { plan: parsed(this.plan), base, rows: ROWS }, signal)
          : post<Tabled | Readings>('v1/ask', { question: query, base, rows: ROWS, reading: this.reading }, signal);
      default:
        return post<Ranking>('v1/search', { ...asked, system }, signal);
    }
  }

  private asked(): string {
    return { [BUNDLE]: 'the bundle', [TABLES]: 'tables' }[this.system] ?? this.system;
  }

  private async labelled(signal: AbortSignal): Promise<LabelledQuery[]> {
    const base = this.base.name;
    const { splits } = await get<{ splits: Split[] }>(address('v1/splits', { base }), signal);
    const split = splits.find(({ open, queries }) => open && queries > 0);
    if (!split) return [];
    const path = address(`v1/splits/${split.split}/queries`, { base, limit: EXAMPLES });
    return (await get<{ queries: LabelledQuery[] }>(path, signal)).queries;
  }

  protected override updated(changes: PropertyValues): void {
    super.updated(changes);
    // What was typed is the reader's until the address says otherwise.
    if (changes.has('params')) {
      const input = this.querySelector<HTMLTextAreaElement>('#question');
      if (input) input.value = this.param('q');
    }
  }

  protected override firstUpdated(): void {
    if (!this.param('q')) this.querySelector<HTMLTextAreaElement>('#question')?.focus();
  }

  private submit(event?: Event): void {
    event?.preventDefault();
    const typed = this.typed();
    if (typed.q) go(changed({ ...typed, reading: null, plan: null }));
  }

  /** The question as it stands in its box, of which no answer is opened yet. */
  private typed(): { q: string; node: null } {
    return { q: this.querySelector<HTMLTextAreaElement>('#question')!.value.trim(), node: null };
  }

  protected override render(): TemplateResult {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === 'Enter' && !event.shiftKey) this.submit(event);
    };
    return html`
      <h1>Ask ${this.base.title || this.base.name}</h1>
      <form class="ask" @submit=${(event: Event) => this.submit(event)}>
        <label for="question" class="hidden">Question</label>
        <textarea
          id="question"
          rows="2"
          maxlength="16000"
          placeholder="What are you looking for?"
          @keydown=${onKey}
        ></textarea>
        <div class="line">
          <button class="primary">Ask</button>
          ${this.systemChoice()} ${this.lengthChoice()}
        </div>
      </form>
      ${this.filters()}
      ${this.param('q') || this.plan ? this.reply.show((reply) => this.answer(reply)) : this.begin()}
      ${this.planned()}
    `;
  }

  /** The conditions on answers, and values to choose further ones from. */
  private filters(): unknown {
    if (this.system === TABLES) return nothing;
    const { filter } = this;
    const isOpen = this.param('facets') !== '';
    const where = (conditions: string[]) => changed({ where: conditions.join('\n'), node: null });
    const chosen = filter.map(
      (condition) => html`<a class="chip" aria-label="Remove the condition ${condition}"
          href=${where(filter.filter((other) => other !== condition))}>${condition} ×</a>`,
    );
    const offered = ({ name, n_values, values }: Facets['facets'][number]) => {
      const chips = values
        .filter(({ condition }) => !filter.includes(condition))
        .map(({ value, condition, nodes }) => html`<a class="chip" href=${where([...filter, condition])}
            >${value} <span class="soft">${count(nodes)}</span></a>`);
      const more = n_values - values.length;
      return html`<dt>${name}</dt>
        <dd class="line">${chips}${more > 0 ? html`<span class="soft">${counted(more, 'more value')}</span>` : nothing}</dd>`;
    };
    const facets = ({ nodes, facets }: Facets) => html`<p class="soft">${counted(nodes, 'node')}</p>
      ${facets.length ? html`<dl class="facets">${facets.map(offered)}</dl>` : empty('No field has values that repeat.', '')}`;
    return html`<div class="line">
        <button aria-expanded=${isOpen} @click=${() => go(changed({ facets: isOpen ? null : 1 }))}>Filter</button>
        ${chosen}
      </div>
      ${isOpen ? this.facets.show(facets) : nothing}`;
  }

  /** The plan of an answer over many nodes, to be changed and run again. */
  private planned(): unknown {
    const reply = this.reply.value;
    const own = reply && 'plan' in reply ? JSON.stringify(reply.plan, null, 2) : '';
    const text = this.plan || own;
    if (this.system !== TABLES || !text) return nothing;
    const run = () => go(changed({ plan: this.querySelector<HTMLTextAreaElement>('#plan')!.value, node: null }));
    return html`<details ?open=${this.plan !== ''}>
      <summary>Plan, to change and run again</summary>
      <label for="plan" class="hidden">Plan</label>
      <textarea id="plan" rows="16" maxlength="16000" spellcheck="false" .value=${text}></textarea>
      <button @click=${run}>Run this plan</button>
    </details>`;
  }

  private systemChoice(): TemplateResult {
    const choose = (event: Event) => {
      const { value } = event.target as HTMLSelectElement;
      go(changed({ ...this.typed(), system: value === BUNDLE && this.bundle ? null : value }));
    };
    const all = (this.systems.value ?? []).map(({ name }) => name);
    const known = [...all, BUNDLE, TABLES].includes(this.system);
    const offered = known ? all : [...all, this.system];
    const option = (name: string, text: string) =>
      html`<option value=${name} ?selected=${name === this.system}>${text}</option>`;
    return html`<label
      >by
      <select @change=${choose}>
        ${this.bundle ? option(BUNDLE, `bundle ${this.bundle.id.slice(0, 7)}`) : nothing}
        ${offered.map((name) => option(name, name))}
        ${option(TABLES, 'tables: how many, which most')}
      </select></label
    >`;
  }

  private lengthChoice(): TemplateResult {
    const choose = (event: Event) =>
      go(changed({ ...this.typed(), k: (event.target as HTMLSelectElement).value }));
    return html`<label
      >first
      <select @change=${choose}>
        ${LENGTHS.map((k) => html`<option ?selected=${k === this.k}>${k}</option>`)}
      </select></label
    >`;
  }

  private begin(): unknown {
    const none = this.bundle
      ? nothing
      : empty(
          'No bundle answers on this base.',
          html`Questions are answered by search alone. <code>agent optimize</code> makes a bundle, and
            <code>agent serve --bundle latest</code> lets it answer.`,
        );
    const offered = this.examples.show((queries) =>
      queries.length === 0
        ? html`<p class="soft">
            Ask for something of type
            ${this.base.types
              .filter(({ candidate }) => candidate)
              .map(({ name }) => name)
              .join(', ')};
            <a href=${to('data')}>Data</a> shows what there is.
          </p>`
        : html`<h2>Labelled questions to begin with</h2>
            <ul class="plain">
              ${queries.map(
                ({ query }) => html`<li><a href=${changed({ q: query })}>${query}</a></li>`,
              )}
            </ul>`,
    );
    return html`${none}${offered}`;
  }

  /** An answer over many nodes, with what it follows from. */
  private tabled(reply: Tabled): TemplateResult {
    const { told, path, sql, result, table, left_out, assumed, ms } = reply;
    const list = (name: string, items: string[]) =>
      items.length ? html`<h3>${name}</h3><ul>${items.map((item) => html`<li>${item}</li>`)}</ul>` : nothing;
    // Those that are counted come first; the others are not what the answer is about.
    const shown = table.rows.slice(0, table.counted);
    const rows = shown.map(({ id, name, cells }) => html`<tr><th scope="row">${nodeLink({ id, name, type: '' })}</th>${cells.map((cell) => html`<td>${Array.isArray(cell) ? cell.join(', ') : cell}</td>`)}</tr>`);
    return html`<h2 class="hidden">Answer</h2>
      <p class="value">${told}</p>
      ${result.columns.length > 1 || result.rows.length > 1 ? this.value(result) : nothing}
      ${list('How the rows were found', path)}
      ${list('Assumed', assumed)}
      ${list('Left out', left_out.map(({ rows, why }) => `${counted(rows, 'row')}: ${why}`))}
      <h3>Table of ${table.rows_are}</h3>
      <div class="wide tall" tabindex="0" role="group" aria-label="Table"><table>
        <thead><tr><th scope="col">name</th>${table.columns.map(({ name, unit }) => html`<th scope="col">${name}${unit ? `, ${unit}` : ''}</th>`)}</tr></thead>
        <tbody>${rows}</tbody></table></div>
      <p class="soft">${counted(table.n_rows, 'row')}${table.counted < table.n_rows ? `, ${count(table.counted)} of them counted` : ''}; the first ${shown.length} here; ${number(ms)} ms</p>
      <h3>SQL</h3>
      ${sql.map((statement) => html`<pre tabindex="0">${statement}</pre>`)}`;
  }

  /** The readings of a question, to choose from. */
  private readings({ readings, ms }: Readings): TemplateResult {
    const shared = (line: string) => readings.every(({ path }) => path.includes(line));
    const reading = ({ told, path }: Readings['readings'][number], at: number) => {
      const own = path.filter((line) => !shared(line));
      const choose = () => go(changed({ reading: String(at + 1) }));
      return html`<li>
        <button @click=${choose}>${told}</button>
        <div class="reason">${(own.length ? own : path).join('; ')}</div>
      </li>`;
    };
    return html`<h2>The question can be read in ${readings.length} ways. Which one is meant?</h2>
      <ol class="plain">${readings.map(reading)}</ol>
      <p class="soft">${number(ms)} ms</p>`;
  }

  private answer(reply: Reply): TemplateResult {
    if ('readings' in reply) return this.readings(reply);
    if ('told' in reply) return this.tabled(reply);
    const answer = 'understood' in reply ? reply : null;
    const { hits } = reply;
    if (hits.length === 0 && !answer?.value) {
      return empty(
        'Nothing was found.',
        html`${this.filter.length ? 'Remove a condition, or name' : 'Name'} something that is in the base, or describe it in other words;
          <a href=${to('data')}>Data</a> shows what there is.`,
      );
    }
    const cutoff = answer?.cutoff ?? null;
    const rows = repeat(
      hits,
      ({ id }) => id,
      (hit) => html`${this.hit(hit, reply)}${hit.rank === cutoff ? this.end(answer!) : nothing}`,
    );
    const behind = cutoff !== null && cutoff > hits.length ? this.end(answer!) : nothing;
    return html`
      ${answer ? this.told(answer) : nothing}
      ${this.route(reply.route ?? [])}
      <h2 class="hidden">Answers</h2>
      <ol class="hits">
        ${rows}${behind}
      </ol>
      ${this.again(reply)}
    `;
  }

  /** What of the question is understood, and what is not. */
  private told(answer: Answer): TemplateResult {
    const { entities, words, unused, corrected, contrary, conditions, fulfilled } = answer.understood;
    // Nodes of one name and type are told apart by their numbers.
    const twin = (of: (typeof entities)[number]) =>
      entities.some(({ id, name, type }) => id !== of.id && name === of.name && type === of.type);
    const linked = entities.map(
      (entity) =>
        html`<span class="chip"
          >${nodeLink(entity)}
          <span class="soft"
            >${entity.type}${twin(entity) ? ` ${entity.id}` : ''}, ${entity.exact ? 'exact' : percent(entity.strength)}</span
          ></span
        >`,
    );
    const known = words.map(({ word, types, relations }) => {
      const kinds = [...types.map((of) => `type ${of}`), ...relations.map((of) => `relation ${of}`)];
      return html`<span class="chip">${word} <span class="soft">${kinds.join(', ')}</span></span>`;
    });
    const understood =
      linked.length + known.length
        ? html`<div class="line"><span class="soft">understood</span>${linked}${known}</div>`
        : nothing;
    const left = unused.length
      ? html`<div class="line"><span class="soft">not used</span>${unused.join(', ')}</div>`
      : nothing;
    const spelled = corrected?.length
      ? html`<div class="line"><span class="soft">corrected</span>${corrected.map((one) => `${one.word} to ${one.as}`).join(', ')}</div>`
      : nothing;
    const first = fulfilled === null ? '' : `; the first ${counted(fulfilled, 'answer')} of these fulfil them`;
    const stated = conditions.length
      ? html`<div class="line"><span class="soft">conditions</span>
          ${conditions.map((condition) => html`<span class="chip">${condition}</span>`)}<span class="soft">${first}</span></div>`
      : nothing;
    const doubtful = contrary.length
      ? html`<div class="note"><strong>Some answers are linked by what the question may exclude</strong>: ${contrary.join(', ')}</div>`
      : nothing;
    const instead = answer.stand_in
      ? html`<div class="note bad">
          <strong>Another system answered.</strong>
          <p>${sentence(answer.stand_in)}</p>
        </div>`
      : nothing;
    return html`${instead}${understood}${spelled}${stated}${left}${doubtful}${answer.value ? this.value(answer.value) : nothing}`;
  }

  private value(value: NonNullable<Answer['value']>): TemplateResult {
    if ('value' in value) return html`<p class="value">${value.value} ${value.unit ?? ''}</p>`;
    return html`<div class="wide" tabindex="0" role="group" aria-label="Answer">
      <table>
        <thead>
          <tr>
            ${value.columns.map((name) => html`<th scope="col">${name}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${value.rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}
        </tbody>
      </table>
    </div>`;
  }

  private route(route: Way[]): TemplateResult | typeof nothing {
    if (route.length === 0) return nothing;
    const way = ({ category, probability, program }: Way) =>
      html`<a class="chip" href=${to('playground', { program, q: this.param('q') })}
        >${category} <span class="soft">${percent(probability)}, ${program}</span></a
      >`;
    const others = route.slice(1);
    return html`<div class="line"><span class="soft">category and program</span>${way(route[0]!)}</div>
      ${others.length
        ? html`<details>
            <summary class="soft">${counted(others.length, 'other category', 'other categories')} answered too</summary>
            <div class="line">${others.map(way)}</div>
          </details>`
        : nothing}`;
  }

  private end(answer: Answer): TemplateResult {
    const { cutoff, expected, hits } = answer;
    const where =
      cutoff! > hits.length ? `The answers likely end at rank ${cutoff}` : 'The answers likely end here';
    const sure = expected
      ? ` (precision ${percent(expected.precision)}, recall ${percent(expected.recall)} in training)`
      : '';
    return html`<li class="end">${where}${sure}</li>`;
  }

  private hit(hit: Hit, reply: Answer | Ranking): TemplateResult {
    const open = hit.id === this.chosen;
    const line = html`<span class="rank">${hit.rank}</span>
      <span class="name">${hit.name || `node ${hit.id}`}</span>
      ${typeBadge(hit.type)}`;
    return html`<li class=${open ? 'hit open' : 'hit'}>
      ${opener(open, changed({ node: open ? null : hit.id }), line)}
      <div class="reason">${reason(hit)}</div>
      ${open ? this.detail(hit, reply) : nothing}
    </li>`;
  }

  private detail(hit: Hit, reply: Answer | Ranking): TemplateResult {
    const further = hit.further_paths ?? [];
    const ways = further.length
      ? html`<p class="reason">${further.map((steps) => html`${reason({ ...hit, path: steps })} `)}</p>`
      : nothing;
    const featured = hit.features?.length
      ? html`<h3>Features of the re-ranker</h3>${features(hit.features)}`
      : nothing;
    const why = hit.explanation
      ? html`<details><summary>How the score comes about</summary><ul class="tree">${explanation(hit.explanation)}</ul></details>`
      : nothing;
    const calls = hit.calls ?? [];
    const trace = calls.length
      ? html`<h3>Trace: what each line says of this node</h3>
          ${this.programs.show((programs) => traces(reply.route ?? [], calls, programs))}`
      : nothing;
    return html`<div class="detail">
      <p class="line">
        <span>score ${number(hit.score)}</span>
        <a href=${to('node', { id: hit.id })}>fields, neighbours and graph</a>
      </p>
      ${ways}
      <h3>Document</h3>
      ${this.document.show((node) => this.text(node, hit))}
      ${featured} ${trace} ${why}
    </div>`;
  }

  private text(node: Node, hit: Hit): TemplateResult {
    const cut = node.text.length > DOCUMENT_CHARS;
    const text = cut ? node.text.slice(0, DOCUMENT_CHARS) : node.text;
    const words = hit.words ?? this.param('q').split(/[^\p{L}\p{N}]+/u);
    const rest = cut ? html`… <a href=${to('node', { id: node.id })}>the whole document</a>` : nothing;
    return html`<div class="document" tabindex="0" role="group" aria-label="Document">${highlighted(text, words)}${rest}</div>`;
  }

  /** How the same is asked for elsewhere. */
  private again(reply: Answer | Ranking): TemplateResult {
    const bundle = 'bundle' in reply;
    const { k, filter } = this;
    const narrowed = filter.length ? { filter } : {};
    const body = JSON.stringify({ query: this.param('q'), k, base: this.base.name, ...narrowed, ...(bundle ? {} : { system: this.system }) });
    const path = bundle ? 'v1/query' : 'v1/search';
    const took = bundle
      ? Object.values(reply.timings).reduce((sum, ms) => sum + ms, 0)
      : (reply.took_ms ?? 0);
    return html`<details class="soft">
      <summary>${counted(reply.hits.length, 'answer')}, ${number(took)} ms; the same as JSON</summary>
      <p>The address of this page holds the question and what is open: send it to share both.</p>
      <pre tabindex="0">curl -s ${new URL(path, document.baseURI).href} -H 'Content-Type: application/json' \\
  -d '${body.replaceAll("'", "'\\''")}'</pre>
    </details>`;
  }
}

customElements.define('ask-view', Ask);
