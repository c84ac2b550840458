import type { Context } from "../context";
import { select } from "../controls";
import type { Attention, Run } from "../data/types";

// Models that read two sentences at once: what one gives to the other can be seen alone.

/** Where the second sentence begins, or -1: behind a separator like the last token. */
function secondSentence({ sides }: Run): number {
  const tokens = sides[0]!.tokens;
  const last = tokens[tokens.length - 1];
  if (sides.length > 1 || last?.kind !== "special") return -1;
  return tokens.findIndex((token, i) => i > 1 && i + 1 < tokens.length && token.id === last.id) + 1 || -1;
}

/** Whether a token of the chosen sentence looks at one of the chosen sentence. */
export function pairFilter({ run, state }: Context, attention: Attention): (query: number, key: number) => boolean {
  const start = attention.causal ? -1 : secondSentence(run);
  const { pair } = state;
  if (start < 0 || !pair) return () => true;
  const sentence = (token: number) => (token >= start ? "b" : "a");
  return (query, key) => sentence(query) === pair[0] && sentence(key) === pair[1];
}

/** Absent where there is one sentence. */
export function pairSelect({ run, state, t, update }: Context): HTMLElement | null {
  if (secondSentence(run) < 0 || run.attention.every((one) => one.causal)) return null;
  const options = (["", "aa", "ab", "ba", "bb"] as const).map((value) => ({ value, text: t.pair(value) }));
  return select("pair", t.sentences, options, state.pair, (pair) => update({ pair }));
}
