// How good the programs of a run are, step by step: points for those that were tried, a line for the
// best so far.

import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

import { html, type TemplateResult } from 'lit';

import { Plain } from './element';
import type { Run } from './model';
import { percent } from './parts';

const HEIGHT = 260;
/** Steps between marks of the axis: whole ones. */
const MARKS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
const FONT = '12px system-ui, sans-serif';

export class Chart extends Plain {
  static override properties = { curve: { attribute: false } };
  declare curve: Run['curve'];
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
    const last = this.curve.at(-1);
    const told = last ? `Best so far ${percent(last.best)} after step ${last.step}` : 'Nothing yet';
    return html`<div class="chart" role="img" aria-label=${`Mean reciprocal rank on validation queries by step. ${told}.`}></div>`;
  }

  protected override updated(): void {
    if (this.plot) this.plot.setData(this.data());
    else this.draw();
  }

  private data(): uPlot.AlignedData {
    const { curve } = this;
    return [curve.map(({ step }) => step), curve.map(({ mrr }) => mrr * 100), curve.map(({ best }) => best * 100)];
  }

  private size(): void {
    if (this.clientWidth > 0) this.plot?.setSize({ width: this.clientWidth, height: HEIGHT });
  }

  private draw(): void {
    const box = this.querySelector<HTMLElement>('.chart');
    if (!box) return;
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
        axes: [{ ...axis, incrs: MARKS, label: 'step', labelSize: 18, labelFont: FONT, font: FONT }, { ...axis, label: 'mean reciprocal rank, %', labelSize: 18, labelFont: FONT, font: FONT }],
        series: [
          { label: 'step' },
          { label: 'tried', stroke: colour('--soft'), paths: () => null, points: { show: true, size: 6 } },
          { label: 'best so far', stroke: colour('--good'), width: 2, points: { show: false }, ...(uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}) },
        ],
      },
      this.data(),
      box,
    );
  }
}

customElements.define('run-chart', Chart);
