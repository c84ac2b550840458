import { Grid } from "./grid";
import type { Side, Token } from "./types";

/** The label of one row or column of a picture: a token, or the tokens of a word. */
export interface Label {
  text: string; // as drawn: spaces and line ends visible
  plain: string; // as read aloud
  kind: Token["kind"];
  space: boolean;
  tokens: number[];
}

const kVisible: Record<string, string> = { " ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍", "\u00a0": "⍽", "\u3000": "␣" };

/** Replaces invisible characters by visible symbols. */
export function visible(text: string): string {
  return text.replace(/[\n\t\r\u00a0\u3000]|^ +$|^ | $/g, (run) => [...run].map((c) => kVisible[c] ?? c).join(""));
}

function labelOf(token: Token, index: number): Label {
  const text = token.text === "" ? "∅" : visible(token.text);
  return { text, plain: token.text || "∅", kind: token.kind, space: token.space, tokens: [index] };
}

/** One label per token, or per word if `words`. A special token always has a label of its own. */
export function labels(side: Side, words: boolean): Label[] {
  const result: Label[] = [];
  let word = -1;
  side.tokens.forEach((token, index) => {
    const label = labelOf(token, index);
    const last = result[result.length - 1];
    if (words && last && token.word >= 0 && token.word === word) {
      last.text += label.text;
      last.plain += label.plain;
      last.tokens.push(index);
    } else {
      result.push(words ? { ...label, space: false } : label);
    }
    word = token.word;
  });
  if (words) spellBytes(side, result);
  return result;
}

/** Bytes of a word are shown as the characters that they form, which only the text itself tells. */
function spellBytes(side: Side, list: Label[]): void {
  const bytes = new TextEncoder().encode(side.text);
  for (const label of list) {
    const tokens = label.tokens.map((index) => side.tokens[index]!);
    if (!tokens.some((token) => token.kind === "byte")) continue;
    const plain = new TextDecoder().decode(bytes.subarray(tokens[0]!.start, tokens[tokens.length - 1]!.end));
    if (plain) Object.assign(label, { plain, text: visible(plain), kind: "text" });
  }
}

/** Whether a side has a word of several tokens, so that grouping changes anything. */
export function groupable(side: Side): boolean {
  return side.tokens.some((token, i) => i > 0 && token.word >= 0 && token.word === side.tokens[i - 1]!.word);
}

/** Weights between words: sums the columns of each key word, and averages the rows of each query word. */
export function grouped(weights: Grid, rows: Label[], columns: Label[]): Grid {
  if (rows.length === weights.rows && columns.length === weights.columns) return weights;
  const result = Grid.zeros(rows.length, columns.length);
  rows.forEach((row, r) =>
    columns.forEach((column, c) => {
      let sum = 0;
      for (const i of row.tokens) for (const j of column.tokens) sum += weights.at(i, j);
      result.data[r * columns.length + c] = sum / row.tokens.length;
    }),
  );
  return result;
}

/** The index of the label that holds a token. */
export function labelAt(list: Label[], token: number): number {
  return Math.max(
    0,
    list.findIndex((label) => label.tokens.includes(token)),
  );
}
