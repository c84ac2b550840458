import { announce } from "../a11y/announce";
import type { Context } from "../context";
import { largest } from "../data/grid";
import type { Patches, Side } from "../data/types";
import { el } from "../dom";
import { drawTile, patchAt, tileLayout, type Tile, type TileBox } from "../draw/patches";
import { Picture } from "../draw/picture";
import { percent } from "./common";

export interface PatchesOptions {
  id: string;
  /** The current contents of each copy of the image after the first. */
  tiles(): Tile[];
  query?(): number; // the query token
  key?(): number; // another framed patch
  held?(): Set<number>; // ablated patches, crossed out
  over?(token: number | null): void; // the pointer moved over a patch of the first copy
  press?(token: number): void; // a patch was clicked
  move?(token: number): void; // a patch was chosen with the keyboard
}

const kImages = new WeakMap<Patches, Promise<HTMLCanvasElement>>();

/** The side with the image, if the model reads images. */
export function pictureSide(context: Context): (Side & { picture: Patches }) | null {
  const side = context.run.sides[0]!;
  return side.picture ? (side as Side & { picture: Patches }) : null;
}

/** The image with its patches, and copies shaded by attention; null for a model that reads text. */
export async function patchesPicture(context: Context, options: PatchesOptions): Promise<Picture | null> {
  const side = pictureSide(context);
  if (!side) return null;
  const { t, theme } = context;
  const image = await imageOf(side.picture);
  const name = (token: number) => side.tokens[token]!.text;
  const query = () => options.query?.() ?? null;
  const caption = () => (query() === null || options.tiles().length === 0 ? side.text : t.patchesCaption(name(query()!)));
  const all = (): Tile[] => [{ caption: caption(), weights: null }, ...options.tiles()];
  let boxes: TileBox[] = [];
  const under = (x: number, y: number) => boxes.find((box) => patchAt(box, side.picture, x, y) !== null);
  const table = () => ({
    columns: [t.patch, ...options.tiles().map((tile) => tile.caption)],
    rows: side.tokens.map((token, i) => [token.text, ...options.tiles().map((tile) => tile.weights?.[i] ?? 0)]),
  });
  const picture: Picture = new Picture({
    id: options.id,
    title: t.side("image"),
    label: t.patchesLabel(side.picture.rows, side.picture.columns),
    size: (available) => {
      const layout = tileLayout(available, all().length);
      boxes = layout.boxes;
      return { width: layout.width, height: layout.height };
    },
    draw: (pen) => {
      const tiles = all();
      const scene = {
        ...{ image, patches: side.picture, query: query(), key: options.key?.() ?? 0, theme, most: t.mostWeight },
        held: options.held?.() ?? new Set<number>(),
      };
      boxes.forEach((box) => drawTile(pen, box, tiles[box.tile]!, scene));
    },
    hover: (x, y) => {
      const box = under(x, y);
      const token = box ? patchAt(box, side.picture, x, y) : null;
      if (box?.tile === 0 && token !== null) options.over?.(token);
      picture.canvas.title = box && token !== null ? told(all()[box.tile]!, token) : "";
    },
    leave: () => options.over?.(null),
    press: (x, y) => {
      picture.canvas.focus({ preventScroll: true });
      const box = under(x, y);
      if (box?.tile === 0) options.press?.(patchAt(box, side.picture, x, y)!);
    },
    ...(options.move ? { key: (event: KeyboardEvent) => walk(event.key) } : {}),
    ...(options.query ? { table, summary: t.asTable } : {}),
  });
  const walk = (key: string): boolean => {
    const next = moved(key, query() ?? 0, side.picture);
    if (next === null) return false;
    options.move!(next);
    announce(spoken(next));
    return true;
  };
  const told = (tile: Tile, token: number) =>
    tile.weights ? t.readout(name(query() ?? 0), name(token), tile.weights[token]!) : name(token);
  const spoken = (token: number) => {
    const weights = options.tiles()[0]?.weights;
    const best = weights ? largest(weights, 3).map(([i, weight]) => `${name(i)} ${percent(weight)}`) : [];
    return weights ? t.spokenToken(name(token), true, best.join(", ")) : name(token);
  };
  picture.element.classList.add("patches");
  return picture;
}

/** The patch that a key moves to: arrows by one patch, Home to token 0, which stands for the whole image. */
function moved(key: string, from: number, { rows, columns }: Patches): number | null {
  if (key === "Home") return 0;
  if (key === "End") return rows * columns;
  const steps: Record<string, [number, number]> = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
  };
  const step = steps[key];
  if (!step) return null;
  if (from === 0) return 1;
  const row = Math.floor((from - 1) / columns) + step[0];
  const column = ((from - 1) % columns) + step[1];
  return row < 0 || column < 0 || row >= rows || column >= columns ? from : 1 + row * columns + column;
}

function imageOf(patches: Patches): Promise<HTMLCanvasElement> {
  let found = kImages.get(patches);
  if (!found) kImages.set(patches, (found = decoded(patches.data)));
  return found;
}

async function decoded(address: string): Promise<HTMLCanvasElement> {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = el("canvas", { attributes: { width: image.naturalWidth, height: image.naturalHeight } });
  canvas.getContext("2d")!.drawImage(image, 0, 0);
  return canvas;
}
