import type { Label } from "../data/words";
import { fitted, textWidth, type Lettering, type Pen } from "./pen";
import type { Theme } from "./theme";

/** The font of a token: italic for special tokens, monospaced for single bytes. */
export function lettering(label: Label, theme: Theme, size = 14): Lettering {
  if (label.kind === "special") return { colour: theme.soft, size: size - 1, italic: true };
  if (label.kind === "byte") return { colour: theme.warm, size: size - 1, mono: true };
  return { colour: theme.ink, size };
}

const kMark = "␣";

/** Draws a label. A space before the token becomes a pale mark, as it is not part of the token. */
export function drawLabel(
  pen: Pen,
  label: Label,
  at: { x: number; y: number; room: number; align: "start" | "end" },
  theme: Theme,
  size = 14,
  strong = false,
): void {
  const style: Lettering = { ...lettering(label, theme, size), weight: strong ? 600 : 400 };
  const mark = label.space ? textWidth(kMark, { size: size - 2 }) : 0;
  const text = fitted(label.text, at.room - mark, style);
  const width = textWidth(text, style);
  const left = at.align === "start" ? at.x : at.x - width - mark;
  if (mark) pen.text(kMark, left, at.y, { colour: theme.soft, size: size - 2, alpha: 0.55 });
  pen.text(text, left + mark, at.y, style);
}

export function labelWidth(label: Label, size = 14): number {
  return textWidth(label.text, { size }) + (label.space ? textWidth(kMark, { size: size - 2 }) : 0);
}

/** The width that a column of labels needs, between limits. */
export function widest(list: Label[], least: number, most: number, size = 14): number {
  let width = least;
  for (const label of list.slice(0, 400)) width = Math.max(width, Math.min(most, labelWidth(label, size) + 4));
  return width;
}
