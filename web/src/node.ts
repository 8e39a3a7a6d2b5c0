// One node: document, fields, neighbours by relation, and the graph around it.

import { html, nothing, type TemplateResult } from 'lit';

import { address, get, post } from './api';
import { ViewElement } from './element';
import './graph';
import type { GraphEdge, GraphNode } from './graph';
import { Loader } from './loader';
import type { Degree, Neighbor, Neighbors, Node, NodeList, Ranking } from './model';
import { count, counted, empty, nodeLink, opener, sentence, typeBadge } from './parts';
import { changed, go, to } from './place';

/** Neighbours of one page. */
const PAGE = 50;
/** Nodes that are drawn at most. */
const MAX_DRAWN = 300;
/** Neighbours that opening a node adds, and relations they come from, at most. */
const GROWTH = 24;
const MAX_RELATIONS = 12;
/** Characters of a value that are shown at once. */
const VALUE_CHARS = 800;
/** What finds a node by what it is called. */
const FINDER = 'bm25+names';

/** A node with some of its neighbours. */
interface Opened {
  node: Node;
  neighbors: Neighbor[];
}

class NodeView extends ViewElement {
  private node = new Loader<Node>(this);
  private neighbors = new Loader<Neighbors>(this);
  private found = new Loader<{ keyed: NodeList; ranked: Ranking }>(this);
  private grown = new Loader<Opened[]>(this);
  /** Nodes that were opened before, by base and id. */
  private opened = new Map<string, Promise<Opened>>();

  private get ids(): number[] {
    const further = this.param('open').split('.').filter(Boolean).map(Number);
    return [...new Set([Number(this.param('id')), ...further])];
  }

  protected override load(): void {
    const [base, id, find] = [this.base.name, this.param('id'), this.param('find')];
    if (find) {
      this.found.load(base + find, 'Looking for nodes', async (signal) => ({
        keyed: await get<NodeList>(address('v1/nodes', { base, key: find }), signal),
        ranked: await post<Ranking>('v1/search', { query: find, system: FINDER, k: 20, base }, signal),
      }));
    } else this.found.clear();
    if (!id) {
      for (const loader of [this.node, this.neighbors, this.grown]) loader.clear();
      return;
    }
    this.node.load(`${base} ${id}`, 'Fetching the node', (signal) => {
      const path = `v1/nodes/${encodeURIComponent(id)}`;
      return get<Node>(address(path, { base }), signal);
    });
    this.grown.load(JSON.stringify([base, this.ids]), 'Fetching neighbours to draw', async () => {
      // One after the other, so that what was opened first is drawn whole.
      const all = [];
      for (const id of this.ids) all.push(await this.openNode(id));
      return all;
    });
    this.loadNeighbors();
  }

  private loadNeighbors(): void {
    const [base, id] = [this.base.name, this.param('id')];
    const [direction, relation] = split(this.param('rel'));
    const cursor = Number(this.param('cursor') || 0);
    if (!relation) return this.neighbors.clear();
    this.neighbors.load(JSON.stringify([base, id, relation, direction, cursor]), 'Fetching neighbours', (signal) =>
      get<Neighbors>(
        address(`v1/nodes/${id}/neighbors`, { base, relation, direction, cursor, limit: PAGE }),
        signal,
      ),
    );
  }

  private openNode(id: number): Promise<Opened> {
    const base = this.base.name;
    const key = `${base} ${id}`;
    const before = this.opened.get(key);
    if (before) return before;
    const fetched = (async () => {
      const node = await get<Node>(address(`v1/nodes/${id}`, { base }));
      const relations = [...node.relations]
        .sort((a, b) => a.neighbors - b.neighbors)
        .slice(0, MAX_RELATIONS);
      const limit = Math.max(2, Math.floor(GROWTH / Math.max(1, relations.length)));
      const parts = await Promise.all(
        relations.map(({ relation, direction }) =>
          get<Neighbors>(
            address(`v1/nodes/${id}/neighbors`, { base, relation, direction, limit }),
          ),
        ),
      );
      return { node, neighbors: parts.flatMap(({ neighbors }) => neighbors) };
    })();
    this.opened.set(key, fetched);
    // What failed is asked for again the next time.
    fetched.catch(() => this.opened.delete(key));
    return fetched;
  }

