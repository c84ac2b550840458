import type { Context } from "../context";
import { Grid } from "../data/grid";
import type { Attention } from "../data/types";
import type { Tile } from "../draw/patches";
import type { Picture } from "../draw/picture";
import { headColour } from "../draw/theme";
import type { Isolated } from "./heads_drawing";
import { patchesPicture, pictureSide } from "./patches";

const kMostRolledOut = 1024; // tokens: all pairs are fetched

export interface HeadsOnPicture {
  attention: Attention;
  on: number[]; // heads shown
  weights: Grid[]; // of each head; empty if the image has too many patches
  isolated(): Isolated | null;
  isolate(side: 0 | 1, index: number): void;
  release(): void;
}

/** Heads of an image model: the attention of the selected token by head, on average, and rolled out over all layers. */
export async function headsOnPicture(context: Context, heads: HeadsOnPicture): Promise<Picture | null> {
  const side = pictureSide(context);
  if (!side) return null;
  const { source, run, t, theme } = context;
  const { attention, on, weights } = heads;
  let chosen = context.selection.query;
  const query = () => {
    const seen = heads.isolated();
    return seen?.side === 0 ? seen.index : chosen;
  };
  const rollout =
    attention.queries <= kMostRolledOut ? await source.array(run.id, `rollout/${attention.stack}`) : null;
  const rows = (): Float32Array[] => {
    const seen = heads.isolated();
    return weights.length ? weights.map((grid) => grid.row(query())) : seen?.side === 0 ? seen.values : [];
  };
  const tiles = (): Tile[] => {
    const shown = rows();
    const mean = side.tokens.map((_, i) => shown.reduce((sum, row) => sum + row[i]!, 0) / Math.max(1, shown.length));
    return [
      ...(on.length > 1 ? [{ caption: t.meanOfHeads, weights: mean }] : []),
      ...on.map((head, n) => ({ caption: t.head(head), weights: shown[n] ?? null, colour: headColour(theme, head) })),
      ...(rollout ? [{ caption: t.rollout, weights: rollout.row(query()) }] : []),
    ];
  };
  const choose = (token: number) => {
    chosen = token;
    context.note({ query: token });
    heads.isolate(0, token);
  };
  return patchesPicture(context, {
    ...{ id: "patches-picture", tiles, query },
    over: (token) => (token === null ? heads.release() : heads.isolate(0, token)),
    press: choose,
    move: choose,
  });
}
