// The shapes of replies, as docs/answer.schema.json and /openapi.json describe them.

export type Direction = 'in' | 'out';
export type Cell = null | boolean | number | string;

export interface Base {
  name: string;
  title: string;
  licence: string;
  nodes: number;
  edges: number;
  types: { name: string; nodes: number; candidate: boolean }[];
  relations: string[];
  fields: string[];
  fingerprint: string;
}

export interface Bundle {
  id: string;
  base: string;
  file: string;
  categories: { name: string; program: string }[];
}

/** A program of the active bundle. */
export interface CategoryProgram {
  category: string;
  id: string;
  source: string;
  params: Record<string, number>;
}

export interface Named {
  id: number;
  type: string;
  name: string;
}

export interface Step {
  node: number;
  name: string;
  type: string;
  relation: string | null;
  direction: Direction | null;
}

export interface Explanation {
  name: string;
  value?: Cell;
  children?: Explanation[];
}

export interface Call {
  category: string;
  line: number | null;
  tool: string;
  arguments: string[];
  result: string;
  value: number | boolean | null;
  failed?: boolean;
}

export interface Feature {
  name: string;
  value: number;
  weight: number;
  gain: number;
}

export interface Hit extends Named {
  rank: number;
  key: string;
  score: number;
  path?: Step[];
  further_paths?: Step[][];
  words?: string[];
  explanation?: Explanation;
  calls?: Call[];
  features?: Feature[];
}

export interface Way {
  category: string;
  probability: number;
  program: string;
}

export interface Answer {
  query: string;
  base: string;
  bundle: string;
  recognised: boolean;
  route: Way[];
  hits: Hit[];
  value?: { value: Cell; unit?: string } | { columns: string[]; rows: Cell[][] };
  cutoff: number | null;
  expected: { precision: number; recall: number } | null;
  understood: {
    entities: { id: number; name: string; type: string; exact: boolean; strength: number }[];
    words: { word: string; types: string[]; relations: string[] }[];
    unused: string[];
    corrected?: { word: string; as: string }[];
    contrary: string[];
    conditions: string[];
    fulfilled: number | null;
  };
  stand_in: string | null;
  timings: Record<string, number>;
}

export interface Ranking {
  base: string;
  system: string;
  route?: Way[];
  hits: Hit[];
  took_ms: number;
}

/** The values of a field, relation or type of neighbour, with the condition that keeps their nodes. */
export interface Facet {
  name: string;
  n_values: number;
  values: { value: string; condition: string; nodes: number }[];
}

export interface Facets {
  nodes: number;
  facets: Facet[];
}

export interface System {
  name: string;
  summary: string;
}

export interface Degree {
  relation: string;
  direction: Direction;
  neighbors: number;
}

export interface Node extends Named {
  key: string;
  text: string;
  fields: { name: string; value: string }[];
  relations: Degree[];
}

export interface Neighbor extends Named {
  relation: string;
  direction: Direction;
  key: string;
}

export interface Neighbors {
  neighbors: Neighbor[];
  total: number;
  next: number | null;
}

export interface Listed extends Named {
  key: string;
  fields: { name: string; value: string }[];
}

export interface NodeList {
  nodes: Listed[];
  total: number;
  next: number | null;
}

interface Examples {
  count: number;
  first: string[];
}

export interface Summary {
  types: {
    name: string;
    nodes: number;
    is_candidate: boolean;
    fields: [string, number][];
    shared_names: number;
    frequent_names: [string, number][];
    isolated: Examples;
  }[];
  relations: {
    name: string;
    from: string;
    to: string;
    edges: number;
    per_node: [number, number] | null;
  }[];
  typos: { what: string; label: string; uses: number; like: string }[];
}

export interface Split {
  split: string;
  queries: number;
  open: boolean;
}

export interface LabelledQuery {
  id: number;
  query: string;
  answers: Named[];
  n_answers: number;
}

export interface Tool {
  name: string;
  group: string;
  operator: boolean;
  signature: string;
  args: { name: string; type: string; default: string | null }[];
  result: string;
  cost: string;
  doc: string;
  example: string;
}

export interface ProgramError {
  kind: string;
  message: string;
  line: number | null;
  column: number | null;
}

