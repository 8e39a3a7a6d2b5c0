// A small graph as a drawing: placed by forces once for each change, zoomed and dragged by pointer
// or keys. Must not know what its nodes stand for.

import { html, nothing, svg, type PropertyValues, type TemplateResult } from 'lit';
import {
  forceCollide,
  forceLink,
  forceManyBody,
  forceSimulation,
  forceX,
  forceY,
  type SimulationNodeDatum,
} from 'd3-force';
import { select } from 'd3-selection';
import { zoom, zoomIdentity, type ZoomBehavior } from 'd3-zoom';

import { Plain } from './element';

export interface GraphNode {
  id: string;
  label: string;
  /** Decides the colour. */
  kind: string;
  /** Told to readers of the screen, and when pointed at. */
  title: string;
  /** Radius in pixels. */
  size?: number;
  /** Drawn as opened. */
  open?: boolean;
}

export interface GraphEdge {
  from: string;
  to: string;
  label: string;
}

interface Placed extends SimulationNodeDatum {
  id: string;
  x: number;
  y: number;
}

/** Colours that kinds get, in their order; further kinds share the last. */
const COLOURS = 8;
const RADIUS = 7;
const LABEL_CHARS = 22;
/** With more nodes or edges, only those that are chosen or opened say their names. */
const ALL_LABELS = 40;
const EDGE_LABELS = 10;
const CHOSEN_LABELS = 4;
const TICKS = 300;
/** Room around a node that says its name, pixels; more where there are few. */
const ROOM = 40;
const FEW = 12;
const FEW_ROOM = 68;
const HEIGHT = 420;

/** Says that a node was chosen; the detail is its id. */
export const CHOSEN = 'chosen';

export class Graph extends Plain {
  static override properties = {
    nodes: { attribute: false },
    edges: { attribute: false },
    chosen: { attribute: false },
    name: { attribute: false },
    reach: { attribute: false },
    current: { state: true },
    width: { state: true },
  };
  declare nodes: GraphNode[];
  declare edges: GraphEdge[];
  declare chosen: string;
  /** What the drawing shows, for readers of the screen. */
  declare name: string;
  /** How far apart joined nodes are, pixels. */
  declare reach: number;
  /** The node that keys begin at. */
  declare current: string;
  declare width: number;
  private placed = new Map<string, Placed>();
  private zoom: ZoomBehavior<SVGSVGElement, unknown> | undefined;
  private observer: ResizeObserver | undefined;

  constructor() {
    super();
    this.nodes = [];
    this.edges = [];
    this.chosen = '';
    this.name = 'Graph';
    this.reach = 100;
    this.current = '';
    this.width = 0;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    this.observer = new ResizeObserver(([entry]) => {
      const width = Math.round(entry!.contentRect.width);
      if (width > 0) this.width = width;
    });
    this.observer.observe(this);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.observer?.disconnect();
  }

  protected override willUpdate(changes: PropertyValues): void {
    if (changes.has('nodes') || changes.has('edges')) this.place();
    if (!this.nodes.some(({ id }) => id === this.current)) this.current = this.nodes[0]?.id ?? '';
  }

  /** Finds a place for every node; those that had one stay near it. */
  private place(): void {
    const before = this.placed;
    const edges = this.edges.filter(({ from, to }) => from !== to);
    const near = new Map<string, Placed>();
    for (const { from, to } of edges) {
      const [a, b] = [before.get(from), before.get(to)];
      if (a && !near.has(to)) near.set(to, a);
      if (b && !near.has(from)) near.set(from, b);
    }
    const nodes: Placed[] = this.nodes.map(({ id }, at) => {
      const old = before.get(id);
      if (old) return { id, x: old.x, y: old.y };
      // The same graph is always drawn in the same way: no chance in the first places.
      const [angle, from] = [at * 2.4, near.get(id)];
      const far = from ? 30 : 12 * Math.sqrt(at + 0.5);
      return { id, x: (from?.x ?? 0) + far * Math.cos(angle), y: (from?.y ?? 0) + far * Math.sin(angle) };
    });
    this.placed = new Map(nodes.map((node) => [node.id, node]));
    const known = edges.filter(({ from, to }) => this.placed.has(from) && this.placed.has(to));
    const links = known.map(({ from, to }) => ({ source: from, target: to }));
    const few = nodes.length <= FEW;
    const room = few ? FEW_ROOM : nodes.length <= ALL_LABELS ? ROOM : RADIUS * 2.2;
    const reach = few ? Math.max(this.reach, 2 * FEW_ROOM) : this.reach;
    const wide = this.width > 0 ? Math.min(1, HEIGHT / this.width) : 0.6;
    forceSimulation(nodes)
      .force('link', forceLink<Placed, { source: string; target: string }>(links).id(({ id }) => id).distance(reach))
      .force('charge', forceManyBody().strength(-3.5 * reach))
      .force('collide', forceCollide(room))
      .force('x', forceX(0).strength(0.05 * wide))
      .force('y', forceY(0).strength(0.08))
      .stop()
      .tick(TICKS);
  }

