// Runs of the optimizer: all of them, or one as it goes on or as it stands in the page: steps, programs
// with their lineage, costs, and how good they are.

import { html, nothing, type TemplateResult } from 'lit';

import { address, events, Failure, get } from './api';
import type { Drawing } from './chart';
import './chart';
import { diff } from './diff';
import { ViewElement } from './element';
import { again, found } from './found';
import { Loader } from './loader';
import type { Run, RunListed, RunProgram, RunPrograms, RunStep } from './model';
import { count, counted, duration, empty, failed, number, percent, short } from './parts';
import { changed, go, to } from './place';
import { recordedRun as recorded } from './record';
import { source } from './trace';

/** Runs of one page. */
const PAGE = 20;
/** Steps that are kept and shown, the latest ones. */
const MAX_STEPS = 200;
/** Programs that are fetched. */
const MAX_PROGRAMS = 500;
/** Time until a lost connection is tried again, milliseconds. */
const AGAIN = 3000;

interface Page {
  runs: RunListed[];
  total: number;
  next: number | null;
}

class RunView extends ViewElement {
  static override properties = { lost: { state: true } };
  /** Why the run is not followed right now. */
  declare lost: Failure | null;
  private list = new Loader<Page>(this);
  private run = new Loader<Run>(this);
  private programs = new Loader<RunProgram[]>(this);
  private steps: RunStep[] = [];
  private followed = '';
  private abort = new AbortController();

  constructor() {
    super();
    this.lost = null;
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.stop();
  }

  private stop(): void {
    this.abort.abort();
    this.followed = '';
    this.lost = null;
  }

  protected override load(): void {
    if (recorded) {
      this.run.take(recorded.run);
      this.programs.take(recorded.programs);
      this.steps = recorded.steps;
      return;
    }
    const [id, cursor] = [this.param('id'), this.param('cursor')];
    if (!id) {
      this.stop();
      this.run.clear();
      this.programs.clear();
      this.list.load(`list ${cursor}`, 'Fetching the runs', (signal) =>
        get<Page>(address('v1/runs', { cursor, limit: PAGE }), signal),
      );
      return;
    }
    this.list.clear();
    const path = `v1/runs/${encodeURIComponent(id)}`;
    this.run.load(id, 'Fetching the run', (signal) => get<Run>(path, signal));
    this.programs.load(id, 'Fetching its programs', (signal) => this.allPrograms(path, signal));
    if (this.followed !== id) {
      this.stop();
      this.followed = id;
      this.steps = [];
      this.abort = new AbortController();
      void this.follow(path, this.abort.signal);
    }
  }

  private async allPrograms(path: string, signal: AbortSignal): Promise<RunProgram[]> {
    const all: RunProgram[] = [];
    let cursor: number | null = 0;
    while (cursor !== null && all.length < MAX_PROGRAMS) {
      const part: RunPrograms = await get(address(`${path}/programs`, { cursor, limit: 100 }), signal);
      all.push(...part.programs);
      cursor = part.next;
    }
    return all;
  }

  /** Follows the run until it ends; a lost connection is taken up again where it was. */
  private async follow(path: string, signal: AbortSignal): Promise<void> {
    let [last, ended] = ['', false];
    while (!signal.aborted && !ended) {
      try {
        await events(
          `${path}/events`,
          last,
          ({ event, data, id }) => {
            if (id) last = id;
            this.lost = null;
            if (event === 'end') ended = true;
            else if (event === 'error') {
              const { message, remedy, code } = JSON.parse(data).error;
              throw new Failure(message, remedy, 500, code);
            }
            else if (event === 'state') this.changed(JSON.parse(data), path);
            else if (event === 'step') this.took(JSON.parse(data));
          },
          signal,
        );
      } catch (error) {
        if (signal.aborted) return;
        this.lost = Failure.of(error);
        // What is refused is refused again.
        if (this.lost.status >= 400 && this.lost.status < 500 && this.lost.status !== 429) return;
      }
      if (!ended) await new Promise((done) => setTimeout(done, AGAIN));
    }
  }

