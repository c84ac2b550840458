import { announce } from "../a11y/announce";
import type { Table } from "../a11y/table";
import { clamp } from "../context";
import type { Label } from "../data/words";
import { drawColumnLabel, drawLegend, drawSignedLegend } from "../draw/heatmap";
import { fitted, textWidth, type Pen } from "../draw/pen";
import { Picture, type Sight } from "../draw/picture";
import { inkOn, type Theme } from "../draw/theme";

/** A labelled matrix whose cells may hold words, and can be selected with the mouse or the keyboard. */
export interface CellMap {
  id: string;
  title: string;
  label: string;
  theme: Theme;
  rows: string[];
  columns: Label[];
  colour(row: number, column: number): number;
  text?(row: number, column: number): string;
  width: number; // of a cell
  height?: number;
  heading?: string; // drawn above the map
  selected?: [number, number] | null;
  /** Drawn below the map: the scale of signed values, or of 0 … 1. */
  signedScale?: number;
  select?(row: number, column: number): void;
  speak?(row: number, column: number): string;
  table(): Table;
  summary: string;
}

export function cellMap(map: CellMap): Picture {
  const height = map.height ?? 26;
  let focus = map.selected ?? null;
  const left = Math.min(
    170,
    Math.max(40, ...map.rows.map((row) => textWidth(row, { size: 12 }))) + 14,
  );
  const across = map.columns.map((label) => textWidth(label.text, { size: 12 }));
  const turned = across.some((width) => width > Math.max(15, map.width - 6));
  const top = (map.heading ? 24 : 4) + (turned ? Math.min(110, Math.max(...across, 10)) + 10 : 22);
  const size = {
    width: left + map.columns.length * map.width + 4,
    height: top + map.rows.length * height + 36,
  };
  let shift = 0; // how far the picture is scrolled: the names of the rows stay in sight
  const cellAt = (x: number, y: number): [number, number] | null => {
    if (x < shift + left) return null;
    const [r, c] = [Math.floor((y - top) / height), Math.floor((x - left) / map.width)];
    return r >= 0 && c >= 0 && r < map.rows.length && c < map.columns.length ? [r, c] : null;
  };
  const choose = (cell: [number, number]) => {
    focus = cell;
    picture.redraw();
    map.select?.(...cell);
  };
  const draw = (pen: Pen, sight: Sight) => {
    const { theme } = map;
    const box = { x: left, y: top, width: map.columns.length * map.width, height: map.rows.length * height };
    pen.cells(box, map.rows.length, map.columns.length, (r, c) => map.colour(r, c));
    pen.rect(box, { stroke: theme.faint });
    map.columns.forEach((label, c) => {
      const x = left + (c + 0.5) * map.width;
      if (x < sight.left - 60 || x > sight.right + 60) return;
      drawColumnLabel(pen, label, {
        x,
        bottom: top - 6,
        room: 108,
        across: map.width,
        size: 12,
        theme,
        strong: focus?.[1] === c,
      });
    });
    if (map.text) drawTexts(pen, sight);
    drawFocus(pen);
    drawRows(pen, sight);
    const below = top + map.rows.length * height + 8;
    if (map.signedScale === undefined) drawLegend(pen, shift + left, below, theme);
    else drawSignedLegend(pen, shift + left, below, theme, map.signedScale);
  };
  const drawFocus = (pen: Pen) => {
    if (!focus) return;
    const [r, c] = focus;
    pen.rect(
      { x: left + c * map.width + 1, y: top + r * height + 1, width: map.width - 2, height: height - 2 },
      { stroke: map.theme.ink, width: 2, radius: 2 },
    );
  };
  const drawRows = (pen: Pen, sight: Sight) => {
    const { theme } = map;
    shift = sight.left;
    if (shift > 0) pen.rect({ x: shift, y: 0, width: left, height: size.height }, { fill: theme.paper });
    if (map.heading) pen.text(map.heading, shift, 14, { colour: theme.ink, size: 13, weight: 600 });
    map.rows.forEach((row, r) =>
      pen.text(fitted(row, left - 10, { size: 12 }), shift + left - 6, top + r * height + height / 2 + 4, {
        colour: focus?.[0] === r ? theme.ink : theme.soft,
        size: 12,
        align: "end",
      }),
    );
  };
  const drawTexts = (pen: Pen, sight: Sight) => {
    for (let r = 0; r < map.rows.length; ++r)
      for (let c = 0; c < map.columns.length; ++c) {
        const x = left + (c + 0.5) * map.width;
        if (x < sight.left - map.width || x > sight.right + map.width) continue;
        pen.text(fitted(map.text!(r, c), map.width - 6, { size: 12 }), x, top + r * height + height / 2 + 4, {
          colour: inkOn(map.colour(r, c)),
          size: 12,
          align: "middle",
        });
      }
  };
  const picture: Picture = new Picture({
    id: map.id,
    title: map.title,
    label: map.label,
    size: () => size,
    draw,
    ...(map.select
      ? {
          hover: (x: number, y: number) => {
            picture.canvas.style.cursor = cellAt(x, y) ? "pointer" : "";
          },
          press: (x: number, y: number) => {
            const cell = cellAt(x, y);
            if (cell) choose(cell);
          },
          key: (event: KeyboardEvent) => {
            const moves: Record<string, [number, number]> = {
              ArrowRight: [0, 1],
              ArrowLeft: [0, -1],
              ArrowDown: [1, 0],
              ArrowUp: [-1, 0],
            };
            const move = moves[event.key];
            if (!move) return false;
            const [r, c] = focus ?? [0, 0];
            const cell: [number, number] = [clamp(r + move[0], map.rows.length), clamp(c + move[1], map.columns.length)];
            choose(cell);
            reveal();
            if (map.speak) announce(map.speak(...cell));
            return true;
          },
        }
      : {}),
    table: map.table,
    summary: map.summary,
  });
  const reveal = () => focus && picture.revealAcross(left + focus[1] * map.width, map.width);
  requestAnimationFrame(() => requestAnimationFrame(reveal)); // once the picture has its size
  return picture;
}
