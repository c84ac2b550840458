import type { ZoomTransform } from "d3-zoom";
import type { HeadStats } from "../data/types";
import { drawColumnLabel, drawLegend } from "../draw/heatmap";
import { drawLabel, widest } from "../draw/labels";
import { type Box, type Pen } from "../draw/pen";
import type { Theme, WeightScale } from "../draw/theme";
import type { Tiles } from "../draw/tiles";
import type { Messages } from "../i18n";
import type { Axes } from "./common";

const kStrip = 46; // pixels for the bars of entropy and column totals
const kTallest = 620;

/** The layout of the picture. */
export interface Frame {
  plot: Box;
  base: number; // pixels per weight without zoom
  width: number;
  height: number;
}

export function matrixFrame(available: number, all: Axes): Frame {
  const left = widest(all.rows, 24, Math.min(120, available * 0.22)) + 8;
  const top = widest(all.columns, 20, 90) + 10;
  const room = available - left - kStrip - 14;
  const base = Math.min(40, room / all.columns.length, kTallest / all.rows.length);
  const plot = { x: left, y: top, width: base * all.columns.length, height: base * all.rows.length };
  return {
    plot,
    base,
    width: Math.min(available, left + Math.max(plot.width, 190) + kStrip + 14),
    height: top + plot.height + kStrip + 52,
  };
}

/** The row and column at a position. */
export function placeIn(
  frame: Frame,
  transform: ZoomTransform,
  x: number,
  y: number,
  all: Axes,
): [number, number] | null {
  const { plot, base } = frame;
  if (x < plot.x || y < plot.y || x >= plot.x + plot.width || y >= plot.y + plot.height) return null;
  const row = Math.floor((transform.invertY(y) - plot.y) / base);
  const column = Math.floor((transform.invertX(x) - plot.x) / base);
  return row >= 0 && column >= 0 && row < all.rows.length && column < all.columns.length ? [row, column] : null;
}

interface Scene {
  frame: Frame;
  transform: ZoomTransform;
  tiles: Tiles;
  all: Axes;
  stats: HeadStats;
  focus: [number, number];
  scale: WeightScale;
  theme: Theme;
  t: Messages;
}

export function drawMatrix(pen: Pen, scene: Scene): void {
  const { frame, transform, tiles, theme, focus } = scene;
  const { plot, base } = frame;
  const scale = base * transform.k;
  const x = (column: number) => transform.applyX(plot.x + column * base);
  const y = (row: number) => transform.applyY(plot.y + row * base);
  pen.clip(plot, () => {
    tiles.draw(pen, plot, { x, y, scale });
    if (scale >= 3)
      pen.rect({ x: x(focus[1]), y: y(focus[0]), width: scale, height: scale }, { stroke: theme.warm, width: 2 });
    else crosshair(pen, plot, x(focus[1]), y(focus[0]), theme);
  });
  pen.rect(plot, { stroke: theme.faint });
  const rows = inSight(scene.all.rows.length, y, scale, plot.y, plot.y + plot.height);
  const columns = inSight(scene.all.columns.length, x, scale, plot.x, plot.x + plot.width);
  drawRowLabels(pen, scene, rows, y, scale);
  drawColumnLabels(pen, scene, columns, x, scale);
  drawEntropy(pen, scene, rows, y, scale);
  drawTotals(pen, scene, columns, x, scale);
  drawLegendOf(pen, scene);
}

function crosshair(pen: Pen, plot: Box, x: number, y: number, theme: Theme): void {
  pen.line([x, plot.y, x, plot.y + plot.height], { colour: theme.warm, alpha: 0.6 });
  pen.line([plot.x, y, plot.x + plot.width, y], { colour: theme.warm, alpha: 0.6 });
}

type Range = [number, number];

function inSight(count: number, place: (index: number) => number, scale: number, from: number, to: number): Range {
  return [Math.max(0, Math.floor((from - place(0)) / scale)), Math.min(count, Math.ceil((to - place(0)) / scale))];
}