  private took(step: RunStep): void {
    this.steps = [step, ...this.steps].slice(0, MAX_STEPS);
    this.requestUpdate();
  }

  /** Takes the run as it is now; programs are fetched again when there are others. */
  private changed(now: Run, path: string): void {
    const before = this.run.value;
    this.run.take(now);
    const is = ({ programs, tested, state }: Run) => `${programs} ${tested} ${state}`;
    if (before && is(before) !== is(now)) this.programs.refresh((signal) => this.allPrograms(path, signal));
  }

  protected override render(): TemplateResult {
    if (!this.param('id')) return html`<h1>Runs</h1>${this.list.show((page) => this.all(page))}`;
    return html`${recorded ? nothing : html`<p><a href=${to('run')}>All runs</a></p>`}
      <h1>Run ${this.run.value?.id ?? this.param('id')}</h1>
      ${this.lost ? html`${failed(this.lost)}<p class="soft" role="status">Trying again every ${AGAIN / 1000} seconds …</p>` : nothing}
      ${this.run.show((run) => this.one(run))}`;
  }

  private all({ runs, total, next }: Page): TemplateResult {
    if (runs.length === 0) {
      return empty('There is no run yet.', html`<code>agent optimize --dataset ${this.base.name}</code> begins one; it shows here while it goes on.`);
    }
    const cursor = Number(this.param('cursor') || 0);
    const rows = runs.map(
      (run) => html`<tr>
        <th scope="row"><a href=${to('run', { id: run.id })}>${run.id}</a></th>
        <td class="wide-only">${run.dataset}</td>
        <td>${run.problem ? html`<span class="gone">${run.problem}</span>` : run.state}</td>
        <td class="number">${count(run.steps)}</td>
        <td class="number">${run.accepted} of ${run.tested}</td>
        <td class="wide-only">${run.actor}</td>
        <td class="wide-only">${when(run.changed)}</td>
      </tr>`,
    );
    const before = cursor > 0 ? html`<a href=${changed({ cursor: Math.max(0, cursor - PAGE) || null })}>newer</a>` : nothing;
    const after = next !== null ? html`<a href=${changed({ cursor: next })}>older</a>` : nothing;
    return html`<div class="wide" tabindex="0" role="group" aria-label="Runs"><table>
        <thead><tr><th scope="col">run</th><th scope="col" class="wide-only">base</th><th scope="col">state</th><th scope="col" class="number">steps</th><th scope="col" class="number">changes accepted</th><th scope="col" class="wide-only">actor</th><th scope="col" class="wide-only">last written</th></tr></thead>
        <tbody>${rows}</tbody></table></div>
      <p class="line"><span class="soft">${counted(total, 'run')}</span> ${before} ${after}</p>`;
  }