  protected override updated(changes: PropertyValues): void {
    super.updated(changes);
    const drawing = this.querySelector('svg');
    if (!drawing || this.width === 0) return;
    if (!this.zoom) {
      this.zoom = zoom<SVGSVGElement, unknown>()
        .scaleExtent([0.1, 6])
        // The wheel scrolls the page unless a key says that the drawing is meant.
        .filter((event) => (event.type === 'wheel' ? event.ctrlKey || event.metaKey : !event.button))
        .on('zoom', ({ transform }) =>
          this.querySelector('.zoomed')?.setAttribute('transform', transform.toString()),
        );
      select<SVGSVGElement, unknown>(drawing).call(this.zoom).on('dblclick.zoom', null);
    }
    if (changes.has('nodes') || changes.has('width')) this.fit();
  }

  /** Makes all nodes visible. */
  private fit(): void {
    const nodes = [...this.placed.values()];
    const drawing = this.querySelector('svg');
    if (!this.zoom || !drawing || nodes.length === 0) return;
    const [xs, ys] = [nodes.map(({ x }) => x), nodes.map(({ y }) => y)];
    const [left, right] = [Math.min(...xs), Math.max(...xs)];
    const [top, bottom] = [Math.min(...ys), Math.max(...ys)];
    const scale = Math.min(
      1.3,
      (this.width - 140) / Math.max(1, right - left),
      (HEIGHT - 70) / Math.max(1, bottom - top),
    );
    const move = zoomIdentity
      .translate(this.width / 2, HEIGHT / 2)
      .scale(Math.max(0.1, scale))
      .translate(-(left + right) / 2, -(top + bottom) / 2);
    select<SVGSVGElement, unknown>(drawing).call(this.zoom.transform, move);
  }

  private scale(by: number): void {
    const drawing = this.querySelector('svg');
    if (drawing && this.zoom) select<SVGSVGElement, unknown>(drawing).call(this.zoom.scaleBy, by);
  }

  private choose(id: string): void {
    this.current = id;
    this.dispatchEvent(new CustomEvent<string>(CHOSEN, { detail: id }));
  }

