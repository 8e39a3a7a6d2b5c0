// What every view is built on: an element without a shadow, so that one style sheet serves all.

import { LitElement, type PropertyDeclarations, type PropertyValues } from 'lit';

import type { Base, Bundle } from './model';

/** What all views are told. */
export interface Served {
  bases: Base[];
  bundles: Bundle[];
}

export class Plain extends LitElement {
  protected override createRenderRoot(): HTMLElement {
    return this;
  }
}

/** A view of the explorer: shows what the address says, and nothing that it does not say. */
export abstract class ViewElement extends Plain {
  static override properties: PropertyDeclarations = {
    params: { attribute: false },
    served: { attribute: false },
    base: { attribute: false },
  };
  declare params: URLSearchParams;
  declare served: Served;
  declare base: Base;

  /** Asks for what the address needs; called before every drawing. */
  protected abstract load(): void;

  protected override willUpdate(changes: PropertyValues): void {
    if (changes.has('params') || changes.has('base')) this.load();
  }

  /** A parameter of the address; empty if it is not there. */
  protected param(name: string): string {
    return this.params.get(name) ?? '';
  }

  /** The bundle that answers on the base. */
  protected get bundle(): Bundle | undefined {
    return this.served.bundles.find((bundle) => bundle.base === this.base.name);
  }
}