  private one(run: Run): TemplateResult {
    const left = run.eta_seconds === null ? nothing : html`, about ${duration(run.eta_seconds)} left`;
    const isServed = this.served.bases.some(({ name }) => name === run.dataset);
    const begun = run.bundle && isServed
      ? html`<p class="line"><a href=${to('compare', { left: `bundle:${run.id}`, right: 'bm25+names', base: run.dataset })}>compare its bundle</a></p>`
      : nothing;
    const figures: [unknown, string][] = [
      ...(recorded?.found.figures ?? []),
      [run.planned === null ? String(run.done) : `${run.done} of ${run.planned}`, 'steps of improvement done'],
      [count(run.steps), 'steps in the journal'],
      [`${run.accepted} of ${run.tested}`, 'changes accepted'],
      [count(run.programs), 'programs tried'],
      run.mrr === null
        ? [run.curve.length ? percent(run.curve.at(-1)!.best) : '–', 'best mean reciprocal rank of a single program on validation queries']
        : [percent(run.mrr), 'mean reciprocal rank of the bundle on validation queries'],
      [run.cost.calls ? `$${run.cost.usd.toFixed(2)}` : '–', run.cost.calls ? `${counted(run.cost.calls, 'call')}, ${count(run.cost.tokens_in + run.cost.tokens_out)} tokens` : 'no language model was asked'],
    ];
    return html`
      <p role="status"><strong>${run.state}</strong>${left} <span class="soft">${recorded ? `${recorded.found.about}, ` : nothing}${run.dataset}, ${run.actor}${run.model ? html`, ${run.model}` : nothing}, ${run.seed === null ? nothing : html`seed ${run.seed}, `}${duration(run.seconds)}${run.paused ? html`, paused: ${run.paused}` : nothing}</span></p>
      ${recorded?.found.synthetic ? html`<p><strong>${recorded.found.synthetic}.</strong> Every figure of this page is on such questions: it tells how well programs follow relations and words, not yet how well they answer users.</p>` : nothing}
      ${recorded && !run.bundle ? html`<p>There is no bundle yet: this is what was done so far.</p>` : begun}
      <dl class="figures">${figures.map(([value, name]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
      ${run.curve.length ? html`<h2>Quality over steps</h2><run-chart .drawing=${drawing(run.curve)}></run-chart>` : empty('Nothing was tried on validation queries yet.', 'The curve begins with the first trial on all of them.')}
      ${recorded ? found(recorded.found) : nothing}
      <div class=${recorded ? '' : 'columns'}>
        <section><h2>Categories</h2>${this.categories(run)}</section>
        <section><h2>Archive</h2>${this.archive(run)}</section>
      </div>
      <h2>Programs</h2>
      ${this.programs.show((programs) => this.lineage(programs))}
      <h2>Steps</h2>
      ${this.stepList()}
      <h2>Where the time and the money went</h2>
      ${this.spent(run)}
      ${recorded ? again(recorded.found) : nothing}
    `;
  }

  private categories({ categories }: Run): TemplateResult {
    if (categories.length === 0) return html`<p class="soft">None yet: categories are found when programs answer queries well.</p>`;
    return html`<div class="wide tall" tabindex="0" role="group" aria-label="Categories"><table>
      <thead><tr><th scope="col">category</th><th scope="col">program</th><th scope="col" class="number">queries</th><th scope="col" class="number">MRR</th>${recorded ? html`<th scope="col">best baseline, difference</th>` : nothing}</tr></thead>
      <tbody>${categories.map(({ category, program, n, mrr }) => html`<tr><th scope="row">${category}</th><td>${this.programLink(program)}</td><td class="number">${n}</td><td class="number">${percent(mrr)}</td>${recorded ? html`<td>${recorded.found.against[category] ?? ''}</td>` : nothing}</tr>`)}</tbody>
    </table></div>`;
  }

  private archive({ archive }: Run): TemplateResult {
    if (archive.length === 0) return html`<p class="soft">Empty: no program was tried on all validation queries yet.</p>`;
    return html`<div class="wide tall" tabindex="0" role="group" aria-label="Archive"><table>
      <thead><tr><th scope="col">program</th><th scope="col">category</th><th scope="col" class="number">best on queries</th></tr></thead>
      <tbody>${archive.map(({ program, category, best_on }) => html`<tr><th scope="row">${this.programLink(program)}</th><td>${category}</td><td class="number">${best_on}</td></tr>`)}</tbody>
    </table></div>`;
  }

  private programLink(id: string): TemplateResult {
    return html`<a href=${changed({ program: short(id) })}><code>${short(id)}</code></a>`;
  }

