import type { Context } from "../context";
import { select } from "../controls";
import type { Attention, Run } from "../data/types";

// For models that read two sentences at once: shows only the attention from one sentence to the other.

/** The index where the second sentence begins: after a separator equal to the last token. -1 if there is only one. */
function secondSentence({ sides }: Run): number {
  const tokens = sides[0]!.tokens;
  const last = tokens[tokens.length - 1];
  if (sides.length > 1 || last?.kind !== "special") return -1;
  return tokens.findIndex((token, i) => i > 1 && i + 1 < tokens.length && token.id === last.id) + 1 || -1;
}

/** A filter that accepts a query and key if they are in the sentences chosen in the state. */
export function pairFilter({ run, state }: Context, attention: Attention): (query: number, key: number) => boolean {
  const start = attention.causal ? -1 : secondSentence(run);
  const { pair } = state;
  if (start < 0 || !pair) return () => true;
  const sentence = (token: number) => (token >= start ? "b" : "a");
  return (query, key) => sentence(query) === pair[0] && sentence(key) === pair[1];
}

/** The choice of sentences; null if there is only one. */
export function pairSelect({ run, state, t, update }: Context): HTMLElement | null {
  if (secondSentence(run) < 0 || run.attention.every((one) => one.causal)) return null;
  const options = (["", "aa", "ab", "ba", "bb"] as const).map((value) => ({ value, text: t.pair(value) }));
  return select("pair", t.sentences, options, state.pair, (pair) => update({ pair }));
}
