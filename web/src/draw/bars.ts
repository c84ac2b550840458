import { largestMagnitude } from "../data/grid";
import type { Label } from "../data/words";
import { fitted, textWidth, type Pen } from "./pen";
import type { Theme } from "./theme";

/** One bar per token, above or below a zero line. Masked tokens are marked. */
export interface Bars {
  labels: Label[];
  values: ArrayLike<number>;
  format: (value: number) => string;
  signed: boolean; // orange above the line, blue below, as in all pictures of signed numbers; else blue
}

const kUp = 84;
const kLabel = 62;

export function barsSize(labels: Label[], available: number): { width: number; height: number } {
  const wanted = labels.length * 30 + 16;
  return {
    width: labels.length * 20 + 16 > available ? labels.length * 30 + 16 : Math.min(available, wanted * 1.4),
    height: 2 * 18 + kUp + (labels.every((label) => short(label)) ? 22 : kLabel),
  };
}

export function drawBars(pen: Pen, bars: Bars, width: number, range: [number, number], theme: Theme): void {
  const step = Math.min(52, (width - 16) / bars.labels.length);
  const most = largestMagnitude(bars.values) || 1;
  const low = Math.min(0, ...finite(bars.values)) / most;
  const high = Math.max(0, ...finite(bars.values)) / most;
  const unit = kUp / Math.max(0.001, high - low);
  const line = 18 + high * unit;
  bars.labels.forEach((label, i) => {
    const x = 8 + i * step;
    if (x + step < range[0] || x > range[1]) return;
    const value = bars.values[i]!;
    const height = Number.isFinite(value) ? (value / most) * unit : 0;
    const text = Number.isFinite(value) ? bars.format(value) : "−∞";
    const room = step >= textWidth(text, { size: 10 }) + 2;
    pen.rect(
      { x: x + 2, y: Math.min(line, line - height), width: step - 4, height: Math.max(1, Math.abs(height)) },
      { fill: bars.signed && value >= 0 ? theme.warm : theme.accent, alpha: 0.85 },
    );
    if (room)
      pen.text(text, x + step / 2, height >= 0 ? line - height - 4 : line - height + 12, {
        colour: theme.soft,
        size: 10,
        align: "middle",
      });
    drawName(pen, label, x + step / 2, 18 + kUp + 22, step, theme);
  });
  pen.line([8, line, 8 + step * bars.labels.length, line], { colour: theme.faint });
}

function drawName(pen: Pen, label: Label, x: number, y: number, step: number, theme: Theme): void {
  const text = (label.space ? "␣" : "") + label.text;
  const style = {
    colour: label.kind === "special" ? theme.soft : theme.ink,
    size: 12,
    italic: label.kind === "special",
  };
  if (textWidth(text, style) <= step - 1) pen.text(text, x, y + 10, { ...style, align: "middle" });
  else pen.text(fitted(text, kLabel - 8, style), x + 4, y, { ...style, turn: 90 });
}

function short(label: Label): boolean {
  return textWidth((label.space ? "␣" : "") + label.text, { size: 12 }) <= 19;
}

function finite(values: ArrayLike<number>): number[] {
  return Array.from(values).filter(Number.isFinite);
}
