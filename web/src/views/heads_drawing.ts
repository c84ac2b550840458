import type { Label } from "../data/words";
import { drawLabel } from "../draw/labels";
import { fitted, textWidth, type Pen } from "../draw/pen";
import type { Sight } from "../draw/picture";
import { headColour, type Theme } from "../draw/theme";
import type { Axes } from "./common";

export const kRow = 24;
const kTop = 30;
const kSteps = 12; // shades of a head's colour; all lines of one shade are drawn together

/** The lines of one head. */
export interface Lines {
  head: number;
  weights: number[];
  queries: number[];
  keys: number[];
}

/** One token and the weights it gives (side 0) or receives (side 1), for each head shown. */
export interface Isolated {
  side: 0 | 1;
  index: number;
  values: Float32Array[];
}

interface Scene {
  axes: Axes;
  theme: Theme;
  lines: Lines[];
  on: number[];
  isolated: Isolated | null;
  caption: [string, string];
  scale: { name: string; colour: string };
}

/** The right edge of the left column of tokens, and the left edge of the right one. */
export function columnsOf(width: number): [number, number] {
  const room = Math.max(84, Math.min(230, width * 0.3));
  return [room, width - room];
}

export function sideAt(x: number, width: number): 0 | 1 {
  return x < width / 2 ? 0 : 1;
}

export function rowAt(y: number, count: number): number | null {
  const row = Math.floor((y - kTop) / kRow);
  return row >= 0 && row < count ? row : null;
}

const middle = (row: number) => kTop + row * kRow + kRow / 2;

export function drawHeads(pen: Pen, sight: Sight, scene: Scene): void {
  const [left, right] = columnsOf(sight.width);
  const { theme, isolated } = scene;
  if (isolated) drawIsolated(pen, sight, scene, isolated, left, right);
  else scene.lines.forEach((lines, n) => drawLines(pen, sight, lines, theme, left, right, apart(n, scene.on.length)));
  drawColumn(pen, sight, scene, 0, left);
  drawColumn(pen, sight, scene, 1, right);
  const caption = (text: string) => fitted(text, left - 8, { size: 12 });
  pen.text(caption(scene.caption[0]), left - 8, 16, { colour: theme.soft, size: 12, align: "end" });
  pen.text(caption(scene.caption[1]), right + 8, 16, { colour: theme.soft, size: 12 });
  drawScale(pen, scene, left, right);
}

/** The strengths of a few weights, between the names of the sides. */
function drawScale(pen: Pen, { theme, scale }: Scene, left: number, right: number): void {
  const [weights, line, step] = right - left < 280 ? [[0.1, 1], 14, 40] : [[0.05, 0.25, 0.5, 1], 16, 46];
  const name = fitted(scale.name, right - left - weights.length * step - 8, { size: 11 });
  let x = (left + right - weights.length * step - textWidth(name, { size: 11 }) - 8) / 2;
  pen.text(name, x, 16, { colour: theme.soft, size: 11 });
  x += textWidth(name, { size: 11 }) + 8;
  for (const weight of weights) {
    pen.line([x, 12, x + line, 12], { colour: scale.colour, ...strokeOf(weight) });
    pen.text(String(weight), x + line + 4, 16, { colour: theme.soft, size: 11 });
    x += step;
  }
}

/** A line's opacity and width show its weight. */
function strokeOf(weight: number): { alpha: number; width: number } {
  const strength = (Math.min(kSteps - 1, Math.floor(weight * kSteps)) + 0.5) / kSteps;
  return { alpha: 0.12 + 0.78 * strength, width: 0.8 + 2.2 * strength };
}

/** The vertical offset of a head's lines at a token, so that heads do not cover each other. */
function apart(n: number, count: number): number {
  return (n - (count - 1) / 2) * Math.min(2.6, 15 / count);
}

function drawLines(
  pen: Pen,
  sight: Sight,
  lines: Lines,
  theme: Theme,
  left: number,
  right: number,
  shift: number,
): void {
  const shades: number[][] = Array.from({ length: kSteps }, () => []);
  for (let i = 0; i < lines.weights.length; ++i) {
    const [y0, y1] = [middle(lines.queries[i]!), middle(lines.keys[i]!)];
    if (Math.max(y0, y1) < sight.top || Math.min(y0, y1) > sight.bottom) continue;
    shades[Math.min(kSteps - 1, Math.floor(lines.weights[i]! * kSteps))]!.push(left, y0 + shift, right, y1 + shift);
  }
  const colour = headColour(theme, lines.head);
  shades.forEach((ends, step) => {
    if (ends.length) pen.curves(ends, { colour, ...strokeOf((step + 0.5) / kSteps) });
  });
}

function drawIsolated(
  pen: Pen,
  sight: Sight,
  scene: Scene,
  { side, index, values }: Isolated,
  left: number,
  right: number,
): void {
  values.forEach((weights, n) => {
    const kept: Lines = { head: scene.on[n]!, weights: [], queries: [], keys: [] };
    weights.forEach((weight, other) => {
      if (weight < 0.004) return;
      kept.weights.push(weight);
      kept.queries.push(side === 0 ? index : other);
      kept.keys.push(side === 0 ? other : index);
    });
    drawLines(pen, sight, kept, scene.theme, left, right, apart(n, values.length));
  });
}

function drawColumn(pen: Pen, sight: Sight, scene: Scene, side: 0 | 1, edge: number): void {
  const { theme, isolated } = scene;
  const list: Label[] = side === 0 ? scene.axes.rows : scene.axes.columns;
  const first = Math.max(0, Math.floor((sight.top - kTop) / kRow));
  const last = Math.min(list.length, Math.ceil((sight.bottom - kTop) / kRow));
  const room = side === 0 ? edge : sight.width - edge;
  for (let i = first; i < last; ++i) {
    const chosen = isolated?.side === side && isolated.index === i;
    const top = kTop + i * kRow;
    if (isolated && isolated.side !== side)
      drawShares(pen, scene, isolated, i, side === 0 ? edge - room : edge, top, room, side);
    if (chosen)
      pen.rect(
        { x: side === 0 ? 2 : edge + 2, y: top + 1, width: room - 4, height: kRow - 2 },
        { fill: theme.accent, alpha: 0.16, radius: 5 },
      );
    const at = {
      x: side === 0 ? edge - 8 : edge + 8,
      y: top + 16.5,
      room: room - 16,
      align: side === 0 ? ("end" as const) : ("start" as const),
    };
    drawLabel(pen, list[i]!, at, theme, 14, chosen);
  }
}

/** Draws a band behind a token for each head, with the opacity of its weight. */
function drawShares(
  pen: Pen,
  scene: Scene,
  isolated: Isolated,
  index: number,
  x: number,
  y: number,
  room: number,
  side: 0 | 1,
): void {
  const band = (room - 4) / Math.max(1, isolated.values.length);
  let mean = 0;
  isolated.values.forEach((weights, n) => {
    const weight = weights[index] ?? 0;
    mean += weight / isolated.values.length;
    if (weight > 0.004)
      pen.rect(
        { x: x + 2 + n * band, y: y + 2, width: band, height: kRow - 4 },
        { fill: headColour(scene.theme, scene.on[n]!), alpha: 0.55 * Math.sqrt(weight) },
      );
  });
  if (mean < 0.005) return;
  const text = mean >= 0.995 ? "1" : mean.toFixed(2).replace(/^0/, "");
  pen.text(text, side === 1 ? x + room - 6 : x + 6, y + 16, {
    colour: scene.theme.soft,
    size: 11,
    align: side === 1 ? "end" : "start",
  });
}
