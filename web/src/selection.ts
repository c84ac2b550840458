import { attentionOf, clamp } from "./context";
import { largest } from "./data/grid";
import type { Source } from "./data/source";
import type { Attention, Run } from "./data/types";
import type { State } from "./state";

// The selection of the whole page: one layer, head, query and key, which all views share. -1 in the state stands for a
// default that depends on the run; a click pins a value.

/** The selected attention, head and query, with the defaults filled in. */
export interface Selection {
  attention: Attention;
  head: number;
  query: number;
}

const kMostWeights = 1 << 22; // above this, the default head is 0: entropies would take seconds

/** The selection of a state on a run; null if the model has no attention. */
export async function selectionOf(
  source: Source,
  run: Run,
  state: Pick<State, "layer" | "head" | "query">,
): Promise<Selection | null> {
  if (run.attention.length === 0) return null;
  const attention = attentionOf(run, state.layer);
  return {
    attention,
    head: state.head >= 0 ? clamp(state.head, attention.heads) : await sharpestHead(source, run, attention),
    query: queryOf(run, attention, state.query),
  };
}

/** The place whose prediction a model of masked words shows first: its mask, or the last token of the text. */
export function maskedPlace(run: Run, side: number): number {
  const { tokens } = run.sides[side]!;
  const mask = tokens.findIndex((token) => token.kind === "special" && /mask/i.test(token.text));
  const texts = tokens.flatMap((token, index) => (token.kind === "special" ? [] : [index]));
  return mask >= 0 ? mask : (texts[texts.length - 1] ?? tokens.length - 1);
}

/** The query of a state; -1 gives the last one, after which the model predicts. In a model that reads both ways, that
 * is its mask or the last token of the text; in an image model, the token of the whole image. */
export function queryOf(run: Run, attention: Attention, query: number): number {
  const { tokens, picture } = run.sides[attention.querySide]!;
  if (query >= 0) return clamp(query, tokens.length);
  if (picture) return 0;
  const last = tokens.length - 1;
  if (attention.causal || attention.kind === "cross") return last;
  return maskedPlace(run, attention.querySide);
}

/** The key of a state; -1 gives the key with the largest weight. */
export async function keyOf(source: Source, run: Run, { attention, head, query }: Selection, key: number) {
  if (key >= 0) return clamp(key, attention.keys);
  const weights = await source.array(run.id, `weights/${attention.index}/${head}`, { rows: [query, query + 1] });
  return largest(weights.data, 1)[0]?.[0] ?? 0;
}

/** The head whose weights have the least entropy: it shows the clearest pattern. */
export async function sharpestHead(source: Source, run: Run, attention: Attention, but = -1): Promise<number> {
  const first = but === 0 ? 1 : 0;
  if (attention.heads <= first + 1) return Math.min(first, attention.heads - 1);
  const weights = run.attention.reduce((sum, one) => sum + one.heads * one.queries * one.keys, 0);
  if (weights > kMostWeights) return first;
  const heads = (await source.heads(run.id)).filter((one) => one.attention === attention.index && one.head !== but);
  if (heads.length === 0) return first;
  return heads.reduce((best, one) => (one.entropy < best.entropy ? one : best)).head;
}
