import { clamp, type Context } from "../context";
import type { Grid } from "../data/grid";
import { largestMagnitude } from "../data/grid";
import type { Attention } from "../data/types";
import type { Label } from "../data/words";
import { drawLabel } from "../draw/labels";
import { fitted } from "../draw/pen";
import { Picture } from "../draw/picture";
import { headColour, signedColour, weightColour } from "../draw/theme";

const kMostColumns = 128;

export interface VectorsOptions {
  id: string;
  values: Grid; // [tokens, dim]
  labels: Label[];
  selected: number;
  explain(text: string): void;
}

/** Vectors as rows of colours, one for each token. Wide vectors are averaged into as many cells as fit. */
export function vectorsPicture({ t, theme }: Context, { id, values, labels, selected, explain }: VectorsOptions): Picture {
  const cells = Math.min(kMostColumns, values.columns);
  const rows = labels;
  const pooled = rows.map((_, r) =>
    Float32Array.from({ length: cells }, (_, c) => {
      const [from, to] = [Math.floor((c * values.columns) / cells), Math.floor(((c + 1) * values.columns) / cells)];
      let sum = 0;
      for (let i = from; i < to; ++i) sum += values.at(r, i);
      return sum / Math.max(1, to - from);
    }),
  );
  const most = largestMagnitude(pooled.flatMap((row) => [...row])) || 1;
  const height = rows.length > 1 ? 16 : 22;
  const left = 108;
  return new Picture({
    id,
    title: t.flow.vectors.title,
    label: t.flow.vectorsLabel(values.rows, values.columns),
    size: (available) => ({ width: Math.min(available, left + cells * 8 + 4), height: rows.length * (height + 2) + 4 }),
    draw: (pen, sight) => {
      const cell = (sight.width - left - 4) / cells;
      rows.forEach((label, r) => {
        const y = 2 + r * (height + 2);
        drawLabel(pen, label, { x: left - 6, y: y + height / 2 + 4, room: left - 10, align: "end" }, theme, 12, r === selected);
        pen.cells({ x: left, y, width: cell * cells, height }, 1, cells, (_, c) => signedColour(theme, pooled[r]![c]!, most));
      });
    },
    hover: (_, y) => {
      const row = rows[Math.floor(y / (height + 2))];
      if (row) explain(t.flow.vectorOf(row.plain, values.columns));
    },
    table: () => ({
      columns: [t.tools.token, ...Array.from({ length: cells }, (_, c) => String(c))],
      rows: rows.map((label, r) => [label.text, ...pooled[r]!]),
    }),
    summary: t.asTable,
  });
}

export interface FlowHead {
  head: number;
  badges: string[];
}

export interface MapsOptions {
  id: string;
  attention: Attention;
  heads: FlowHead[];
  thumbnails: Grid; // [heads, rows, columns]
  open(head: number): void;
  explain(text: string): void;
}

/** The maps of all heads of a module side by side. A click opens a head. */
export function mapsPicture({ t, theme }: Context, { id, attention, heads, thumbnails, open, explain }: MapsOptions): Picture {
  const gap = 10;
  let focus = 0;
  let focused = false;
  const layout = (available: number) => {
    const perRow = Math.max(1, Math.min(heads.length, Math.floor(available / 74)));
    const side = Math.max(44, Math.min(96, Math.floor(available / perRow) - gap));
    const tall = Math.max(14, Math.min(side, (side * thumbnails.rows) / Math.max(1, thumbnails.columns)));
    return { perRow, side, tall, line: tall + 34 };
  };
  const corner = (at: ReturnType<typeof layout>, head: number): [number, number] => [
    (head % at.perRow) * (at.side + gap) + 1,
    Math.floor(head / at.perRow) * at.line + 2,
  ];
  const find = (x: number, y: number) => {
    const at = layout(picture.element.clientWidth);
    return heads.findIndex(({ head }) => {
      const [cx, cy] = corner(at, head);
      return x >= cx && x <= cx + at.side && y >= cy && y <= cy + at.line - 4;
    });
  };
  const say = (head: number) => explain(t.flow.headOf(t.attentionFull(attention), head, heads[head]!.badges));
  const picture: Picture = new Picture({
    id,
    title: t.attentionFull(attention),
    label: t.flow.mapsLabel(t.attentionFull(attention), heads.length),
    size: (available) => {
      const at = layout(available);
      return { width: Math.min(available, at.perRow * (at.side + gap)), height: Math.ceil(heads.length / at.perRow) * at.line + 2 };
    },
    draw: (pen) => {
      const at = layout(picture.element.clientWidth);
      for (const { head, badges } of heads) {
        const [x, y] = corner(at, head);
        const map = thumbnails.slice(head);
        pen.cells({ x, y, width: at.side, height: at.tall }, map.rows, map.columns, (r, c) => weightColour(theme, map.at(r, c)));
        const here = focused && head === focus;
        pen.rect({ x, y, width: at.side, height: at.tall }, { stroke: here ? theme.accent : theme.faint, width: here ? 3 : 1 });
        pen.circle(x + 4, y + at.tall + 11, 3.5, { fill: headColour(theme, head) });
        pen.text(fitted(badges[0] ?? String(head), at.side - 12, { size: 11 }), x + 11, y + at.tall + 15, {
          colour: badges.length ? theme.ink : theme.soft,
          size: 11,
        });
      }
    },
    hover: (x, y) => {
      const found = find(x, y);
      picture.canvas.style.cursor = found >= 0 ? "pointer" : "";
      focused = found >= 0;
      if (found >= 0 && found !== focus) focus = found;
      if (found >= 0) say(found);
      picture.redraw();
    },
    leave: () => {
      focused = false;
      picture.redraw();
    },
    press: (x, y) => {
      const found = find(x, y);
      if (found >= 0) open(found);
    },
    key: (event) => {
      if (event.key === "Enter") open(focus);
      else if (event.key === "ArrowRight" || event.key === "ArrowLeft")
        focus = clamp(focus + (event.key === "ArrowRight" ? 1 : -1), heads.length);
      else return false;
      focused = true;
      say(focus);
      picture.redraw();
      return true;
    },
    table: () => ({
      columns: [t.headLabel, t.peak, t.tools.kind],
      rows: heads.map(({ head, badges }) => {
        const map = thumbnails.slice(head);
        return [t.head(head), map.data.reduce((a, b) => Math.max(a, b), 0), badges.join(", ")];
      }),
    }),
    summary: t.asTable,
  });
  return picture;
}
