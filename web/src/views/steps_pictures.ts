import type { Context } from "../context";
import { largestMagnitude, type Grid } from "../data/grid";
import type { Label } from "../data/words";
import { barsSize, drawBars } from "../draw/bars";
import { drawSignedLegend } from "../draw/heatmap";
import { drawLabel, widest } from "../draw/labels";
import { Picture } from "../draw/picture";
import { drawStrips, stripsHeight } from "../draw/strips";
import { headColour, signedColour } from "../draw/theme";
import type { StepName } from "./steps_formulas";

/** A symbol as it is drawn: b_Q, c₁. */
function symbol(name: string): string {
  const low = "₀₁₂₃₄₅₆₇₈₉";
  return name.replace(/^b([QKVOM])$/, "b_$1").replace(/^([bc])(\d+)$/, (_, letter: string, digits: string) =>
    letter + [...digits].map((digit) => low[Number(digit)]).join(""),
  );
}

/** Vectors below each other. If a part size is given, each part is underlined in the colour of its head. */
export function stripsPicture({ t, theme }: Context, id: string, list: [string, Float32Array, number?][]): Picture {
  const strips = list.map(([name, values, size]) => ({
    name: symbol(name),
    values,
    segments: size
      ? { size, colours: Array.from({ length: values.length / size }, (_, i) => headColour(theme, i)) }
      : undefined,
  }));
  const longest = Math.max(...list.map(([, values]) => values.length));
  return new Picture({
    id: `${id}-picture`,
    title: strips.map((strip) => strip.name).join(", "),
    label: t.vectorLabel(strips.map((strip) => strip.name).join(", "), longest),
    size: (available) => ({ width: available, height: stripsHeight(strips.length) }),
    draw: (pen, sight) => drawStrips(pen, strips, sight.width, theme),
    table: () => ({
      columns: [t.dimension, ...strips.map((strip) => strip.name)],
      rows: Array.from({ length: longest }, (_, d) => [d + 1, ...list.map(([, values]) => values[d] ?? "")]),
    }),
    summary: t.asTable,
  });
}

/** One bar per token. Weights have the colour of weights; scores have the colours of signed numbers. */
export function barsPicture(
  { t, theme }: Context,
  id: string,
  name: StepName,
  labels: Label[],
  values: Float32Array,
  key: string,
): Picture {
  const digits = key === "w" ? 3 : 2;
  const bars = { labels, values, format: (v: number) => v.toFixed(digits), signed: key !== "w" };
  return new Picture({
    id: `${id}-picture`,
    title: t.steps[name].title,
    label: t.barsLabel(labels.length),
    size: (available) => barsSize(labels, available),
    draw: (pen, sight) => drawBars(pen, bars, sight.width, [sight.left, sight.right], theme),
    table: () => ({
      columns: [t.key, t.steps[name].title],
      rows: labels.map((label, i) => [label.text, values[i]!]),
    }),
    summary: t.asTable,
  });
}

/** One bar per candidate token or label. */
export function outputPicture(
  { t, theme }: Context,
  name: "logits" | "probability" | "sigmoid",
  names: string[],
  values: Float32Array,
  shares: boolean,
): Picture {
  const labels = names.map((text, i): Label => ({ text, plain: text, kind: "text", space: false, tokens: [i] }));
  const bars = { labels, values, format: (v: number) => v.toFixed(shares ? 4 : 2), signed: !shares };
  return new Picture({
    id: `${name}-picture`,
    title: t.steps[name].title,
    label: t.barsLabel(labels.length),
    size: (available) => barsSize(labels, available),
    draw: (pen, sight) => drawBars(pen, bars, sight.width, [sight.left, sight.right], theme),
    table: () => ({ columns: [t.token, t.steps[name].title], rows: names.map((text, i) => [text, values[i]!]) }),
    summary: t.asTable,
  });
}

/** One row of cells per token. */
export function mapPicture({ t, theme }: Context, id: string, labels: Label[], grid: Grid): Picture {
  const row = labels.length > 24 ? 14 : 20;
  const most = largestMagnitude(grid.data);
  return new Picture({
    id: `${id}-picture`,
    title: t.steps[id as "keys"].title,
    label: t.vectorLabel(t.steps[id as "keys"].title, grid.columns),
    size: (available) => ({ width: available, height: labels.length * row + 38 }),
    tallest: 300,
    draw: (pen, sight) => {
      const left = Math.max(60, widest(labels, 30, sight.width * 0.28)) + 10;
      const width = Math.min(sight.width - left - 2, grid.columns * 44);
      const first = Math.max(0, Math.floor(sight.top / row));
      const last = Math.min(labels.length, Math.ceil(sight.bottom / row));
      pen.cells({ x: left, y: first * row, width, height: (last - first) * row }, last - first, grid.columns, (r, c) =>
        signedColour(theme, grid.at(first + r, c), most),
      );
      drawSignedLegend(pen, left, labels.length * row + 8, theme, most, Math.min(180, width));
      for (let r = first; r < last; ++r)
        drawLabel(
          pen,
          labels[r]!,
          { x: left - 8, y: r * row + row / 2 + 4.5, room: left - 10, align: "end" },
          theme,
          Math.min(13, row - 2),
        );
    },
    table: () => ({
      columns: [t.key, ...Array.from({ length: grid.columns }, (_, d) => String(d + 1))],
      rows: labels.map((label, r) => [label.text, ...grid.row(r)]),
    }),
    summary: t.asTable,
  });
}
