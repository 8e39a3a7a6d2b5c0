// The editor of programs: colours, completion and hover from the tools' reference, the line of an
// error. In a shadow of its own, so that its styles need no exception from the page's policy.

import { autocompletion, closeBrackets, completionKeymap, type CompletionContext } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { bracketMatching, HighlightStyle, indentUnit, StreamLanguage, syntaxHighlighting } from '@codemirror/language';
import { EditorState, StateEffect, StateField } from '@codemirror/state';
import {
  Decoration,
  drawSelection,
  EditorView,
  highlightActiveLine,
  hoverTooltip,
  keymap,
  lineNumbers,
  type DecorationSet,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';

import type { Tool } from './model';
import { outside, token, type Inside } from './rhai';

/** Says that the text has changed. */
export const EDITED = 'edited';
/** Says that the program is to run. */
export const RUN = 'run';

const language = StreamLanguage.define<Inside>({
  name: 'rhai',
  startState: outside,
  copyState: (inside) => ({ ...inside }),
  token(stream, inside) {
    const [end, kind] = token(stream.string, stream.pos, inside);
    stream.pos = end;
    return { comment: 'comment', string: 'string', number: 'number', keyword: 'keyword', function: 'function', name: 'variableName', other: null }[kind];
  },
  languageData: { commentTokens: { line: '//', block: { open: '/*', close: '*/' } }, closeBrackets: { brackets: ['(', '[', '{', '"'] } },
  tokenTable: { function: tags.function(tags.variableName) },
});

const colours = HighlightStyle.define([
  { tag: tags.comment, color: 'var(--soft)', fontStyle: 'italic' },
  { tag: tags.string, color: 'var(--good)' },
  { tag: tags.number, color: 'var(--k1)' },
  { tag: tags.keyword, color: 'var(--k3)', fontWeight: '600' },
  { tag: tags.function(tags.variableName), color: 'var(--accent)' },
]);

const theme = EditorView.theme({
  '&': { fontSize: '0.86rem', backgroundColor: 'var(--card)', color: 'var(--text)', border: '1px solid var(--edge)', borderRadius: '.4rem', maxHeight: '34rem', minHeight: '14rem' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '1px' },
  '.cm-scroller': { fontFamily: "ui-monospace, 'DejaVu Sans Mono', monospace", lineHeight: '1.5', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'var(--card)', color: 'var(--soft)', borderRight: '1px solid var(--line)' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'transparent' },
  '&.cm-focused .cm-activeLine': { backgroundColor: 'var(--whole)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--mark)' },
  '.cm-wrong': { textDecoration: 'underline wavy var(--bad)', textUnderlineOffset: '3px' },
  '.cm-matchingBracket': { backgroundColor: 'var(--mark)' },
  '.cm-tooltip': { backgroundColor: 'var(--card)', color: 'var(--text)', border: '1px solid var(--edge)', borderRadius: '.3rem', maxWidth: '34rem' },
  '.cm-tooltip-hover': { padding: '.4rem .6rem' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--page)' },
  '.cm-completionInfo': { padding: '.4rem .6rem', maxWidth: '26rem' },
  '.cm-tool-signature': { fontFamily: 'ui-monospace, monospace', overflowWrap: 'anywhere', fontWeight: '600' },
  '.cm-tool-doc': { margin: '.3rem 0', maxHeight: '12rem', overflowY: 'auto' },
});

const setWrong = StateEffect.define<number | null>();
const wrong = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    let now = transaction.docChanged ? Decoration.none : marks;
    for (const effect of transaction.effects) {
      if (!effect.is(setWrong)) continue;
      const at = effect.value;
      const line = at !== null && at >= 1 && at <= transaction.state.doc.lines ? transaction.state.doc.line(at) : null;
      now = line && line.length > 0
        ? Decoration.set(Decoration.mark({ class: 'cm-wrong' }).range(line.from, line.to))
        : Decoration.none;
    }
    return now;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** What is told of a tool. */
function about(tool: Tool): HTMLElement {
  const box = document.createElement('div');
  const add = (name: string, kind: string, text: string) => {
    const part = document.createElement(name);
    part.className = kind;
    part.textContent = text;
    box.append(part);
  };
  add('div', 'cm-tool-signature', tool.signature);
  add('div', 'cm-tool-doc', tool.doc);
  add('code', '', tool.example);
  return box;
}

/** Replaces what is selected by what is typed. Left to the browser, joining lines makes it write
 * styles into the text, which the page's policy forbids. */
function replaced(event: InputEvent, view: EditorView): boolean {
  const { selection } = view.state;
  const isPlain = event.inputType === 'insertText' && event.data !== null && !view.composing;
  if (!isPlain || selection.ranges.every(({ empty }) => empty)) return false;
  event.preventDefault();
  view.dispatch(view.state.replaceSelection(event.data!), { userEvent: 'input.type', scrollIntoView: true });
  return true;
}

export class Editor extends HTMLElement {
  private view: EditorView | undefined;
  private tools = new Map<string, Tool>();
  private text = '';

  connectedCallback(): void {
    const root = this.shadowRoot ?? this.attachShadow({ mode: 'open', delegatesFocus: true });
    this.view ??= new EditorView({ state: this.state(this.text), parent: root, root });
  }

  set known(tools: Tool[]) {
    this.tools = new Map(tools.filter(({ operator }) => !operator).map((tool) => [tool.name, tool]));
  }

  /** The text; setting it begins anew, without a way back. */
  get value(): string {
    return this.view?.state.doc.toString() ?? this.text;
  }

  set value(text: string) {
    this.text = text;
    if (this.view && text !== this.value) this.view.setState(this.state(text));
  }

  /** Marks the line of an error; none takes the mark away. */
  set bad(line: number | null) {
    this.view?.dispatch({ effects: setWrong.of(line) });
  }

  private state(doc: string): EditorState {
    const run = () => {
      this.dispatchEvent(new Event(RUN));
      return true;
    };
    return EditorState.create({
      doc,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        highlightActiveLine(),
        bracketMatching(),
        closeBrackets(),
        indentUnit.of('    '),
        language,
        syntaxHighlighting(colours),
        theme,
        wrong,
        autocompletion({ override: [(context) => this.complete(context)] }),
        hoverTooltip((view, at) => this.hover(view, at)),
        // Tab leaves the editor, so that the keyboard alone gets everywhere.
        keymap.of([{ key: 'Mod-Enter', run }, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorView.domEventHandlers({ beforeinput: replaced }),
        EditorView.contentAttributes.of({ 'aria-label': 'Program', tabindex: '0' }),
        EditorView.updateListener.of(({ docChanged }) => {
          if (docChanged) this.dispatchEvent(new Event(EDITED));
        }),
      ],
    });
  }

  private complete(context: CompletionContext) {
    const word = context.matchBefore(/[A-Za-z_]\w*/);
    if (!word && !context.explicit) return null;
    const options = [...this.tools.values()].map((tool) => ({
      label: tool.name,
      type: 'function',
      detail: tool.result,
      apply: `${tool.name}(`,
      info: () => about(tool),
    }));
    return { from: word?.from ?? context.pos, options, validFor: /^\w*$/ };
  }

  private hover(view: EditorView, at: number) {
    const line = view.state.doc.lineAt(at);
    for (const found of line.text.matchAll(/[A-Za-z_]\w*/g)) {
      const [from, to] = [line.from + found.index, line.from + found.index + found[0].length];
      const tool = this.tools.get(found[0]);
      if (from <= at && at <= to && tool) return { pos: from, end: to, create: () => ({ dom: about(tool) }) };
    }
    return null;
  }
}

customElements.define('program-editor', Editor);
