import type { Patches } from "../data/types";
import { fitted, textWidth, type Box, type Pen } from "./pen";
import type { Theme } from "./theme";

const kCaption = 20;
const kGap = 14;

/** One copy of the image: the first unchanged, the others shaded by attention weights. */
export interface Tile {
  caption: string;
  weights: ArrayLike<number> | null; // one per token; token 0 is not a patch
  colour?: string; // of the caption's mark
}

export interface TileBox extends Box {
  tile: number;
}

/** Lays out the first tile large and the others in rows beside it, or below it if there is no room. */
export function tileLayout(available: number, count: number): { boxes: TileBox[]; width: number; height: number } {
  const large = Math.min(260, available);
  const room = available - large - kGap;
  const beside = room >= 120;
  const width = beside ? room : available;
  const rest = count - 1;
  const size = smallSize(width, rest, beside ? large : Infinity);
  const most = Math.max(1, Math.floor((width + kGap) / (size + kGap)));
  const columns = Math.ceil(rest / Math.max(1, Math.ceil(rest / most))); // rows of equal length
  const boxes: TileBox[] = [{ tile: 0, x: 0, y: 0, width: large, height: large }];
  for (let i = 0; i < rest; ++i) {
    const [x, y] = [(i % columns) * (size + kGap), Math.floor(i / columns) * (size + kCaption + kGap / 2)];
    boxes.push({
      tile: i + 1,
      x: beside ? large + kGap + x : x,
      y: beside ? y : large + kCaption + kGap / 2 + y,
      width: size,
      height: size,
    });
  }
  const right = Math.max(...boxes.map((box) => box.x + box.width));
  return { boxes, width: right, height: Math.max(...boxes.map((box) => box.y + box.height)) + kCaption };
}

/** The largest size at which all tiles fit beside the first, or two in a row below it; at least 72 pixels. */
function smallSize(width: number, count: number, height: number): number {
  if (!Number.isFinite(height)) return Math.min(150, (width - kGap) / 2);
  for (let size = Math.min(260, width); size > 72; size -= 2) {
    const columns = Math.floor((width + kGap) / (size + kGap));
    if (Math.ceil(count / columns) * (size + kCaption + kGap / 2) <= height + kCaption + kGap / 2) return size;
  }
  return 72;
}

/** The token at a position in a tile. */
export function patchAt(box: Box, { rows, columns }: Patches, x: number, y: number): number | null {
  const column = Math.floor(((x - box.x) / box.width) * columns);
  const row = Math.floor(((y - box.y) / box.height) * rows);
  return row < 0 || column < 0 || row >= rows || column >= columns ? null : 1 + row * columns + column;
}

export function boxOf(box: Box, { rows, columns }: Patches, token: number): Box {
  const [width, height] = [box.width / columns, box.height / rows];
  const at = token - 1;
  return { x: box.x + (at % columns) * width, y: box.y + Math.floor(at / columns) * height, width, height };
}

export interface TileScene {
  image: HTMLCanvasElement;
  patches: Patches;
  query: number | null; // framed; 0 frames the whole image
  key: number; // framed in another colour; 0: none
  held: Set<number>; // crossed out
  theme: Theme;
  most: string; // stands before the largest weight in a tile
}

export function drawTile(pen: Pen, box: Box, tile: Tile, scene: TileScene): void {
  const { patches, theme } = scene;
  pen.photograph(scene.image, box);
  if (tile.weights) drawLight(pen, box, patches, tile.weights, scene.most);
  else drawGrid(pen, box, patches);
  for (const token of scene.held) crossOut(pen, token === 0 ? box : boxOf(box, patches, token));
  const frame = (token: number, colour: string) =>
    pen.rect(token === 0 ? box : boxOf(box, patches, token), { stroke: colour, width: 2.5 });
  if (scene.key > 0) frame(scene.key, "#ffffff");
  if (scene.query !== null) frame(scene.query, theme.warm);
  const style = { colour: theme.soft, size: 12 };
  const mark = tile.colour ? 12 : 0;
  if (tile.colour)
    pen.rect({ x: box.x, y: box.y + box.height + 6, width: 8, height: 8 }, { fill: tile.colour, radius: 2 });
  pen.text(fitted(tile.caption, box.width - mark, style), box.x + mark, box.y + box.height + 14, style);
}

/** Shades the image from a dark veil to a light tint, so that high weights stand out on black images and on white ones.
 * The lightest tint is the largest weight, which a corner names. */
function drawLight(pen: Pen, box: Box, patches: Patches, weights: ArrayLike<number>, name: string): void {
  const most = largestOf(weights);
  for (let i = 1; i < weights.length; ++i) {
    const share = most > 0 ? weights[i]! / most : 0;
    const colour = [255, 158, 44].map((c) => Math.round(c * share)).join(",");
    pen.rect(boxOf(box, patches, i), { fill: `rgb(${colour})`, alpha: 0.8 - 0.6 * share });
  }
  const text = `${name} ${most.toPrecision(2)}`;
  const [right, bottom] = [box.x + box.width - 4, box.y + box.height - 4];
  const width = textWidth(text, { size: 11 }) + 8;
  pen.rect({ x: right - width, y: bottom - 16, width, height: 16 }, { fill: "#000000", alpha: 0.65, radius: 4 });
  pen.text(text, right - 4, bottom - 4, { colour: "#ffffff", size: 11, align: "end" });
}

function largestOf(weights: ArrayLike<number>): number {
  let most = 0;
  for (let i = 1; i < weights.length; ++i) most = Math.max(most, weights[i]!);
  return most;
}

function drawGrid(pen: Pen, box: Box, { rows, columns }: Patches): void {
  const style = { colour: "#ffffff", alpha: 0.35, width: 1 };
  for (let r = 1; r < rows; ++r) {
    const y = box.y + (r / rows) * box.height;
    pen.line([box.x, y, box.x + box.width, y], style);
  }
  for (let c = 1; c < columns; ++c) {
    const x = box.x + (c / columns) * box.width;
    pen.line([x, box.y, x, box.y + box.height], style);
  }
}

function crossOut(pen: Pen, { x, y, width, height }: Box): void {
  pen.rect({ x, y, width, height }, { fill: "#000000", alpha: 0.6 });
  for (const ends of [
    [x, y, x + width, y + height],
    [x, y + height, x + width, y],
  ])
    pen.line(ends, { colour: "#ff9e2c", width: 1.5 });
}
