// The page: navigation, the base that is looked at, the key, and the view that the address names.

import { html, nothing, type TemplateResult } from 'lit';

import { Failure, get, hasKey, KEY_NEEDED, useKey } from './api';
import { Plain, type Served } from './element';
import { Loader } from './loader';
import type { Base, Bundle } from './model';
import { empty } from './parts';
import { changed, followLinks, go, here, MOVED, to, VIEWS, type View } from './place';

import './ask';
import './data';
import './node';

/** Views whose code is fetched when they are first opened. */
const LATER: Partial<Record<View, () => Promise<unknown>>> = {
  compare: () => import('./compare'),
  run: () => import('./run'),
  playground: () => import('./playground'),
};

class Explorer extends Plain {
  static override properties = { place: { state: true }, locked: { state: true } };
  declare place: ReturnType<typeof here>;
  declare locked: boolean;
  private served = new Loader<Served>(this);
  private opened = new Loader<View>(this);

  constructor() {
    super();
    this.place = here();
    this.locked = false;
  }

  override connectedCallback(): void {
    this.replaceChildren();
    super.connectedCallback();
    followLinks();
    window.addEventListener(MOVED, () => this.moved());
    window.addEventListener(KEY_NEEDED, () => (this.locked = true));
    window.addEventListener('keydown', (event) => this.slash(event));
    this.ask();
  }

  private ask(): void {
    this.served.again('Asking what is served', async (signal) => {
      const [bases, bundles] = await Promise.all([
        get<Base[]>('v1/base', signal),
        get<Bundle[]>('v1/bundles', signal),
      ]);
      return { bases, bundles };
    });
  }

  private moved(): void {
    const before = this.place.view;
    this.place = here();
    if (before !== this.place.view) {
      window.scrollTo(0, 0);
      // A reader of the screen is told where it is now.
      void this.updateComplete.then(() => this.querySelector<HTMLElement>('main')?.focus());
    }
  }

  /** A slash, unless it is typed into something, leads to the question. */
  private slash(event: KeyboardEvent): void {
    const typing = (event.target as Element).closest('input, textarea, select, [contenteditable]');
    const question = this.querySelector<HTMLElement>('#question');
    if (event.key !== '/' || typing || !question) return;
    event.preventDefault();
    question.focus();
  }

  protected override render(): TemplateResult {
    const { view } = this.place;
    const skip = (event: Event) => {
      event.preventDefault();
      this.querySelector<HTMLElement>('main')?.focus();
    };
    document.title = `${VIEWS.find(([id]) => id === view)![1]} – agent`;
    return html`
      <a class="skip" href="#main" @click=${skip}>To the content</a>
      <header>
        <a class="product" href=${to('ask')}>agent</a>
        <nav aria-label="Views">
          ${VIEWS.map(
            ([id, name]) =>
              html`<a href=${to(id)} aria-current=${id === view ? 'page' : nothing}>${name}</a>`,
          )}
        </nav>
        ${this.bases()}
      </header>
      <main id="main" tabindex="-1">
        ${this.locked ? this.keyForm() : this.served.show((served) => this.view(served))}
      </main>
    `;
  }

  private bases(): unknown {
    const bases = this.served.value?.bases ?? [];
    if (bases.length === 0) return nothing;
    if (bases.length === 1) return html`<span class="base soft">${bases[0]!.name}</span>`;
    const chosen = this.base(bases)?.name;
    // Another base has other nodes, so nothing but the view is kept.
    const choose = (event: Event) =>
      go(to(this.place.view, { base: (event.target as HTMLSelectElement).value }));
    return html`<label class="base"
      >Base
      <select @change=${choose}>
        ${bases.map(
          ({ name }) => html`<option value=${name} ?selected=${name === chosen}>${name}</option>`,
        )}
      </select></label
    >`;
  }

  private base(bases: Base[]): Base | undefined {
    const name = this.place.params.get('base');
    return name ? bases.find((base) => base.name === name) : bases[0];
  }

  private view(served: Served): unknown {
    const { view, params } = this.place;
    const base = this.base(served.bases);
    if (!base) {
      const first = html`<a href=${changed({ base: null })}>Go on with ${served.bases[0]!.name}</a>.`;
      return empty(`No base ${params.get('base')} is served here.`, first);
    }
    const later = LATER[view];
    if (later) {
      queueMicrotask(() =>
        this.opened.load(view, 'Fetching the view', () =>
          later().then(
            () => view,
            () => {
              throw new Failure('the view cannot be fetched', 'Reload the page.');
            },
          ),
        ),
      );
      if (this.opened.value !== view) return this.opened.show(() => nothing);
    }
    switch (view) {
      case 'ask':
        return html`<ask-view .params=${params} .served=${served} .base=${base}></ask-view>`;
      case 'node':
        return html`<node-view .params=${params} .served=${served} .base=${base}></node-view>`;
      case 'data':
        return html`<data-view .params=${params} .served=${served} .base=${base}></data-view>`;
      case 'compare':
        return html`<compare-view .params=${params} .served=${served} .base=${base}></compare-view>`;
      case 'run':
        return html`<run-view .params=${params} .served=${served} .base=${base}></run-view>`;
      case 'playground':
        return html`<playground-view
          .params=${params}
          .served=${served}
          .base=${base}
        ></playground-view>`;
    }
  }

  private keyForm(): TemplateResult {
    const submit = (event: SubmitEvent) => {
      event.preventDefault();
      const form = event.target as HTMLFormElement;
      useKey(String(new FormData(form).get('key')).trim());
      this.locked = false;
      this.ask();
    };
    return html`<form class="note" @submit=${submit}>
      ${hasKey() ? html`<p class="gone" role="alert">The key that was given is not one of this server's.</p>` : nothing}
      <label for="key"><strong>This server wants a key.</strong></label>
      <p>
        <code>agent key add NAME</code> makes one; with <code>--scope admin</code> it may run
        programs too. It is kept in this tab until you close it.
      </p>
      <p class="line">
        <input id="key" name="key" type="password" autocomplete="off" required />
        <button>Use it</button>
      </p>
    </form>`;
  }
}

customElements.define('agent-explorer', Explorer);