  protected override render(): TemplateResult {
    const body = this.param('id')
      ? this.node.show((node) => this.whole(node))
      : this.param('find')
        ? nothing
        : empty('No node is chosen.', html`Find one by its name, or choose one in <a href=${to('data')}>Data</a>.`);
    const none = this.node.state.kind !== 'done' && !this.param('find');
    return html`${none ? html`<h1>Node</h1>` : nothing}${this.finder()}${this.param('find') ? this.found.show((found) => this.list(found)) : nothing}${body}`;
  }

  private finder(): TemplateResult {
    const submit = (event: SubmitEvent) => {
      event.preventDefault();
      const find = String(new FormData(event.target as HTMLFormElement).get('find')).trim();
      if (find) go(to('node', { find }));
    };
    return html`<form class="line find" role="search" @submit=${submit}>
      <label for="find" class="hidden">Find a node by its name or its own id</label>
      <input id="find" name="find" type="search" placeholder="Find a node by its name or its own id" .value=${this.param('find')} />
      <button>Find</button>
    </form>`;
  }

  private list({ keyed, ranked }: { keyed: NodeList; ranked: Ranking }): TemplateResult {
    const first = new Set(keyed.nodes.map(({ id }) => id));
    const all = [...keyed.nodes, ...ranked.hits.filter(({ id }) => !first.has(id))];
    if (all.length === 0) {
      return empty('No node was found.', html`Try another word of its name, or choose one in <a href=${to('data')}>Data</a>.`);
    }
    return html`<h1>Nodes found by “${this.param('find')}”</h1>
      <ul class="plain">
        ${all.map((node) => html`<li>${nodeLink(node)} ${typeBadge(node.type)}</li>`)}
      </ul>`;
  }

  private whole(node: Node): TemplateResult {
    return html`
      <h1>${node.name || `Node ${node.id}`} ${typeBadge(node.type)}</h1>
      <p class="soft">
        id ${node.key}${node.key === String(node.id) ? nothing : html` (node ${node.id} of the base)`}
      </p>
      <div class="columns">
        <section aria-labelledby="document">
          <h2 id="document">Document</h2>
          ${this.document(node)}
        </section>
        <section aria-labelledby="neighbours">
          <h2 id="neighbours">Neighbours</h2>
          ${this.relations(node)}
        </section>
      </div>
      <h2>Graph</h2>
      ${this.grown.show((opened) => this.graph(opened))}
    `;
  }

  private document(node: Node): TemplateResult {
    const text = node.text
      ? html`<div class="document" tabindex="0" role="group" aria-label="Text">${node.text}</div>`
      : html`<p class="soft">It has no text.</p>`;
    if (node.fields.length === 0) return text;
    const rows = node.fields.map(
      ({ name, value }) => html`<tr><th scope="row">${name}</th><td class="value">${long(value)}</td></tr>`,
    );
    return html`<div class="wide" tabindex="0" role="group" aria-label="Fields">
        <table><tbody>${rows}</tbody></table>
      </div>
      <details><summary>As one text, as search sees it</summary>${text}</details>`;
  }

  private relations(node: Node): TemplateResult {
    if (node.relations.length === 0) return html`<p class="soft">It has none.</p>`;
    const rel = this.param('rel');
    const rows = node.relations.map((of) => {
      const name = join(of);
      const open = name === rel;
      const line = html`<code>${arrow(of)}</code> <span class="soft">${count(of.neighbors)}</span>`;
      return html`<li class=${open ? 'open' : ''}>
        ${opener(open, changed({ rel: open ? null : name, cursor: null }), line)}
        ${open ? this.neighbors.show((part) => this.page(part)) : nothing}
      </li>`;
    });
    return html`<ul class="plain relations">${rows}</ul>`;
  }

