import type { Context } from "../context";
import { largestMagnitude, type Grid } from "../data/grid";
import type { Label } from "../data/words";
import { barsSize, drawBars } from "../draw/bars";
import { drawLabel, widest } from "../draw/labels";
import { Picture } from "../draw/picture";
import { drawStrips, stripsHeight } from "../draw/strips";
import { headColour, signedColour } from "../draw/theme";

/** Vectors below each other. If a part size is given, each part is underlined in the colour of its head. */
export function stripsPicture({ t, theme }: Context, id: string, list: [string, Float32Array, number?][]): Picture {
  const strips = list.map(([name, values, size]) => ({
    name,
    values,
    segments: size
      ? { size, colours: Array.from({ length: values.length / size }, (_, i) => headColour(theme, i)) }
      : undefined,
  }));
  return new Picture({
    id: `${id}-picture`,
    title: list.map(([name]) => name).join(", "),
    label: t.vectorLabel(list[0]![0], list[0]![1].length),
    size: (available) => ({ width: available, height: stripsHeight(strips.length) }),
    draw: (pen, sight) => drawStrips(pen, strips, sight.width, theme),
    table: () => ({
      columns: [t.dimension, ...list.map(([name]) => name)],
      rows: Array.from(list[0]![1], (_, d) => [d + 1, ...list.map(([, values]) => values[d]!)]),
    }),
    summary: t.asTable,
  });
}

/** One bar per token. */
export function barsPicture(
  { t, theme }: Context,
  id: string,
  labels: Label[],
  values: Float32Array,
  digits: number,
): Picture {
  return new Picture({
    id: `${id}-picture`,
    title: t.steps[id as "products"].title,
    label: t.barsLabel(labels.length),
    size: (available) => barsSize(labels, available),
    draw: (pen, sight) =>
      drawBars(
        pen,
        { labels, values, format: (v) => v.toFixed(digits) },
        sight.width,
        [sight.left, sight.right],
        theme,
      ),
    table: () => ({
      columns: [t.key, t.steps[id as "products"].title],
      rows: labels.map((label, i) => [label.text, values[i]!]),
    }),
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
    size: (available) => ({ width: available, height: labels.length * row + 4 }),
    tallest: 300,
    draw: (pen, sight) => {
      const left = Math.max(60, widest(labels, 30, sight.width * 0.28)) + 10;
      const width = Math.min(sight.width - left - 2, grid.columns * 44);
      const first = Math.max(0, Math.floor(sight.top / row));
      const last = Math.min(labels.length, Math.ceil(sight.bottom / row));
      pen.cells({ x: left, y: first * row, width, height: (last - first) * row }, last - first, grid.columns, (r, c) =>
        signedColour(theme, grid.at(first + r, c), most),
      );
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
