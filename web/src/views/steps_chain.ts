import type { Context } from "../context";
import type { Attention } from "../data/types";
import type { Label } from "../data/words";
import { sub, type Maths } from "../draw/math";
import type { Picture } from "../draw/picture";
import { axes } from "./common";
import { loadPairing, type Pairing } from "./pairing";
import { formulas, type StepName } from "./steps_formulas";
import { added, difference, normNumbers, rotated, StepNumbers, weightedSum } from "./steps_numbers";
import { barsPicture, mapPicture, stripsPicture } from "./steps_pictures";

/** One step: an equation, and the numbers for which it is true. */
export interface Step {
  id: string; // unique
  name: StepName;
  formula: Element;
  picture: Picture | null;
  check?: string;
  text?: string; // default: the text of the step's name
  numbers: Record<string, unknown>;
}

export type Vector = Float32Array;
type Strips = [string, Vector | null, number?][];

/** Collects the steps of one query's way through the model, with helpers for the common kinds of steps. */
export class Chain {
  readonly steps: Step[] = [];
  readonly numbers: StepNumbers;
  readonly labels: Label[]; // of the keys

  constructor(
    readonly context: Context,
    readonly attention: Attention,
    readonly head: number,
    readonly query: number,
  ) {
    this.numbers = new StepNumbers(context, attention, query);
    this.labels = axes(context.run, attention, false).columns;
  }

  add(name: StepName, formula: Element, numbers: Step["numbers"], picture: Picture | null, check?: string): void {
    this.steps.push({ id: this.id(name), name, formula, numbers, picture, check });
  }

  /** Replaces the usual text of the last step. */
  describe(text: string): void {
    this.steps.at(-1)!.text = text;
  }

  /** Vectors below each other; the numbers are exported under the strips' names. */
  strips(name: StepName, formula: Element, strips: Strips, more: Step["numbers"] = {}, check?: string): void {
    const shown = strips.filter((strip): strip is [string, Vector, number?] => strip[1] !== null);
    const numbers = { ...Object.fromEntries(shown.map(([id, values]) => [id, values])), ...more };
    this.add(name, formula, numbers, stripsPicture(this.context, this.id(name), shown), check);
  }

  bars(name: StepName, formula: Element, key: string, values: Vector, more: Step["numbers"] = {}, check?: string): void {
    const picture = barsPicture(this.context, this.id(name), name, this.labels, values, key);
    this.add(name, formula, { ...more, [key]: values }, picture, check);
  }

  /** A norm with the parameters `path`.weight and `path`.bias. */
  async norm(name: StepName, x: Vector, y: Vector, path: string): Promise<void> {
    const { t } = this.context;
    const stack = this.numbers.stack!;
    const [gamma, beta] = [await this.numbers.parameter(`${path}.weight`), await this.numbers.parameter(`${path}.bias`)];
    const { mean, deviation, difference: off } = normNumbers(x, y, stack, gamma, beta);
    const rms = stack.norm === "rms";
    this.strips(
      name,
      formulas.norm(rms, stack.eps, gamma !== null, beta !== null),
      [
        ["x", x],
        ["γ", gamma],
        ["β", beta],
        ["norm(x)", y],
      ],
      { mean, deviation, eps: stack.eps, norm: stack.norm },
      `${t.normCheck(rms, mean, deviation)} ${t.equalCheck(off)}`,
    );
  }

  /** If a direction was added to a value of this run, a step that shows it. Returns the value with it. */
  async steered(path: string, what: string, value: Vector): Promise<Vector> {
    const before = await this.numbers.value(path, `${what}_unsteered`);
    if (!before) return value;
    const after = (await this.numbers.value(path, what))!;
    const direction = after.map((one, i) => one - before[i]!);
    this.strips("steering", formulas.steering(), [["x", before], ["δ", direction], ["x′", after]]);
    return after;
  }

  /** Of several steps with one name, such as the norms, each has its own id. */
  private id(name: StepName): string {
    const before = this.steps.filter((step) => step.name === name).length;
    return before === 0 ? name : `${name}-${before + 1}`;
  }
}

