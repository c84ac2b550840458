import type { Context } from "../context";
import { dot, type Grid } from "../data/grid";
import type { Attention } from "../data/types";

/** The scores of one query, by dimension. */
export interface Pairing {
  q: Float32Array; // the query's vector
  k: Grid; // the keys' vectors
  products: (key: number) => Float32Array; // their sum is the raw score
  scores: Float32Array;
  weights: Float32Array;
}

export async function loadPairing(
  { source, run }: Context,
  attention: Attention,
  head: number,
  query: number,
): Promise<Pairing> {
  const at = `${attention.index}/${head}`;
  const rows: [number, number] = [query, query + 1];
  const [q, k, scores, weights, additive] = await Promise.all([
    source.array(run.id, `q/${at}`, { rows }),
    source.array(run.id, `k/${at}`),
    source.array(run.id, `scores/${at}`, { rows }),
    source.array(run.id, `weights/${at}`, { rows }),
    attention.score === "additive" ? source.array(run.id, `additive/${attention.index}`) : null,
  ]);
  // The contribution of dimension d. Dot product: q_d k_d. Bahdanau: v_d tanh(q_d + k_d).
  const term = additive
    ? (a: number, b: number, d: number) => additive.data[d]! * Math.tanh(a + b)
    : (a: number, b: number) => a * b;
  return {
    q: q.data,
    k,
    products: (key) => q.data.map((value, d) => term(value, k.at(key, d), d)),
    scores: scores.data,
    weights: weights.data,
  };
}

export function sumOf(pairing: Pairing, key: number): number {
  return dot(pairing.products(key), new Float32Array(pairing.q.length).fill(1));
}