/** Draws every label if the cells are large enough; otherwise every n-th. */
function drawRowLabels(
  pen: Pen,
  { frame, all, theme, focus }: Scene,
  [first, last]: Range,
  y: (row: number) => number,
  scale: number,
): void {
  const { plot } = frame;
  const step = Math.max(1, Math.ceil(13 / scale));
  const size = Math.min(13, Math.max(10, scale - 2));
  for (let r = Math.ceil(first / step) * step; r < last; r += step) {
    const at = y(r) + scale / 2;
    if (at < plot.y || at > plot.y + plot.height) continue;
    if (step <= 2)
      drawLabel(
        pen,
        all.rows[r]!,
        { x: plot.x - 6, y: at + 4, room: plot.x - 8, align: "end" },
        theme,
        size,
        r === focus[0],
      );
    else pen.text(String(r), plot.x - 6, at + 4, { colour: theme.soft, size: 10, align: "end" });
  }
}

function drawColumnLabels(
  pen: Pen,
  { frame, all, theme, focus }: Scene,
  [first, last]: Range,
  x: (column: number) => number,
  scale: number,
): void {
  const { plot } = frame;
  const named = scale >= 11;
  const step = named ? 1 : Math.max(1, Math.ceil(34 / scale));
  for (let c = Math.ceil(first / step) * step; c < last; c += step) {
    const at = x(c) + scale / 2;
    if (at < plot.x || at > plot.x + plot.width) continue;
    if (named)
      drawColumnLabel(pen, all.columns[c]!, {
        x: at,
        bottom: plot.y - 6,
        room: plot.y - 10,
        across: scale,
        size: Math.min(13, Math.max(10, scale - 2)),
        theme,
        strong: c === focus[1],
      });
    else pen.text(String(c), at, plot.y - 6, { colour: theme.soft, size: 10, align: "middle" });
  }
}

/** Draws bars beside the rows: the entropy of each row's weights. */
function drawEntropy(
  pen: Pen,
  { frame, stats, theme, t }: Scene,
  [first, last]: Range,
  y: (row: number) => number,
  scale: number,
): void {
  const { plot } = frame;
  const left = plot.x + plot.width + 8;
  const most = stats.entropy.reduce((a, b) => Math.max(a, b), 0.01);
  const step = Math.max(1, Math.floor(1 / scale));
  pen.clip({ x: left, y: plot.y, width: kStrip, height: plot.height }, () => {
    for (let r = first; r < last; r += step) {
      let value = 0;
      for (let i = r; i < Math.min(last, r + step); ++i) value = Math.max(value, stats.entropy[i]!);
      pen.rect(
        {
          x: left,
          y: y(r) + (scale > 4 ? 1 : 0),
          width: (kStrip - 6) * (value / most),
          height: Math.max(1, scale * step - (scale > 4 ? 2 : 0)),
        },
        { fill: theme.accent, alpha: 0.55 },
      );
    }
  });
  pen.text(t.entropy, left, plot.y - 8, { colour: theme.soft, size: 11 });
}

/** Draws bars below the columns: the total weight that each token receives. */
function drawTotals(
  pen: Pen,
  { frame, stats, theme, t }: Scene,
  [first, last]: Range,
  x: (column: number) => number,
  scale: number,
): void {
  const { plot } = frame;
  const top = plot.y + plot.height + 8;
  const most = stats.columnTotals.reduce((a, b) => Math.max(a, b), 0.01);
  const step = Math.max(1, Math.floor(1 / scale));
  pen.clip({ x: plot.x, y: top, width: plot.width, height: kStrip }, () => {
    for (let c = first; c < last; c += step) {
      let value = 0;
      for (let i = c; i < Math.min(last, c + step); ++i) value = Math.max(value, stats.columnTotals[i]!);
      pen.rect(
        {
          x: x(c) + (scale > 4 ? 1 : 0),
          y: top,
          width: Math.max(1, scale * step - (scale > 4 ? 2 : 0)),
          height: (kStrip - 10) * (value / most),
        },
        { fill: theme.good, alpha: 0.6 },
      );
    }
  });
  pen.text(t.received, plot.x + plot.width + 8, top + 12, { colour: theme.soft, size: 11 });
}

function drawLegendOf(pen: Pen, { frame, theme, scale }: Scene): void {
  drawLegend(pen, frame.plot.x, frame.height - 28, theme, scale);
}
