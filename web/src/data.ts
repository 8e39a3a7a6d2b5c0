// What is in a base: types, fields, samples, relations as a graph, and what looks like a mistake.

import { html, nothing, type TemplateResult } from 'lit';

import { address, get } from './api';
import { ViewElement } from './element';
import './graph';
import type { GraphEdge, GraphNode } from './graph';
import { Loader } from './loader';
import type { NodeList, Summary } from './model';
import { count, counted, nodeLink, percent, share } from './parts';
import { changed, go } from './place';

/** Samples of one page. */
const SAMPLES = 8;
/** Characters of a value in a sample. */
const VALUE_CHARS = 90;
/** Types that are drawn: those with most edges. */
const MAX_TYPES = 60;

class Data extends ViewElement {
  private summary = new Loader<Summary>(this);
  private samples = new Loader<NodeList>(this);

  private get type(): string {
    const candidate = this.base.types.find(({ candidate }) => candidate);
    return this.param('type') || (candidate ?? this.base.types[0])?.name || '';
  }

  protected override load(): void {
    const base = this.base.name;
    this.summary.load(base, 'Counting types, fields and relations', (signal) =>
      get<Summary>(address('v1/schema', { base }), signal),
    );
    const [type, cursor] = [this.type, this.param('cursor')];
    this.samples.load(JSON.stringify([base, type, cursor]), 'Fetching samples', (signal) =>
      get<NodeList>(address('v1/nodes', { base, type, cursor, limit: SAMPLES }), signal),
    );
  }

  protected override render(): TemplateResult {
    const { base } = this;
    return html`
      <h1>${base.title || base.name}</h1>
      <p class="soft">
        ${counted(base.nodes, 'node')}, ${counted(base.edges, 'edge')}${base.licence
          ? `, licence ${base.licence}`
          : nothing}
      </p>
      ${this.summary.show((summary) => this.whole(summary))}
    `;
  }

  private whole(summary: Summary): TemplateResult {
    return html`
      <div class="columns">
        <section aria-labelledby="types"><h2 id="types">Types</h2>${this.types(summary)}</section>
        <section aria-labelledby="fields">
          <h2 id="fields">Fields of ${this.type}</h2>
          ${this.fields(summary)}
        </section>
      </div>
      <h2>Samples of ${this.type}</h2>
      ${this.samples.show((part) => this.sample(part))}
      <h2>Relations</h2>
      ${this.schema(summary)} ${this.relations(summary)}
      <h2>What looks like a mistake</h2>
      ${this.mistakes(summary)}
    `;
  }

  private types(summary: Summary): TemplateResult {
    const rows = summary.types.map(
      ({ name, nodes, is_candidate }) => html`<tr class=${name === this.type ? 'chosen' : ''}>
        <th scope="row">
          <a href=${changed({ type: name, cursor: null })} aria-current=${name === this.type ? 'true' : nothing}>${name}</a>
        </th>
        <td class="number">${count(nodes)}</td>
        <td>${is_candidate ? 'may be an answer' : ''}</td>
      </tr>`,
    );
    return html`<div class="wide tall" tabindex="0" role="group" aria-label="Types">
      <table>
        <thead><tr><th scope="col">type</th><th scope="col" class="number">nodes</th><th scope="col"><span class="hidden">may be an answer</span></th></tr></thead>
        <tbody>${rows}</tbody>
      </table>
    </div>`;
  }

  private fields(summary: Summary): TemplateResult {
    const type = summary.types.find(({ name }) => name === this.type);
    if (!type) return html`<p class="soft">There is no such type; choose another one.</p>`;
    if (type.fields.length === 0) return html`<p class="soft">Its nodes have no fields.</p>`;
    const rows = type.fields.map(
      ([name, n]) => html`<tr>
        <th scope="row">${name}</th>
        <td class="number">${percent(n / type.nodes)}</td>
        <td class="bars">${share(n / type.nodes)}</td>
      </tr>`,
    );
    return html`<div class="wide tall" tabindex="0" role="group" aria-label="Fields">
      <table>
        <thead>
          <tr><th scope="col">field</th><th scope="col" class="number">nodes that have it</th><th scope="col"><span class="hidden">the same as a bar</span></th></tr>
        </thead>
        <tbody>${rows}</tbody>
      </table>
    </div>`;
  }