export interface ProgramRun {
  base: string;
  program: string;
  category: string;
  status: 'ok' | 'error';
  params: { name: string; value: number; min: number; max: number; integer: boolean }[];
  hits: Hit[];
  trace: (Omit<Call, 'category' | 'value'> & { failed: boolean })[];
  error: ProgramError | null;
  usage: { operations: number; tool_calls: number; ms: number; peak_bytes: number };
  output: string;
  took_ms: number;
}

export interface Scored extends Named {
  score: number;
  right: boolean;
}

export interface SampleRun {
  program: string;
  split: string;
  status: 'ok' | 'error';
  error: ProgramError | null;
  queries: {
    id: number;
    query: string;
    rank: number | null;
    reciprocal_rank: number;
    error: string | ProgramError | null;
    took_ms: number;
    top: Scored[];
  }[];
  n: number;
  failed: number;
  mrr: number;
  hit1: number;
  total: number;
  next: number | null;
  took_ms: number;
}

export interface Compared {
  left: string;
  right: string;
  split: string;
  queries: {
    id: number;
    query: string;
    left: number | null;
    right: number | null;
    outcome: 'won' | 'lost' | 'same';
    left_top: Scored[];
    right_top: Scored[];
    left_error: string | null;
    right_error: string | null;
  }[];
  n: number;
  won: number;
  lost: number;
  same: number;
  left_mrr: number;
  right_mrr: number;
  total: number;
  next: number | null;
}

export interface RunListed {
  id: string;
  dataset: string;
  actor: string;
  seed: number | null;
  state: string;
  steps: number;
  tested: number;
  accepted: number;
  changed: number | null;
  problem: string | null;
}

export interface Run {
  id: string;
  dataset: string;
  actor: string;
  model: string | null;
  seed: number | null;
  planned: number | null;
  done: number;
  state: string;
  paused: string | null;
  steps: number;
  tested: number;
  accepted: number;
  programs: number;
  archive: { program: string; category: string; best_on: number }[];
  categories: { category: string; program: string; n: number; mrr: number }[];
  bundle: boolean;
  mrr: number | null;
  cost: {
    calls: number;
    tokens_in: number;
    tokens_out: number;
    usd: number;
    unpriced: number;
    from_cache: number;
  };
  roles: { role: string; calls: number; tokens_in: number; tokens_out?: number; usd: number }[];
  begun: number;
  changed: number;
  seconds: number;
  eta_seconds: number | null;
  phases: { name: string; seconds: number; steps: number; median: number; longest: number }[];
  curve: { step: number; mrr: number; best: number }[];
}

export interface RunStep {
  n: number;
  kind: string;
  category?: string | null;
  program?: string | null;
  pool?: string | null;
  queries?: number | null;
  mrr?: number | null;
  change?: string | null;
  accepted?: boolean | null;
  difference?: number | null;
  p?: number | null;
}

interface Score {
  n: number;
  mrr: number;
}

export interface RunProgram {
  id: string;
  variant: string;
  category: string;
  description: string;
  source: string;
  cut?: boolean;
  params: Record<string, number>;
  proposed_by: string;
  change: string;
  parent: string | null;
  train: Score | null;
  validation: Score | null;
  frozen: boolean;
  tests: {
    from: string;
    to: string;
    change: string;
    n: number;
    difference: number;
    p: number | null;
    e: number | null;
    accepted: boolean;
  }[];
}

export interface RunPrograms {
  programs: RunProgram[];
  total: number;
  next: number | null;
}

/** The readings of a question that is asked back, each with its answer. */
export interface Readings {
  by: 'readings';
  readings: { told: string; path: string[] }[];
  ms: number;
}

/** The answer to a question over many nodes. */
export interface Tabled {
  by: 'table';
  plan: object;
  question: string;
  kind: string;
  told: string;
  path: string[];
  sql: string[];
  result: { columns: string[]; rows: Cell[][]; n_rows: number };
  table: {
    rows_are: string;
    columns: { name: string; source: string; unit: string | null }[];
    rows: { id: number; name: string; cells: (Cell | Cell[])[] }[];
    n_rows: number;
    counted: number;
  };
  left_out: { rows: number; why: string }[];
  assumed: string[];
  ms: number;
}
