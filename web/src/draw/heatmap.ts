import type { Grid } from "../data/grid";
import type { Label } from "../data/words";
import { drawLabel, widest } from "./labels";
import { textWidth, fitted, type Box, type Pen } from "./pen";
import { inkOn, onScale, signedColour, weightColour, type Theme, type WeightScale } from "./theme";

export interface HeatmapOptions {
  theme: Theme;
  rows: Label[];
  columns: Label[];
  signed?: boolean; // values have both signs and are scaled by the largest magnitude
  most?: number;
  focus?: [number, number] | null; // outlined row and column
  scale?: WeightScale;
  marks?: [number, number][]; // framed cells: word alignments
  cell?: number; // largest size of a cell
  tallest?: number; // of all cells; default: the height of the window
}

const kScale = 180; // width of a colour scale
const kNamed = 11; // pixels of a cell whose row and column have names; smaller ones have numbers

export interface HeatmapLayout {
  left: number;
  top: number;
  cell: number;
  width: number;
  height: number;
}

/** The layout of a labelled heat map that fits the width and the window's height. Cells may be smaller than a pixel. */
export function heatmapLayout(width: number, { rows, columns, cell = 30, tallest }: HeatmapOptions): HeatmapLayout {
  const left = widest(rows, 24, Math.min(150, width * 0.3)) + 8;
  const room = (width - left - 2) / Math.max(1, columns.length);
  const down = (tallest ?? Math.max(360, window.innerHeight - 180)) / Math.max(1, rows.length);
  const fitting = Math.min(cell, room, Math.max(down, 1.5)); // 400 rows fit a window
  const size = fitting >= 4 ? Math.floor(fitting) : fitting;
  const top = size >= kNamed ? widest(columns, 18, 110) + 8 : 18;
  const box = { width: left + size * columns.length + 2, height: top + size * rows.length + 2 };
  return { left, top, cell: size, width: Math.max(box.width, Math.min(width, left + 200)), height: box.height };
}

export function drawHeatmap(pen: Pen, at: HeatmapLayout, values: Grid, options: HeatmapOptions): void {
  const { theme, rows, columns } = options;
  const box: Box = { x: at.left, y: at.top, width: at.cell * columns.length, height: at.cell * rows.length };
  const most = options.most ?? 1;
  const colour = (r: number, c: number) =>
    options.signed ? signedColour(theme, values.at(r, c), most) : weightColour(theme, values.at(r, c), options.scale);
  pen.cells(box, rows.length, columns.length, colour);
  pen.rect(box, { stroke: theme.faint });
  const size = Math.min(14, Math.max(9, at.cell - 3));
  const step = Math.max(1, Math.ceil(11 / at.cell));
  rows.forEach((label, r) => {
    if (r % step !== 0) return;
    if (step > 2)
      pen.text(String(r), at.left - 6, at.top + (r + 0.5) * at.cell + 4, { colour: theme.soft, size: 10, align: "end" });
    else
      drawLabel(
        pen,
        label,
        { x: at.left - 6, y: at.top + r * at.cell + at.cell / 2 + size * 0.36, room: at.left - 8, align: "end" },
        theme,
        size,
        options.focus?.[0] === r,
      );
  });
  if (at.cell < kNamed) {
    const apart = Math.max(1, Math.ceil(34 / at.cell));
    for (let c = 0; c < columns.length; c += apart)
      pen.text(String(c), at.left + (c + 0.5) * at.cell, at.top - 6, { colour: theme.soft, size: 10, align: "middle" });
  } else
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
          : value.toFixed(2).replace("0.", ".").replace("-", "−")
        : String(Math.round(value * 100));
      pen.text(text, at.left + (c + 0.5) * at.cell, at.top + (r + 0.5) * at.cell + 4, {
        colour: inkOn(colour(r, c)),
        size: 10,
        align: "middle",
      });
    }
}

function frame(pen: Pen, at: HeatmapLayout, row: number, column: number, colour: string, width: number): void {
  const size = Math.max(at.cell - 2, 3);
  const place = (index: number) => (index + 0.5) * at.cell - size / 2;
  pen.rect({ x: at.left + place(column), y: at.top + place(row), width: size, height: size }, { stroke: colour, width: Math.min(width, size / 2), radius: 2 });
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

/** Draws the colour scale of signed numbers below a picture. */
export function drawSignedLegend(
  pen: Pen,
  x: number,
  y: number,
  theme: Theme,
  most: number,
  width = kScale,
): void {
  const ticks: [number, string][] = [
    [0, short(-most)],
    [0.5, "0"],
    [1, short(most)],
  ];
  drawScale(pen, { x, y, width }, theme, ticks, (part) => signedColour(theme, part * 2 - 1, 1));
}

/** Draws the colour scale of weights below a picture. */
export function drawLegend(pen: Pen, x: number, y: number, theme: Theme, scale: WeightScale = "root"): void {
  const marks = scale === "root" ? [0, 0.05, 0.25, 0.5, 1] : [0.0001, 0.001, 0.01, 0.1, 1];
  const weight = (part: number) => (scale === "root" ? part ** 2 : 10 ** (4 * (part - 1)));
  const ticks = marks.map((mark): [number, string] => [onScale(mark, scale), short(mark)]);
  drawScale(pen, { x, y, width: kScale }, theme, ticks, (part) => weightColour(theme, weight(part), scale));
}

function drawScale(
  pen: Pen,
  { x, y, width }: { x: number; y: number; width: number },
  theme: Theme,
  ticks: [number, string][],
  colour: (part: number) => number,
): void {
  const steps = 64;
  pen.cells({ x, y, width, height: 8 }, 1, steps, (_, c) => colour(c / (steps - 1)));
  for (const [part, text] of ticks)
    pen.text(text, x + part * width, y + 20, {
      colour: theme.soft,
      size: 10,
      align: part === 0 ? "start" : part === 1 ? "end" : "middle",
    });
}

function short(value: number): string {
  const size = Math.abs(value);
  return (size === 0 || size >= 0.995 ? value.toFixed(0) : String(+value.toPrecision(2))).replace("-", "−");
}