  private sample({ nodes, total, next }: NodeList): TemplateResult {
    const cursor = Number(this.param('cursor') || 0);
    const rows = nodes.map(
      (node) => html`<li>
        ${nodeLink(node)}
        <span class="soft">
          ${node.fields.slice(0, 4).map(({ name, value }) => `${name}: ${value.slice(0, VALUE_CHARS)}${value.length > VALUE_CHARS ? '…' : ''}`).join(' · ')}
        </span>
      </li>`,
    );
    const before = cursor > 0 ? html`<a href=${changed({ cursor: Math.max(0, cursor - SAMPLES) || null })}>previous</a>` : nothing;
    const after = next !== null ? html`<a href=${changed({ cursor: next })}>next</a>` : nothing;
    // Somewhere in the middle, the same place whenever it is asked for.
    const middle = Math.floor(total / 2 / SAMPLES) * SAMPLES;
    const jump = total > 4 * SAMPLES && cursor !== middle ? html`<a href=${changed({ cursor: middle })}>middle</a>` : nothing;
    return html`<ul class="plain samples">${rows}</ul>
      <p class="line">
        <span class="soft">${count(cursor + 1)} to ${count(cursor + nodes.length)} of ${count(total)}</span>
        ${before} ${after} ${jump}
      </p>`;
  }

  private schema({ types, relations }: Summary): TemplateResult {
    const edges = new Map<string, number>();
    for (const { from, to, edges: n } of relations) {
      for (const type of [from, to]) edges.set(type, (edges.get(type) ?? 0) + n);
    }
    const most = Math.max(1, ...types.map(({ nodes }) => nodes));
    const drawn = types.filter(({ name }) => edges.has(name));
    drawn.sort((a, b) => edges.get(b.name)! - edges.get(a.name)!);
    const left = drawn.splice(MAX_TYPES).length;
    const nodes = drawn.map(({ name, nodes, is_candidate }): GraphNode => ({
      id: name,
      label: name,
      kind: is_candidate ? 'may be an answer' : 'other',
      title: `${name}, ${counted(nodes, 'node')}`,
      size: 6 + 10 * Math.sqrt(nodes / most),
      open: is_candidate,
    }));
    const joined = relations.map(({ name, from, to }): GraphEdge => ({ from, to, label: name }));
    const choose = (event: CustomEvent<string>) => go(changed({ type: event.detail, cursor: null }));
    return html`<small-graph
        .nodes=${nodes}
        .edges=${joined}
        .chosen=${this.type}
        .reach=${130}
        .name=${'Types and relations'}
        @chosen=${choose}
      ></small-graph>
      ${left > 0 ? html`<p class="soft">${counted(left, 'type')} with fewer edges are not drawn; the table has them.</p>` : nothing}`;
  }

  private relations({ relations }: Summary): TemplateResult {
    if (relations.length === 0) return html`<p class="soft">There are none.</p>`;
    const rows = relations.map(
      ({ name, from, to, edges, per_node }) => html`<tr>
        <th scope="row"><code>${from} -${name}-> ${to}</code></th>
        <td class="number">${count(edges)}</td>
        <td class="number">${per_node ? `${count(per_node[0])}, ${count(per_node[1])}` : ''}</td>
      </tr>`,
    );
    return html`<div class="wide tall" tabindex="0" role="group" aria-label="Relations">
      <table>
        <thead>
          <tr><th scope="col">relation</th><th scope="col" class="number">edges</th><th scope="col" class="number">per node: median, most</th></tr>
        </thead>
        <tbody>${rows}</tbody>
      </table>
    </div>`;
  }

  private mistakes({ types, typos }: Summary): TemplateResult {
    const found = [
      ...typos.map(
        ({ what, label, uses, like }) =>
          html`<li>${what} <b>${label}</b> (used ${counted(uses, 'time')}) looks like <b>${like}</b>.</li>`,
      ),
      ...types
        .filter(({ isolated }) => isolated.count > 0)
        .map(
          ({ name, isolated }) =>
            html`<li>${counted(isolated.count, 'node')} of type ${name} without any edge, such as ${isolated.first.slice(0, 3).join(', ')}.</li>`,
        ),
      ...types
        .filter(({ shared_names }) => shared_names > 0)
        .map(
          ({ name, shared_names, frequent_names }) =>
            html`<li>
              ${counted(shared_names, 'node')} of type ${name} share their name with another, such as
              ${frequent_names.slice(0, 3).map(([of, n]) => `“${of}” (${n})`).join(', ')}.
            </li>`,
        ),
    ];
    return found.length ? html`<ul>${found}</ul>` : html`<p class="soft">Nothing.</p>`;
  }
}

customElements.define('data-view', Data);
