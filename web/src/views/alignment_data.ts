import { clamp, type Context } from "../context";
import { Grid, largest } from "../data/grid";
import type { Alignment, Attention } from "../data/types";

/** The alignment by words, as the library computes it; or by tokens if there are too few words (a date is one word). */
export async function loadAlignment(context: Context): Promise<{ found: Alignment; byWord: boolean }> {
  const { run, state, source } = context;
  const [layer = "all", head = "all"] = source.kind === "file" ? [] : alignOf(context).split(".");
  const words = await source.alignment(run.id, layer, head);
  const few = Math.min(words.source.length, words.target.length) < 3;
  const byWord = state.unit === "words" || (state.unit === "" && !few);
  return byWord ? { found: words, byWord } : { found: await byToken(context, layer, head), byWord };
}

/** The layer and head of the alignment: chosen in this view, or the page's selection if that is a cross-attention. */
export function alignOf({ run, state, selection }: Context): string {
  const [layer, head] = state.align.split(".");
  const one = run.attention.find((found) => found.kind === "cross" && String(found.layer) === layer);
  if (one) return head === undefined ? layer! : `${layer}.${clamp(Number(head), one.heads)}`;
  const { attention } = selection;
  if (state.align || state.layer < 0 || attention.kind !== "cross") return "all";
  return state.head >= 0 && attention.heads > 1 ? `${attention.layer}.${selection.head}` : String(attention.layer);
}

/** Row i is the token that the decoder generates from query i, that is token i + 1. */
async function byToken({ run, source, t }: Context, layer: string, head: string): Promise<Alignment> {
  const cross = run.attention.filter((one) => one.kind === "cross" && (layer === "all" || one.layer === Number(layer)));
  const name = (one: Attention) => (head === "all" ? `average/${one.index}` : `weights/${one.index}/${head}`);
  const grids = await Promise.all(cross.map((one) => source.array(run.id, name(one))));
  const mean = Grid.zeros(grids[0]!.rows, grids[0]!.columns);
  for (const grid of grids) grid.data.forEach((weight, i) => (mean.data[i]! += weight / grids.length));
  const written = run.sides[cross[0]!.querySide]!.tokens.slice(1).map((token) => token.text);
  const target = Array.from({ length: mean.rows }, (_, r) => written[r] ?? t.endOfTarget);
  const read = run.sides[cross[0]!.keySide]!.tokens.map((token) => token.text);
  const weights = target.map((_, r) => Array.from(mean.row(r)));
  const links = weights.map((row, r): [number, number] => [largest(row, 1)[0]![0], r]);
  return { source: read, target, weights, links };
}
