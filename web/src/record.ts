// The record that stands in a page of `agent report`, which opens without a server.

import type { Run, RunProgram, RunStep } from './model';

/** Where answers are lost on validation queries; shares as text in percent. */
export interface Losses {
  lost: number;
  n: number;
  kinds: { name: string; n: number }[];
  causes: { kind: string; category: string; line: number | null; function: string; n: number; gain: string }[];
}

/** A run, its programs, its latest steps, and what was found of its bundle. */
export interface RecordedRun {
  run: Run;
  programs: RunProgram[];
  steps: RunStep[];
  found: {
    about: string;
    synthetic: string;
    figures: [string, string][];
    systems: { name: string; share: number; mrr: string; hit1: string; recall20: string; difference: string; p: string }[];
    losses: Losses | null;
    /** By program with its parameters: lines that lose answers, and how. */
    marks: Record<string, [number, string][]>;
    /** By category: the best baseline, and how far the bundle is from it. */
    against: Record<string, string>;
    router: string;
    sequential_test: string;
    first_better: string[];
    commands: string[];
  };
}

/** A trained model; numbers and texts of any depth say how it was learnt. */
export interface RecordedModel {
  name: string;
  record: {
    system: string;
    source: { dataset: string; queries: [number, number] };
    model: unknown;
    curve: { step: number; loss: number; mrr: number }[];
  };
}

const text = document.getElementById('record')?.textContent;
const record: Partial<RecordedRun & RecordedModel> = text ? JSON.parse(text) : {};

/** Whether the page is one file with its record. */
export const isInlined = Boolean(text);
export const recordedRun = record.run ? (record as RecordedRun) : null;
export const recordedModel = record.record ? (record as RecordedModel) : null;
