// The words of the language that programs are written in, for showing and for editing them.

export type Kind = 'comment' | 'string' | 'number' | 'keyword' | 'function' | 'name' | 'other';

/** What a line begins inside of. */
export interface Inside {
  comment: number;
  text: boolean;
}

export const outside = (): Inside => ({ comment: 0, text: false });

const KEYWORDS = new Set(
  `let const if else switch do while until loop for in continue break return throw try catch fn
  private import export as global true false this Fn call curry is_shared is_def_var is_def_fn
  type_of print debug eval`.split(/\s+/),
);

const RULES: [RegExp, Kind][] = [
  [/\/\/.*/y, 'comment'],
  [/"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?/y, 'string'],
  [/0[xob][0-9a-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?/y, 'number'],
  [/[A-Za-z_]\w*(?=\s*\()/y, 'function'],
  [/[A-Za-z_]\w*/y, 'name'],
  [/\s+|[^\sA-Za-z_0-9"'`/]+|./y, 'other'],
];

/** The token of a line at a place; its end, and its kind. Changes what the line is inside of. */
export function token(line: string, at: number, inside: Inside): [number, Kind] {
  if (inside.comment > 0 || line.startsWith('/*', at)) {
    const marks = /\/\*|\*\//g;
    marks.lastIndex = at;
    for (let mark = marks.exec(line); mark; mark = marks.exec(line)) {
      inside.comment += mark[0] === '/*' ? 1 : -1;
      if (inside.comment === 0) return [marks.lastIndex, 'comment'];
    }
    return [line.length, 'comment'];
  }
  if (inside.text || line[at] === '`') {
    const end = line.indexOf('`', inside.text ? at : at + 1);
    inside.text = end < 0;
    return [end < 0 ? line.length : end + 1, 'string'];
  }
  for (const [pattern, kind] of RULES) {
    pattern.lastIndex = at;
    const found = pattern.exec(line);
    if (!found) continue;
    const isKeyword = (kind === 'name' || kind === 'function') && KEYWORDS.has(found[0]);
    return [pattern.lastIndex, isKeyword ? 'keyword' : kind];
  }
  return [line.length, 'other'];
}

/** The lines of a source, each as its tokens. */
export function tokens(source: string): [string, Kind][][] {
  const inside = outside();
  return source.split('\n').map((line) => {
    const parts: [string, Kind][] = [];
    for (let at = 0; at < line.length; ) {
      const [end, kind] = token(line, at, inside);
      parts.push([line.slice(at, end), kind]);
      at = end;
    }
    return parts;
  });
}