  private key(event: KeyboardEvent): void {
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    };
    const move = moves[event.key];
    if (move) this.step(move);
    else if (event.key === 'Enter' || event.key === ' ') this.choose(this.current);
    else if (event.key === '+' || event.key === '=') this.scale(1.3);
    else if (event.key === '-') this.scale(1 / 1.3);
    else if (event.key === '0') this.fit();
    else return;
    event.preventDefault();
  }

  /** Goes to the nearest node in a direction. */
  private step([right, down]: [number, number]): void {
    const from = this.placed.get(this.current);
    if (!from) return;
    let [best, least] = ['', Infinity];
    for (const { id, x, y } of this.placed.values()) {
      const along = (x - from.x) * right + (y - from.y) * down;
      const aside = Math.abs((x - from.x) * down) + Math.abs((y - from.y) * right);
      if (id === from.id || along <= 0) continue;
      const cost = along + 2 * aside;
      if (cost < least) [best, least] = [id, cost];
    }
    if (!best) return;
    this.current = best;
    void this.updateComplete.then(() =>
      this.querySelector<SVGElement>(`[data-id="${CSS.escape(best)}"]`)?.focus(),
    );
  }

  protected override render(): TemplateResult {
    const kinds = [...new Set(this.nodes.map(({ kind }) => kind))].sort();
    const colour = (kind: string) => `kind-${Math.min(kinds.indexOf(kind), COLOURS - 1)}`;
    const few = this.nodes.length <= ALL_LABELS;
    return html`
      <div class="graph">
        <svg
          width=${this.width}
          height=${HEIGHT}
          role="group"
          aria-label=${`${this.name}: arrow keys go from node to node, Enter chooses, + and - zoom`}
          @keydown=${(event: KeyboardEvent) => this.key(event)}
        >
          <g class="zoomed">
            ${this.edgesDrawn()}
            ${this.nodes.map((node) => this.node(node, colour(node.kind), few))}
          </g>
        </svg>
        <div class="tools">
          <button type="button" aria-label="Larger" @click=${() => this.scale(1.3)}>+</button>
          <button type="button" aria-label="Smaller" @click=${() => this.scale(1 / 1.3)}>−</button>
          <button type="button" aria-label="Show all" @click=${() => this.fit()}>all</button>
        </div>
      </div>
      <p class="legend soft">
        ${kinds.map(
          (kind) =>
            html`<span class="item"
              ><svg class=${`key ${colour(kind)}`} width="12" height="12" aria-hidden="true">
                <circle cx="6" cy="6" r="5"></circle></svg
              >${kind}</span
            >`,
        )}
      </p>
    `;
  }

  private edgesDrawn(): unknown {
    const pairs = Map.groupBy(this.edges, ({ from, to }) => JSON.stringify([from, to]));
    const isOf = (id: string) => ({ from, to }: GraphEdge) => from === id || to === id;
    const few = this.edges.filter(isOf(this.chosen)).length <= CHOSEN_LABELS;
    return [...pairs.values()].map((edges) => {
      const { from, to } = edges[0]!;
      const [a, b] = [this.placed.get(from), this.placed.get(to)];
      if (!a || !b) return nothing;
      const more = edges.length > 2 ? ` +${edges.length - 2}` : '';
      const label = edges.slice(0, 2).map((edge) => edge.label).join(', ') + more;
      const mine = from === this.chosen || to === this.chosen;
      const said = pairs.size <= EDGE_LABELS || (mine && few);
      if (a === b) {
        const loop = `M${a.x - 4} ${a.y - 5}C${a.x - 30} ${a.y - 42} ${a.x + 30} ${a.y - 42} ${a.x + 4} ${a.y - 5}`;
        return svg`<g class=${mine ? 'edge mine' : 'edge'}><path d=${loop}></path>
          <text class=${said ? '' : 'pointed'} x=${a.x} y=${a.y - 36}>${label}</text></g>`;
      }
      const [dx, dy] = [b.x - a.x, b.y - a.y];
      const far = Math.hypot(dx, dy) || 1;
      // Bent a little to one side, so that edges there and back are told apart.
      const [mx, my] = [(a.x + b.x) / 2 - (dy / far) * 10, (a.y + b.y) / 2 + (dx / far) * 10];
      const size = (this.nodes.find(({ id }) => id === to)?.size ?? RADIUS) + 2;
      const [ex, ey] = [b.x - (dx / far) * size, b.y - (dy / far) * size];
      const [ux, uy] = [ex - mx, ey - my];
      const long = Math.hypot(ux, uy) || 1;
      const [cx, cy] = [(ux / long) * 6, (uy / long) * 6];
      const tip = `M${ex - cx - cy / 2} ${ey - cy + cx / 2}L${ex} ${ey}L${ex - cx + cy / 2} ${ey - cy - cx / 2}`;
      // Nearer to the end that is not chosen, where there is more room.
      const t = to === this.chosen ? 0.38 : from === this.chosen ? 0.62 : 0.5;
      const on = (p: number, q: number, r: number) => (1 - t) ** 2 * p + 2 * t * (1 - t) * q + t * t * r;
      const [tx, ty] = [on(a.x, mx, b.x), on(a.y, my, b.y)];
      const line = `M${a.x} ${a.y}Q${mx} ${my} ${ex} ${ey}`;
      return svg`<g class=${mine ? 'edge mine' : 'edge'}>
        <path class="wide" d=${line}></path><path d=${line}></path><path d=${tip}></path>
        <text class=${said ? '' : 'pointed'} x=${tx} y=${ty + 3}>${label}</text></g>`;
    });
  }

  private node(node: GraphNode, colour: string, few: boolean): unknown {
    const at = this.placed.get(node.id);
    if (!at) return nothing;
    const isChosen = node.id === this.chosen;
    const classes = ['node', colour, node.open ? 'open' : '', isChosen ? 'chosen' : ''].join(' ');
    const size = node.size ?? RADIUS;
    const label = cut(node.label);
    return svg`<g
      class=${classes}
      data-id=${node.id}
      transform=${`translate(${at.x} ${at.y})`}
      tabindex=${node.id === this.current ? 0 : -1}
      role="button"
      aria-label=${node.title}
      aria-pressed=${isChosen}
      @click=${() => this.choose(node.id)}
      @focus=${() => (this.current = node.id)}
    >
      <title>${node.title}</title>
      <circle r=${size}></circle>
      <text class=${few || node.open || isChosen ? '' : 'pointed'} y=${size + 12}>${label}</text>
    </g>`;
  }
}

/** A label in a few whole words, so that what is read is part of what is said. */
function cut(label: string): string {
  if (label.length <= LABEL_CHARS) return label;
  const end = label.lastIndexOf(' ', LABEL_CHARS);
  return `${label.slice(0, end > 0 ? end : LABEL_CHARS).replace(/[\s,;:]+$/, '')} …`;
}

customElements.define('small-graph', Graph);
