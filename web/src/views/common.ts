import { select, toggle, type Option } from "../controls";
import type { Context } from "../context";
import { groupable, labels, type Label } from "../data/words";
import type { Attention, Run } from "../data/types";
import { el } from "../dom";
import type { Messages } from "../i18n";

/** The names of all attentions of a run, grouped by the model's structure. */
export function attentionOptions(run: Run, t: Messages): Option[] {
  return run.attention.map((one) => ({
    value: String(one.index),
    text: t.attentionFull(one),
    group: t.stack(one.stack),
  }));
}

export function attentionSelect({ run, t, update, selection }: Context): HTMLElement {
  return select("layer", t.layer, attentionOptions(run, t), String(selection.attention.index), (value) =>
    update({ layer: Number(value) }),
  );
}

export function headSelect({ t, update, selection }: Context): HTMLElement {
  const { attention, head } = selection;
  const options = Array.from({ length: attention.heads }, (_, i) => ({ value: String(i), text: t.head(i) }));
  return select("head", t.headLabel, options, String(head), (value) => update({ head: Number(value), heads: [] }));
}

/** The selected layer and head by name, for exported files. */
export function selectedNames({ t, selection }: Context): string[] {
  return [t.attentionFull(selection.attention), t.head(selection.head)];
}

/** The switch between tokens and words; null if no word has several tokens. */
export function wordsToggle(context: Context): HTMLElement | null {
  const { run, state, t, update } = context;
  if (!run.sides.some(groupable)) return null;
  return toggle("words", t.groupWords, state.words, (words) => update({ words }));
}

export interface Axes {
  rows: Label[];
  columns: Label[];
}

export function axes(run: Run, attention: Attention, words: boolean): Axes {
  return {
    rows: labels(run.sides[attention.querySide]!, words),
    columns: labels(run.sides[attention.keySide]!, words),
  };
}

/** A list to select one token, by its text and position. */
export function tokenSelect(
  id: string,
  label: string,
  list: Label[],
  value: number,
  changed: (value: number) => void,
): HTMLElement {
  const options = list.map((one, i) => ({ value: String(i), text: `${i} · ${one.text}` }));
  return select(id, label, options, String(value), (text) => changed(Number(text)));
}

export function section(title: string, ...content: (HTMLElement | null)[]): HTMLElement {
  return el("section", { class: "block" }, el("h3", {}, title), ...content);
}

export function note(text: string): HTMLElement {
  return el("p", { class: "note" }, text);
}

/** The number of a label: a probability, or another value (regression). */
export function labelNumber(output: { values?: boolean }, p: number): string {
  return output.values ? p.toFixed(3) : percent(p);
}

/** A number with a minus sign, and without a sign if it is rounded to 0. */
export function signed(value: number, digits = 2): string {
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

export function percent(value: number): string {
  const part = value * 100;
  return part >= 9.95 ? `${part.toFixed(0)} %` : part >= 0.095 ? `${part.toFixed(1)} %` : part > 0 ? "< 0.1 %" : "0 %";
}
