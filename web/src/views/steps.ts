import { attentionOf, clamp, headOf, type Context, type View } from "../context";
import { controls } from "../controls";
import type { Attention } from "../data/types";
import { el } from "../dom";
import type { Picture } from "../draw/picture";
import { attentionSelect, axes, headSelect, note, tokenSelect } from "./common";
import { patchesPicture } from "./patches";
import { loadPairing } from "./pairing";
import { barsPicture, mapPicture, stripsPicture } from "./steps_pictures";
import { formulas, type StepName } from "./steps_formulas";

interface Step {
  name: StepName;
  picture: Picture | null;
  check?: string;
}

/** The computation of attention for one query, step by step, with the model's numbers. */
export async function stepsView(context: Context): Promise<View> {
  const { run, state, t, update } = context;
  const attention = attentionOf(run, state.layer);
  const head = headOf(attention, state.head);
  const all = axes(run, attention, false);
  const query = clamp(state.query, all.rows.length);
  const { steps, numbers } = await allSteps(context, attention, head, query);
  const bar = controls(
    attentionSelect(context, attention),
    headSelect(context, attention, head),
    tokenSelect("query", t.query, all.rows, query, (value) => update({ query: value })),
  );
  const patches = await patchesPicture(context, {
    id: "patches-picture",
    tiles: () => [{ caption: t.head(head), weights: numbers.weights }],
    query: () => query,
    press: (token) => update({ query: token }),
    move: (token) => update({ query: token }),
  });
  const list = el("ol", { class: "steps" }, ...steps.map((step) => stepElement(context, step, attention)));
  const element = el("div", {}, bar, patches?.element, list, note(t.stepsHelp));
  return {
    element,
    pictures: [patches, ...steps.map((step) => step.picture)].filter((picture) => picture !== null),
    data: () => ({ attention: attention.path, head, query, ...numbers }),
  };
}

function stepElement({ t }: Context, step: Step, attention: Attention): HTMLElement {
  const text = t.steps[step.name];
  const formula = el("div", { class: "formula" });
  formula.append(formulas(attention, t.ifWord, t.isMasked)[step.name]);
  return el(
    "li",
    { attributes: { id: `step-${step.name}` } },
    el("h3", {}, text.title),
    formula,
    el("p", {}, text.text),
    step.picture?.element ?? null,
    step.check ? el("p", { class: "check" }, step.check) : null,
  );
}

async function allSteps(
  context: Context,
  attention: Attention,
  head: number,
  query: number,
): Promise<{ steps: Step[]; numbers: Record<string, unknown> & { weights: Float32Array } }> {
  const { source, run, t } = context;
  const all = axes(run, attention, false);
  const [pairing, v] = await Promise.all([
    loadPairing(context, attention, head, query),
    source.array(run.id, `v/${attention.index}/${head}`),
  ]);
  const value = rowReader(context, attention, query);
  const [tokens, embedded, input, normed, joined, projected, residual] = await Promise.all([
    value("stack", "tokens"),
    value("stack", "embedded"),
    value("layer", "input"),
    value("own", "normed"),
    value("own", "attended"),
    value("own", "projected"),
    value("own", "residual"),
  ]);
  const normFirst = run.values.indexOf(`${attention.path}:normed`) < run.values.indexOf(`${attention.path}:attended`);
  const products = Float32Array.from(all.columns, (_, k) => pairing.products(k).reduce((a, b) => a + b, 0));
  const scaled = products.map((p) => p * (attention.score === "dot" ? attention.scale : 1));
  const unmasked = scaled.map((s, k) => (pairing.scores[k] === -Infinity ? s : pairing.scores[k]!));
  const sum = weighted(pairing.weights, v.rows, v.columns, (k, d) => v.at(k, d));
  const part = joined?.subarray(head * attention.value_dim, (head + 1) * attention.value_dim);
  const steps: Step[] = [];
  const add = (name: StepName, picture: Picture | null, check?: string) => steps.push({ name, picture, check });
  const strips = (name: StepName, list: Parameters<typeof stripsPicture>[2]) => stripsPicture(context, name, list);
  const bars = (name: StepName, values: Float32Array, digits: number) =>
    barsPicture(context, name, all.columns, values, digits);

  if (tokens) add("embedding", strips("embedding", [[t.stripToken, tokens]]));
  if (embedded) add("position", strips("position", [[t.stripPosition, embedded]]));
  if (normFirst && normed)
    add(
      "normFirst",
      strips("normFirst", [
        ...(input ? [[t.stripInput, input] as [string, Float32Array]] : []),
        [t.stripNormed, normed],
      ]),
    );
  add("query", strips("query", [["q", pairing.q]]));
  add("keys", mapPicture(context, "keys", all.columns, pairing.k));
  add("values", mapPicture(context, "values", all.columns, v));
  add(attention.score === "dot" ? "products" : "additive", bars("products", products, 2));
  if (attention.score === "dot") add("scale", bars("scale", unmasked, 2));
  add(
    "mask",
    bars("mask", pairing.scores, 2),
    t.maskCheck(pairing.scores.filter((s) => s === -Infinity).length, all.columns.length),
  );
  add("softmax", bars("softmax", pairing.weights, 3), t.sumCheck(pairing.weights.reduce((a, b) => a + b, 0)));
  add("sum", strips("sum", [[t.stripContext(head), sum]]), part ? t.equalCheck(difference(sum, part)) : undefined);
  if (joined) add("concatenation", strips("concatenation", [[t.stripJoined, joined, attention.value_dim]]));
  if (projected) add("projection", strips("projection", [[t.stripProjected, projected]]));
  if (residual) add("residual", strips("residual", [[t.stripResidual, residual]]));
  if (!normFirst && normed) add("norm", strips("norm", [[t.stripNormed, normed]]));
  const numbers = {
    tokens,
    embedded,
    q: pairing.q,
    products,
    scores: pairing.scores,
    weights: pairing.weights,
    weightedSum: sum,
    context: joined,
    projected,
    residual,
    normed,
  };
  return { steps, numbers };
}

/** Reads one row of a hidden state of the attention, its layer or its stack; null if the run has none. */
function rowReader({ source, run }: Context, attention: Attention, query: number) {
  const layer = attention.path.replace(/\.[^.]*$/, "");
  const stack = attention.path.replace(/\.?layers\..*$/, "");
  const paths = { own: [attention.path], layer: [layer], stack: [stack, ""] };
  return async (where: keyof typeof paths, what: string): Promise<Float32Array | null> => {
    const name = paths[where].map((path) => `${path}:${what}`).find((one) => run.values.includes(one));
    return name ? (await source.array(run.id, `values/${name}`, { rows: [query, query + 1] })).data : null;
  };
}

function weighted(
  weights: Float32Array,
  rows: number,
  columns: number,
  at: (row: number, column: number) => number,
): Float32Array {
  const sum = new Float64Array(columns);
  for (let r = 0; r < rows; ++r) {
    if (weights[r] === 0) continue;
    for (let c = 0; c < columns; ++c) sum[c]! += weights[r]! * at(r, c);
  }
  return Float32Array.from(sum);
}

function difference(a: Float32Array, b: Float32Array): number {
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0);
}