  private page({ neighbors, total, next }: Neighbors): TemplateResult {
    const cursor = Number(this.param('cursor') || 0);
    const before = cursor > 0 ? html`<a href=${changed({ cursor: Math.max(0, cursor - PAGE) || null })}>previous</a>` : nothing;
    const after = next !== null ? html`<a href=${changed({ cursor: next })}>next</a>` : nothing;
    return html`<ul class="plain several">
        ${neighbors.map((node) => html`<li>${nodeLink(node)} ${typeBadge(node.type)}</li>`)}
      </ul>
      ${total > PAGE || cursor > 0
        ? html`<p class="line">
            <span class="soft">${count(cursor + 1)} to ${count(cursor + neighbors.length)} of ${count(total)}</span>
            ${before} ${after}
          </p>`
        : nothing}`;
  }

  private graph(opened: Opened[]): TemplateResult {
    const nodes = new Map<number, GraphNode>();
    const edges = new Map<string, GraphEdge>();
    const isOpen = new Set(opened.map(({ node }) => node.id));
    let left = 0;
    const draw = ({ id, name, type }: { id: number; name: string; type: string }): boolean => {
      if (nodes.has(id)) return true;
      if (nodes.size >= MAX_DRAWN) return false;
      const label = name || `node ${id}`;
      const open = isOpen.has(id);
      nodes.set(id, { id: String(id), label, kind: type, title: `${label}, ${type}${open ? ', opened' : ''}`, open, size: open ? 9 : 6 });
      return true;
    };
    for (const { node } of opened) draw(node);
    for (const { node, neighbors } of opened) {
      for (const neighbor of neighbors) {
        if (!nodes.has(node.id) || !draw(neighbor)) {
          left += 1;
          continue;
        }
        const [from, to] = neighbor.direction === 'out' ? [node.id, neighbor.id] : [neighbor.id, node.id];
        const edge = { from: String(from), to: String(to), label: neighbor.relation };
        edges.set(JSON.stringify(edge), edge);
      }
    }
    const chosen = this.param('at') || this.param('id');
    const choose = (event: CustomEvent<string>) => go(changed({ at: event.detail }), true);
    return html`
      <small-graph
        .nodes=${[...nodes.values()]}
        .edges=${[...edges.values()]}
        .chosen=${chosen}
        .name=${'Neighbours'}
        @chosen=${choose}
      ></small-graph>
      ${this.chosenNode(nodes.get(Number(chosen)), isOpen, nodes.size)}
      ${left > 0
        ? html`<p class="soft">
            ${counted(left, 'neighbour is', 'neighbours are')} not drawn: a drawing holds
            ${MAX_DRAWN} nodes. Close a node, or go on from another one.
          </p>`
        : nothing}
    `;
  }

  private chosenNode(node: GraphNode | undefined, isOpen: Set<number>, n: number): unknown {
    if (!node) return nothing;
    const [id, first] = [Number(node.id), Number(this.param('id'))];
    const ids = this.ids.filter((other) => other !== first);
    const opening = { open: [...ids, id].join('.'), at: id };
    const closing = { open: ids.filter((other) => other !== id).join('.') || null, at: id };
    const grow = isOpen.has(id)
      ? id === first
        ? nothing
        : html`<a href=${changed(closing)}>close</a>`
      : html`<a href=${changed(opening)}>add its neighbours</a>`;
    const page = id === first ? nothing : html`<a href=${to('node', { id })}>go there</a>`;
    return html`<p class="line" aria-live="polite">
      <strong>${node.label}</strong> ${typeBadge(node.kind)} ${grow} ${page}
      <span class="soft">${counted(n, 'node')} drawn</span>
    </p>`;
  }
}

/** A value, cut if it is long, with the rest to be opened. */
function long(value: string): unknown {
  if (value.length <= VALUE_CHARS) return value;
  return html`${value.slice(0, VALUE_CHARS)}…
    <details><summary>${sentence('the whole value')}</summary>${value}</details>`;
}

/** A relation and direction in one parameter, such as `out:directed`, and back. */
function join({ relation, direction }: Degree): string {
  return `${direction}:${relation}`;
}

function split(rel: string): [string, string] {
  const at = rel.indexOf(':');
  return [rel.slice(0, at), rel.slice(at + 1)];
}

function arrow({ relation, direction }: Degree): string {
  return direction === 'in' ? `<-${relation}-` : `-${relation}->`;
}

customElements.define('node-view', NodeView);