  /** Programs below those that they were made from. */
  private lineage(programs: RunProgram[]): TemplateResult {
    if (programs.length === 0) return html`<p class="soft">None yet.</p>`;
    const first = new Map<string, RunProgram>();
    for (const program of programs) if (!first.has(program.id)) first.set(program.id, program);
    const children = Map.groupBy(programs, ({ id, parent }) =>
      // Other parameters of a program stand below its first ones.
      parent && parent !== id && first.has(parent) ? parent : '',
    );
    const chosen = this.param('program');
    const drawn = new Set<RunProgram>();
    const branch = (program: RunProgram): TemplateResult | typeof nothing => {
      if (drawn.has(program)) return nothing;
      drawn.add(program);
      const below = first.get(program.id) === program ? (children.get(program.id) ?? []) : [];
      const open = chosen !== '' && (program.variant === chosen || (program.id.startsWith(chosen) && first.get(program.id) === program));
      const score = program.validation ?? program.train;
      const toggle = (event: Event) => {
        event.preventDefault();
        go(changed({ program: open ? null : program.variant }), true);
      };
      return html`<li>
        <details ?open=${open}>
          <summary @click=${toggle}>
            <code>${program.variant}</code> ${program.category} ${program.frozen ? html`<span class="type">in the bundle</span>` : nothing}
            <span class="soft">${program.change || program.proposed_by}${score ? html`, ${percent(score.mrr)} of ${score.n} ${program.validation ? 'validation' : 'training'} queries` : nothing}</span>
          </summary>
          ${open ? this.program(program, first.get(program.parent ?? '')) : nothing}
        </details>
        ${below.length ? html`<ul class="lineage">${below.map(branch)}</ul>` : nothing}
      </li>`;
    };
    // What is in the bundle or was changed comes first; what was only tried can be opened.
    const matters = (program: RunProgram): boolean =>
      program.frozen ||
      program.tests.length > 0 ||
      (chosen !== '' && (program.variant === chosen || program.id.startsWith(chosen))) ||
      (first.get(program.id) === program && (children.get(program.id) ?? []).some(matters));
    const roots = children.get('') ?? [];
    const rest = roots.filter((program) => !matters(program));
    return html`<ul class="lineage">${roots.filter(matters).map(branch)}</ul>
      ${rest.length ? html`<details><summary>${counted(rest.length, 'further program')} that ${rest.length === 1 ? 'was' : 'were'} tried</summary><ul class="lineage">${rest.map(branch)}</ul></details>` : nothing}
      ${programs.length >= MAX_PROGRAMS ? html`<p class="soft">These are the first ${MAX_PROGRAMS}; <code>agent program list --run ${this.param('id')}</code> has all.</p>` : nothing}`;
  }

  private program(program: RunProgram, parent: RunProgram | undefined): TemplateResult {
    const params = Object.entries(program.params);
    const tests = program.tests.map(
      ({ from, change, n, difference, p, e, accepted }) => html`<tr>
        <th scope="row">${change} <span class="soft">from ${short(from)}</span></th><td class="number">${n}</td>
        <td class="number">${difference > 0 ? '+' : ''}${percent(difference)}</td>
        <td class="number">${p == null ? '' : number(p)}</td><td class="number">${e == null ? '' : number(e)}</td>
        <td>${accepted ? html`<span class="new">accepted</span>` : 'rejected'}</td></tr>`,
    );
    return html`<div class="detail">
      <p>${program.description}</p>
      <p class="soft">proposed by ${program.proposed_by}${params.length ? html`; ${params.map(([name, value]) => `${name} ${number(value)}`).join(', ')}` : nothing}</p>
      ${recorded ? nothing : html`<p class="line"><a href=${to('playground', { run: this.param('id'), program: program.variant })}>open in the playground</a></p>`}
      ${tests.length ? html`<h3>Tests</h3><div class="wide" tabindex="0" role="group" aria-label="Tests"><table><thead><tr><th scope="col">change</th><th scope="col" class="number">queries</th><th scope="col" class="number">difference</th><th scope="col" class="number">p</th><th scope="col" class="number">e-value</th><th scope="col">outcome</th></tr></thead><tbody>${tests}</tbody></table></div>` : nothing}
      ${parent ? html`<h3>What was changed</h3>${diff(parent.source, program.source)}` : nothing}
      <details ?open=${!parent || marksOf(program).length > 0}><summary>The whole program</summary>${source(program.source, (line) => marked(program, line))}${program.cut ? html`<p class="soft">It goes on; <code>agent program show</code> prints all of it.</p>` : nothing}</details>
    </div>`;
  }