/** From the token to the input of the attention. Returns the vector to which the attention's result is added. */
export async function addInput(chain: Chain): Promise<Vector | null> {
  const { numbers, context, attention, query } = chain;
  const { t } = context;
  const stack = numbers.stack;
  const tokens = await numbers.embedding("tokens");
  if (!stack || !tokens) return null;
  const side = context.run.sides[attention.querySide]!;
  if (side.picture) chain.strips("patch", formulas.patch(query === 0), [["e", tokens]], { patch: query });
  else chain.strips("embedding", formulas.embedding(side.tokens[query]!.id), [["e", tokens]], { token: side.tokens[query]!.id });
  const scaled = await numbers.embedding("scaled");
  if (scaled) {
    const factor = stack.embeddingScale;
    const off = difference(tokens.map((value) => value * factor), scaled);
    const strips: Strips = [["e", tokens], ["x", scaled]];
    chain.strips("embeddingScale", formulas.embeddingScale(factor), strips, { factor }, t.equalCheck(off));
  }
  const [position, types, computed] = await Promise.all([
    numbers.embedding("positions"),
    numbers.embedding("types"),
    numbers.embedding("embedded"),
  ]);
  const summed = (await numbers.embedding("summed")) ?? computed!;
  if (position || types) {
    const off = difference(added(scaled ?? tokens, position, types), summed);
    chain.strips(
      position ? "position" : "types",
      formulas.position(scaled ? stack.embeddingScale : 1, position !== null, types !== null),
      [["e", tokens], ["p", position], ["u", types], ["x", summed]],
      { factor: scaled ? stack.embeddingScale : 1 },
      t.equalCheck(off),
    );
  }
  if (stack.embeddingNorm) await chain.norm("embeddingNorm", summed, computed!, stack.embeddingNorm);
  const embedded = await chain.steered(numbers.embeddings, "embedded", computed!);
  const input = (await numbers.value(numbers.layer, "input"))!;
  const { layer } = attention;
  if (layer > 0) {
    const before = `${stack.name}.layers.${layer - 1}`;
    const result = (await numbers.computed(before, "output"))!;
    chain.strips("layersBefore", formulas.layersBefore(layer), [["x", embedded], [`x(${layer})`, result]], { layer });
    await chain.steered(before, "output", result);
  }
  if (!attention.path.endsWith("cross_attention")) return input;
  return addOther(chain, "attention", input);
}

/** The other attention of a decoder's layer, in one step. Returns its result. */
export async function addOther(chain: Chain, part: "attention" | "cross_attention", x: Vector): Promise<Vector> {
  const { numbers, context } = chain;
  const path = `${numbers.layer}.${part}`;
  const [branch, residual, normed] = [
    (await numbers.value(path, "branch"))!,
    (await numbers.value(path, "residual"))!,
    await numbers.value(path, "normed"),
  ];
  const { normFirst } = numbers.stack!;
  const y = normFirst ? residual : normed!;
  const strips: Strips = [["x", x], ["o", branch], ["x + o", residual], ...(normFirst ? [] : ([["y", y]] as Strips))];
  const check = context.t.equalCheck(difference(added(x, branch), residual));
  chain.strips("otherAttention", formulas.otherAttention(normFirst), strips, { part }, check);
  return y;
}

