// Numbers by step as points and a line.

import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

import { html, type TemplateResult } from 'lit';

import { Plain } from './element';

const HEIGHT = 260;
/** Steps between marks of the axis: whole ones. */
const MARKS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
const FONT = '12px system-ui, sans-serif';

/** What is drawn; a name and a number for each step. */
export interface Drawing {
  steps: number[];
  points: [string, (number | null)[]];
  line: [string, number[]];
  /** Whether the line keeps its height up to the next step. */
  stepped: boolean;
  /** The same in words. */
  told: string;
}

export class Chart extends Plain {
  static override properties = { drawing: { attribute: false } };
  declare drawing: Drawing;
  private plot: uPlot | undefined;
  private observer: ResizeObserver | undefined;
  private scheme = matchMedia('(prefers-color-scheme: dark)');
  private repaint = () => this.draw();

  override connectedCallback(): void {
    super.connectedCallback();
    this.observer = new ResizeObserver(() => this.size());
    this.observer.observe(this);
    this.scheme.addEventListener('change', this.repaint);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    this.observer?.disconnect();
    this.scheme.removeEventListener('change', this.repaint);
    this.plot?.destroy();
    this.plot = undefined;
  }

  protected override render(): TemplateResult {
    return html`<div class="chart" role="img" aria-label=${this.drawing.told}></div>`;
  }

  protected override updated(): void {
    if (this.plot) this.plot.setData(this.data());
    else this.draw();
  }

  private data(): uPlot.AlignedData {
    const { steps, points, line } = this.drawing;
    return [steps, points[1], line[1]];
  }

  private size(): void {
    if (this.clientWidth > 0) this.plot?.setSize({ width: this.clientWidth, height: HEIGHT });
  }

  private draw(): void {
    const box = this.querySelector<HTMLElement>('.chart');
    if (!box) return;
    const { points, line, stepped } = this.drawing;
    const style = getComputedStyle(this);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour('--soft'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line'), width: 1 } };
    this.plot?.destroy();
    this.plot = new uPlot(
      {
        width: this.clientWidth || 300,
        height: HEIGHT,
        scales: { x: { time: false } },
        legend: { live: false },
        cursor: { show: false },
        axes: [{ ...axis, incrs: MARKS, label: 'step', labelSize: 18, labelFont: FONT, font: FONT }, { ...axis, font: FONT }],
        series: [
          { label: 'step' },
          { label: points[0], stroke: colour('--soft'), paths: () => null, points: { show: true, size: 6 } },
          { label: line[0], stroke: colour('--good'), width: 2, points: { show: false }, ...(stepped && uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}) },
        ],
      },
      this.data(),
      box,
    );
  }
}

customElements.define('run-chart', Chart);
