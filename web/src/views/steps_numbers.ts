import type { Context } from "../context";
import type { Attention, StackArithmetic } from "../data/types";

/** Reads the numbers of one query's way through the model: rows of hidden states, and parameters. */
export class StepNumbers {
  readonly stack: StackArithmetic | undefined;
  readonly layer: string; // the path of the attention's layer, a prefix of its parameters' names

  constructor(
    private readonly context: Context,
    readonly attention: Attention,
    readonly query: number,
  ) {
    this.stack = context.run.arithmetic?.stacks.find((one) => one.name === attention.stack);
    this.layer = attention.path.replace(/\.[^.]*$/, "");
  }

  /** The row of a hidden state such as "encoder.layers.0:input"; null if the run does not have it. */
  async value(path: string, what: string, row = this.query): Promise<Float32Array | null> {
    const { source, run } = this.context;
    const name = `${path}:${what}`;
    if (!run.values.includes(name)) return null;
    return (await source.array(run.id, `values/${name}`, { rows: [row, row + 1] })).data;
  }

  /** The same, before a direction was added to it. */
  async computed(path: string, what: string): Promise<Float32Array | null> {
    return (await this.value(path, `${what}_unsteered`)) ?? (await this.value(path, what));
  }

  /** Where the stack's embeddings are computed: models of one stack do so outside the stack. */
  get embeddings(): string {
    const { stack } = this.attention;
    return this.context.run.values.includes(`${stack}:embedded`) ? stack : "";
  }

  embedding(what: string): Promise<Float32Array | null> {
    return this.computed(this.embeddings, what);
  }

  /** A bias or a norm's weight; null if the model has none. */
  async parameter(name: string): Promise<Float32Array | null> {
    const { source, run } = this.context;
    return run.parameters?.includes(name) ? (await source.array(run.id, `parameters/${name}`)).data : null;
  }
}

export interface NormNumbers {
  x: Float32Array;
  mean: number; // 0 for RMSNorm
  deviation: number; // √(variance + ε), or √(mean of squares + ε)
  gamma: Float32Array | null;
  beta: Float32Array | null;
  y: Float32Array; // the model's result
  difference: number; // between y and the equation
}

/** The numbers of a norm: its statistics, and how well the equation gives the model's result. */
export function normNumbers(
  x: Float32Array,
  y: Float32Array,
  stack: Pick<StackArithmetic, "norm" | "eps">,
  gamma: Float32Array | null,
  beta: Float32Array | null,
): NormNumbers {
  const mean = stack.norm === "rms" ? 0 : x.reduce((a, b) => a + b, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  const deviation = Math.sqrt(variance + stack.eps);
  const computed = x.map((value, i) => ((value - mean) / deviation) * (gamma?.[i] ?? 1) + (beta?.[i] ?? 0));
  return { x, mean, deviation, gamma, beta, y, difference: difference(computed, y) };
}

/** Rotates the pairs of a vector's features by the angles; features beyond the pairs stay. */
export function rotated(x: Float32Array, angles: number[], interleaved: boolean): Float32Array {
  const result = x.slice();
  angles.forEach((angle, i) => {
    const [a, b] = interleaved ? [2 * i, 2 * i + 1] : [i, i + angles.length];
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    result[a] = x[a]! * cos - x[b]! * sin;
    result[b] = x[a]! * sin + x[b]! * cos;
  });
  return result;
}

export function added(...parts: (Float32Array | null)[]): Float32Array {
  const given = parts.filter((part) => part !== null);
  return given[0]!.map((_, i) => given.reduce((sum, part) => sum + part[i]!, 0));
}

/** The largest difference of two vectors, relative to the largest number if that is above 1. */
export function difference(a: Float32Array, b: Float32Array): number {
  const most = b.reduce((largest, value) => Math.max(largest, Math.abs(value)), 1);
  return a.reduce((largest, value, i) => Math.max(largest, Math.abs(value - b[i]!)), 0) / most;
}

export function weightedSum(weights: Float32Array, rows: number, columns: number, at: (r: number, c: number) => number) {
  const sum = new Float64Array(columns);
  for (let r = 0; r < rows; ++r) {
    if (weights[r] === 0) continue;
    for (let c = 0; c < columns; ++c) sum[c]! += weights[r]! * at(r, c);
  }
  return Float32Array.from(sum);
}