/** Query, keys and values of one head, for an attention with projections. `x` is the attention's input. */
export async function addProjections(chain: Chain, pairing: Pairing, x: Vector | null): Promise<void> {
  const { numbers, attention, head, query, context } = chain;
  const { t } = context;
  const { path, head_dim, heads, key_heads } = attention;
  const stack = numbers.stack;
  const part = (all: Vector | null, index: number, size: number) => all?.subarray(index * size, (index + 1) * size) ?? null;
  const shared = Math.floor(head / (heads / key_heads)); // the key head of this query head
  const bias = async (name: string, index: number, size: number) =>
    part(await numbers.parameter(`${path}.${name}.bias`), index, size);
  const raw = part(await numbers.value(path, "queries"), head, head_dim);
  const [queryBias, keyBias, valueBias] = await Promise.all([
    bias("query", head, head_dim),
    bias("key", shared, head_dim),
    bias("value", shared, attention.value_dim),
  ]);
  const memory = (): Maths => sub(attention.kind === "cross" ? "m" : "x", "j");
  let q = raw ?? pairing.q;
  chain.strips("query", formulas.query(sub("x", "i"), queryBias !== null), [["x", x], ["bQ", queryBias], ["q", q]]);
  if (stack?.queryNormEps !== undefined && raw) {
    const gamma = await numbers.parameter(`${path}.query_norm.weight`);
    const size = Math.sqrt(q.reduce((sum, value) => sum + value * value, 0) / q.length + stack.queryNormEps);
    const normed = q.map((value, d) => (value / size) * (gamma?.[d] ?? 1));
    chain.strips("queryNorm", formulas.queryNorm(stack.queryNormEps), [["q", q], ["γ", gamma], ["q′", normed]], {
      eps: stack.queryNormEps,
    });
    q = normed;
  }
  const rotary = attention.kind === "self" ? stack?.rotary : undefined;
  if (rotary && raw) {
    const angles = rotary.frequencies.map((frequency) => query * frequency);
    const off = difference(rotated(q, angles, rotary.interleaved), pairing.q);
    chain.strips(
      "rotation",
      formulas.rotation(rotary.frequencies[0]!),
      [["q", q], ["θ", Float32Array.from(angles)], ["q′", pairing.q]],
      { position: query, interleaved: rotary.interleaved },
      t.equalCheck(off),
    );
  }
  const keyFormula = formulas.keys(memory(), keyBias !== null, stack?.queryNormEps !== undefined, rotary !== undefined);
  chain.add("keys", keyFormula, { k: rowsOf(pairing), bK: keyBias }, mapPicture(context, "keys", chain.labels, pairing.k));
  const v = await context.source.array(context.run.id, `v/${attention.index}/${head}`);
  const values = Array.from({ length: v.rows }, (_, j) => v.row(j));
  chain.add("values", formulas.values(memory(), valueBias !== null), { v: values, bV: valueBias }, mapPicture(context, "values", chain.labels, v));
}

export function rowsOf(pairing: Pairing): Vector[] {
  return Array.from({ length: pairing.k.rows }, (_, j) => pairing.k.row(j));
}

/** From the scores to the weighted sum. Returns the head's result. */
export async function addScores(chain: Chain, pairing: Pairing): Promise<Vector> {
  const { attention, head, query, context, labels } = chain;
  const { t } = context;
  const products = Float32Array.from(labels, (_, j) => pairing.products(j).reduce((a, b) => a + b, 0));
  const additive = attention.score === "additive";
  if (additive) chain.bars("additive", formulas.additive(), "s", products);
  else chain.bars("products", formulas.products(), "qk", products);
  let scores = products;
  if (!additive && Math.abs(attention.scale - 1) > 1e-9) {
    scores = products.map((value) => value * attention.scale);
    chain.bars("scale", formulas.scale(attention.scale, attention.head_dim), "s", scores, { qk: products, scale: attention.scale });
  }
  if (attention.softcap) {
    const cap = attention.softcap;
    const capped = scores.map((value) => cap * Math.tanh(value / cap));
    chain.bars("softcap", formulas.softcap(cap), "s′", capped, { s: scores, cap });
    scores = capped;
  }
  if (!additive && attention.bias && attention.bias !== "none") {
    const seen = (j: number) => pairing.scores[j] !== -Infinity;
    const bias = scores.map((value, j) => (seen(j) ? pairing.scores[j]! - value : 0));
    const biased = scores.map((value, j) => (seen(j) ? pairing.scores[j]! : value));
    const far = labels.findIndex((_, j) => j !== query && seen(j));
    const slope = attention.bias === "alibi" && far >= 0 ? -bias[far]! / Math.abs(query - far) : 0;
    const formula = attention.bias === "alibi" ? formulas.alibi(slope) : formulas.relative();
    chain.bars(attention.bias, formula, "s′", biased, { s: scores, b: bias });
    scores = biased;
  }
  const masked = pairing.scores.filter((s) => s === -Infinity).length;
  const mask = formulas.mask(attention.causal, attention.window ?? 0, t.ifWord, t.orWord, t.isMasked);
  chain.bars("mask", mask, "s", pairing.scores, { before: scores }, t.maskCheck(masked, labels.length));
  const total = pairing.weights.reduce((a, b) => a + b, 0);
  chain.bars("softmax", formulas.softmax(), "w", pairing.weights, { s: pairing.scores }, t.sumCheck(total));
  const v = await context.source.array(context.run.id, `v/${attention.index}/${head}`);
  return weightedSum(pairing.weights, v.rows, v.columns, (j, d) => v.at(j, d));
}

export async function loadChain(context: Context): Promise<{ chain: Chain; pairing: Pairing }> {
  const { attention, head, query } = context.selection;
  const chain = new Chain(context, attention, head, query);
  return { chain, pairing: await loadPairing(context, attention, head, query) };
}