  private stepList(): TemplateResult {
    if (this.steps.length === 0) return html`<p class="busy" role="status">Waiting for the first step …</p>`;
    const rows = this.steps.map(
      (step) => html`<tr>
        <td class="number">${step.n}</td>
        <th scope="row">${step.kind}</th>
        <td>${step.category ?? ''} ${step.program ? this.programLink(step.program) : nothing} <span class="soft">${step.change ?? ''}</span></td>
        <td class="number">${step.mrr == null ? '' : html`${percent(step.mrr)} <span class="soft">of ${step.queries} ${step.pool}</span>`}</td>
        <td>${step.accepted == null ? '' : step.accepted ? html`<span class="new">accepted</span>` : 'rejected'}${step.difference == null ? '' : html` <span class="soft">${step.difference > 0 ? '+' : ''}${percent(step.difference)}</span>`}</td>
      </tr>`,
    );
    return html`<div class="wide tall" tabindex="0" role="group" aria-label="Steps, latest first"><table>
      <thead><tr><th scope="col" class="number">step</th><th scope="col">kind</th><th scope="col">what</th><th scope="col" class="number">MRR</th><th scope="col">outcome</th></tr></thead>
      <tbody>${rows}</tbody></table></div>
      ${this.steps.length === MAX_STEPS ? html`<p class="soft">The latest ${MAX_STEPS}; <code>agent run log ${this.param('id')}</code> has all.</p>` : nothing}`;
  }

  private spent(run: Run): TemplateResult {
    const phases = run.phases.map(({ name, seconds, steps, median, longest }) => html`<tr><th scope="row">${name}</th><td class="number">${seconds.toFixed(1)} s</td><td class="number">${count(steps)}</td><td class="number wide-only">${number(median)} s</td><td class="number wide-only">${number(longest)} s</td></tr>`);
    const roles = run.roles.map(({ role, calls, tokens_in, tokens_out, usd }) => html`<tr><th scope="row">${role}</th><td class="number">${count(calls)}</td><td class="number">${count(tokens_in + (tokens_out ?? 0))}</td><td class="number">$${usd.toFixed(4)}</td></tr>`);
    const money = run.roles.length
      ? html`<div class="wide"><table><thead><tr><th scope="col">role</th><th scope="col" class="number">calls</th><th scope="col" class="number">tokens</th><th scope="col" class="number">cost</th></tr></thead><tbody>${roles}</tbody></table></div>
          <p class="soft"><code>agent run prompts ${run.id}</code> prints every prompt with its reply.</p>`
      : nothing;
    const first = recorded?.found.first_better.map((better) => html`<p>${better}.</p>`);
    return html`${first ?? nothing}<div class="columns">
      ${run.phases.length ? html`<div class="wide"><table><thead><tr><th scope="col">part</th><th scope="col" class="number">time</th><th scope="col" class="number">steps</th><th scope="col" class="number wide-only">median of a step</th><th scope="col" class="number wide-only">longest</th></tr></thead><tbody>${phases}</tbody></table></div>` : html`<p class="soft">No times were kept yet.</p>`}
      <div>${money}</div></div>`;
  }
}

/** The programs that were tried, and the best of them so far. */
function drawing(curve: Run['curve']): Drawing {
  const last = curve.at(-1)!;
  return {
    steps: curve.map(({ step }) => step),
    points: ['tried', curve.map(({ mrr }) => mrr * 100)],
    line: ['best mean reciprocal rank so far, %', curve.map(({ best }) => best * 100)],
    stepped: true,
    told: `Mean reciprocal rank on validation queries by step. Best so far ${percent(last.best)} after step ${last.step}.`,
  };
}

/** What a line of a program loses. */
function marked(program: RunProgram, line: number): TemplateResult | typeof nothing {
  const marks = marksOf(program).filter(([of]) => of === line);
  return marks.length ? html`<div class="calls">${marks.map(([, text]) => html`<b class="gone">${text}</b> `)}</div>` : nothing;
}

/** The lines at which a program of the bundle loses answers. */
function marksOf({ variant }: RunProgram): [number, string][] {
  return recorded?.found.marks[variant] ?? [];
}

/** When a run was last written, as people say it. */
function when(seconds: number | null): string {
  if (seconds === null) return '';
  const ago = Date.now() / 1000 - seconds;
  if (ago < 60) return 'just now';
  if (ago < 86400) return `${duration(ago)} ago`;
  return new Date(seconds * 1000).toLocaleDateString();
}

customElements.define('run-view', RunView);
