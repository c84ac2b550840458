import type { Grid } from "../data/grid";
import type { Label } from "../data/words";
import { drawLabel, widest } from "./labels";
import { textWidth, fitted, type Box, type Pen } from "./pen";
import { inkOn, signedColour, weightColour, type Theme } from "./theme";

export interface HeatmapOptions {
  theme: Theme;
  rows: Label[];
  columns: Label[];
  signed?: boolean; // values have both signs and are scaled by the largest magnitude
  most?: number;
  focus?: [number, number] | null; // outlined row and column
  marks?: [number, number][]; // framed cells: word alignments
  cell?: [number, number]; // smallest and largest size of a cell
}

export interface HeatmapLayout {
  left: number;
  top: number;
  cell: number;
  width: number;
  height: number;
}

/** The layout of a labelled heat map of a given width. */
export function heatmapLayout(width: number, { rows, columns, cell = [5, 30] }: HeatmapOptions): HeatmapLayout {
  const left = widest(rows, 24, Math.min(150, width * 0.3)) + 8;
  const size = Math.max(cell[0], Math.min(cell[1], Math.floor((width - left - 2) / Math.max(1, columns.length))));
  const top = size >= 11 ? widest(columns, 18, 110) + 8 : 8;
  return { left, top, cell: size, width: left + size * columns.length + 2, height: top + size * rows.length + 2 };
}

export function drawHeatmap(pen: Pen, at: HeatmapLayout, values: Grid, options: HeatmapOptions): void {
  const { theme, rows, columns } = options;
  const box: Box = { x: at.left, y: at.top, width: at.cell * columns.length, height: at.cell * rows.length };
  const most = options.most ?? 1;
  const colour = (r: number, c: number) =>
    options.signed ? signedColour(theme, values.at(r, c), most) : weightColour(theme, values.at(r, c));
  pen.cells(box, rows.length, columns.length, colour);
  pen.rect(box, { stroke: theme.faint });
  const size = Math.min(14, Math.max(9, at.cell - 3));
  const step = Math.max(1, Math.ceil(11 / at.cell));
  rows.forEach((label, r) => {
    if (r % step === 0)
      drawLabel(
        pen,
        label,
        { x: at.left - 6, y: at.top + r * at.cell + at.cell / 2 + size * 0.36, room: at.left - 8, align: "end" },
        theme,
        size,
        options.focus?.[0] === r,
      );
  });
  if (at.cell >= 11)
    columns.forEach((label, c) =>
      drawColumnLabel(pen, label, {
        x: at.left + (c + 0.5) * at.cell,
        bottom: at.top - 6,
        room: at.top - 8,
        across: at.cell,
        size,
        theme,
        strong: options.focus?.[1] === c,
      }),
    );
  if (at.cell >= 26) drawNumbers(pen, at, values, options, colour);
  for (const [r, c] of options.marks ?? []) frame(pen, at, r, c, theme.warm, 2);
  if (options.focus) frame(pen, at, options.focus[0], options.focus[1], theme.ink, 2);
}

export interface ColumnPlace {
  x: number;
  bottom: number;
  room: number; // for rotated text
  across: number; // for upright text
  size: number;
  theme: Theme;
  strong: boolean;
}

/** Draws short labels upright, as Han characters should be, and long ones rotated. */
export function drawColumnLabel(pen: Pen, label: Label, place: ColumnPlace): void {
  const { x, bottom, room, size, theme, strong } = place;
  const style = {
    colour: label.kind === "special" ? theme.soft : theme.ink,
    size,
    italic: label.kind === "special",
    weight: strong ? 600 : 400,
  };
  const text = (label.space ? "␣" : "") + label.text;
  if (textWidth(text, style) <= Math.max(size * 1.25, place.across - 6)) pen.text(text, x, bottom, { ...style, align: "middle" });
  else pen.text(fitted(text, room, style), x + size * 0.36, bottom, { ...style, turn: -90 });
}

function drawNumbers(
  pen: Pen,
  at: HeatmapLayout,
  values: Grid,
  options: HeatmapOptions,
  colour: (r: number, c: number) => number,
): void {
  for (let r = 0; r < values.rows; ++r)
    for (let c = 0; c < values.columns; ++c) {
      const value = values.at(r, c);
      if (!options.signed && value < 0.005) continue;
      const text = options.signed
        ? Math.abs(value) < 0.005
          ? ""
          : value.toFixed(2).replace("0.", ".")
        : String(Math.round(value * 100));
      pen.text(text, at.left + (c + 0.5) * at.cell, at.top + (r + 0.5) * at.cell + 4, {
        colour: inkOn(colour(r, c)),
        size: 10,
        align: "middle",
      });
    }
}

function frame(pen: Pen, at: HeatmapLayout, row: number, column: number, colour: string, width: number): void {
  pen.rect(
    { x: at.left + column * at.cell + 1, y: at.top + row * at.cell + 1, width: at.cell - 2, height: at.cell - 2 },
    { stroke: colour, width, radius: 2 },
  );
}

/** The cell at a position, if any. */
export function cellAt(
  at: HeatmapLayout,
  x: number,
  y: number,
  rows: number,
  columns: number,
): [number, number] | null {
  const [r, c] = [Math.floor((y - at.top) / at.cell), Math.floor((x - at.left) / at.cell)];
  return r >= 0 && c >= 0 && r < rows && c < columns ? [r, c] : null;
}

/** Draws the colour scale below a picture. */
export function drawLegend(pen: Pen, x: number, y: number, theme: Theme, signed?: { most: number }, most = 1): void {
  const steps = 64;
  pen.cells({ x, y, width: 160, height: 8 }, 1, steps, (_, c) =>
    signed ? signedColour(theme, (c / (steps - 1)) * 2 - 1, 1) : weightColour(theme, (c / (steps - 1)) ** 2),
  );
  const ticks: [number, string][] = signed
    ? [
        [0, (-signed.most).toFixed(2)],
        [0.5, "0"],
        [1, signed.most.toFixed(2)],
      ]
    : [
        [0, "0"],
        [0.5, short(most / 4)],
        [1, short(most)],
      ];
  for (const [part, text] of ticks)
    pen.text(text, x + part * 160, y + 20, {
      colour: theme.soft,
      size: 10,
      align: part === 0 ? "start" : part === 1 ? "end" : "middle",
    });
}

function short(value: number): string {
  return value >= 0.995 ? value.toFixed(0) : value >= 0.0095 ? value.toFixed(2) : value.toPrecision(1);
}
