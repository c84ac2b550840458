import { largestMagnitude } from "../data/grid";
import type { Attention } from "../data/types";
import { drawSignedLegend } from "../draw/heatmap";
import { drawLabel, widest } from "../draw/labels";
import type { Pen } from "../draw/pen";
import { headColour, hex, inkOn, signedColour, weightColour, type Theme } from "../draw/theme";
import type { Messages } from "../i18n";
import type { Axes } from "./common";
import { sumOf, type Pairing } from "./pairing";

export const kRow = 24;
export const kTop = 58; // height of the query's row above the keys

export interface NeuronsScene {
  all: Axes;
  attention: Attention;
  pairing: Pairing;
  query: number;
  key: number;
  head: number;
  width: number;
  top: number; // of the visible part
  bottom: number;
  theme: Theme;
  t: Messages;
}

/** The columns of the overview. */
interface Columns {
  name: number; // right edge of the tokens and left edge of the first strip
  strip: number; // width of each strip
  second: number;
  end: number;
  hasSum: boolean; // false on a narrow page
}

function columnsOf({ all, query, width }: NeuronsScene): Columns {
  const name = widest([...all.columns, all.rows[query]!], 30, width * 0.2) + 10;
  const hasSum = width >= 520;
  const strip = (width - name - (hasSum ? 126 : 56) - 24) / 2;
  return { name, strip, second: name + strip + 12, end: name + 2 * strip + 24, hasSum };
}

const added = (attention: Attention) => (attention.score === "dot" ? "q × k" : "v tanh(q + k)");

/** Draws the query's strip on top, and for each key its strip, the products, their sum and the weight. */
export function drawOverview(pen: Pen, scene: NeuronsScene): void {
  const { all, pairing, theme, t, width } = scene;
  const at = columnsOf(scene);
  const mostK = Math.max(largestMagnitude(pairing.k.data), largestMagnitude(pairing.q));
  const mostProduct = largestProduct(pairing, all.columns.length);
  const small = { colour: theme.soft, size: 11 };
  pen.text("q", at.name + 4, 12, small);
  drawLabel(pen, all.rows[scene.query]!, { x: at.name - 6, y: 32, room: at.name - 8, align: "end" }, theme, 14, true);
  pen.cells({ x: at.name, y: 18, width: at.strip, height: 18 }, 1, pairing.q.length, (_, c) =>
    signedColour(theme, pairing.q[c]!, mostK),
  );
  pen.text("k", at.name + 4, kTop - 6, small);
  pen.text(added(scene.attention), at.second + 4, kTop - 6, small);
  if (at.hasSum) pen.text("Σ", at.end + 54, kTop - 6, { ...small, align: "end" });
  pen.text(t.weight, width - 8, kTop - 6, { ...small, align: "end" });
  const first = Math.max(0, Math.floor((scene.top - kTop) / kRow));
  const last = Math.min(all.columns.length, Math.ceil((scene.bottom - kTop) / kRow));
  for (let k = first; k < last; ++k) drawKey(pen, scene, at, k, mostK, mostProduct);
  const below = kTop + all.columns.length * kRow + 8;
  drawSignedLegend(pen, at.name, below, theme, mostK, Math.min(180, at.strip));
  drawSignedLegend(pen, at.second, below, theme, mostProduct, Math.min(180, at.strip));
}

function drawKey(pen: Pen, scene: NeuronsScene, at: Columns, k: number, mostK: number, mostProduct: number): void {
  const { all, pairing, theme, t, width } = scene;
  const y = kTop + k * kRow;
  const masked = pairing.scores[k] === -Infinity;
  const chosen = k === scene.key;
  if (chosen)
    pen.rect({ x: 0, y, width, height: kRow }, { fill: headColour(theme, scene.head), alpha: 0.14, radius: 4 });
  drawLabel(pen, all.columns[k]!, { x: at.name - 6, y: y + 16, room: at.name - 8, align: "end" }, theme, 14, chosen);
  const values = pairing.k.row(k);
  const products = pairing.products(k);
  const strip = (x: number) => ({ x, y: y + 3, width: at.strip, height: kRow - 6 });
  pen.cells(strip(at.name), 1, values.length, (_, c) => signedColour(theme, values[c]!, mostK));
  pen.cells(strip(at.second), 1, products.length, (_, c) =>
    signedColour(theme, masked ? NaN : products[c]!, mostProduct),
  );
  const number = { size: 11, align: "end", mono: true } as const;
  if (at.hasSum) pen.text(sumOf(pairing, k).toFixed(2), at.end + 54, y + 16, { ...number, colour: theme.soft });
  const colour = weightColour(theme, pairing.weights[k]!);
  pen.rect({ x: width - 54, y: y + 2, width: 54, height: kRow - 4 }, { fill: hex(colour), radius: 3 });
  const text = masked ? t.maskedShort : pairing.weights[k]!.toFixed(3);
  pen.text(text, width - 8, y + 16, { ...number, colour: inkOn(colour) });
}

/** The largest product over all keys, or over a sample if there are many. */
function largestProduct(pairing: Pairing, keys: number): number {
  let most = 0;
  const step = Math.max(1, Math.floor(keys / 64));
  for (let k = 0; k < keys; k += step) most = Math.max(most, largestMagnitude(pairing.products(k)));
  return most;
}

/** Draws three rows of bars: q, k, and each dimension's contribution to the score. */
export function drawPair(pen: Pen, { attention, pairing, key, width, theme }: NeuronsScene): void {
  const left = 92;
  const rows: [string, ArrayLike<number>][] = [
    ["q", pairing.q],
    ["k", pairing.k.row(key)],
    [added(attention), pairing.products(key)],
  ];
  rows.forEach(([name, values], n) => {
    const middle = 42 + n * 84;
    const most = largestMagnitude(values) || 1;
    const step = (width - left - 8) / values.length;
    pen.text(name, left - 12, middle + 4, { colour: theme.ink, size: 12, align: "end" });
    pen.text(most.toFixed(2), left - 12, middle - 22, { colour: theme.soft, size: 10, align: "end" });
    pen.line([left, middle, width - 8, middle], { colour: theme.faint });
    const gap = Math.min(1, step * 0.1);
    for (let d = 0; d < values.length; ++d) {
      const height = (values[d]! / most) * 34;
      const box = {
        x: left + d * step + gap,
        y: Math.min(middle, middle - height),
        width: Math.max(0.8, step - 2 * gap),
        height: Math.max(0.6, Math.abs(height)),
      };
      pen.rect(box, { fill: height >= 0 ? theme.warm : theme.accent, alpha: 0.85 });
    }
  });
}
