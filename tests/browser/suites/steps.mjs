import assert from "node:assert/strict";
import { exported, near, open } from "../harness.mjs";
import { rowOf, times, weightsOf } from "../safetensors.mjs";

// Steps is the model's own arithmetic: every equation is computed again here, from the numbers shown and the weights in
// the model's file, for a model of each kind and each of its layers.

const kCases = {
  transformer: { text: "3. Mai 2025", target: "2025-05-03", has: ["embeddingScale", "position", "norm"], not: ["rotation", "finalNorm"] },
  language: { text: "The old man walks to the river.", has: ["position", "normFirst", "finalNorm"], not: ["rotation", "embeddingScale", "norm"] },
  rotary: { text: "The old man walks to the river.", has: ["rotation", "normFirst"], not: ["position", "embeddingScale"] },
  relative: { text: "3. Mai 2025", target: "2025-05-03", has: ["relative", "outputScale"], not: ["position", "rotation", "scale"] },
  classifier: { text: "I love this lamp.", has: ["position", "embeddingNorm", "text", "probability"], not: ["rotation"] },
  distant: { text: "The old man walks to the river.", has: ["alibi", "mask"], not: ["position", "rotation"] },
  normed: { text: "The old man walks to the river.", has: ["queryNorm", "rotation"], not: ["position"] },
  masked: { text: "The old <mask> walks to the river.", has: ["maskedLayer", "maskedNorm", "probability"], not: ["rotation"] },
  luong: { text: "3. Mai 2025", target: "2025-05-03", has: ["products", "nextState", "readout"], not: ["additive", "scale"] },
  recurrent: { text: "3. Mai 2025", target: "2025-05-03", has: ["additive", "nextState", "readout"], not: ["position", "projection"] },
};

export default async function steps(harness) {
  const { ids, models } = harness.world;
  await steered(harness);
  for (const [name, { has, not, ...input }] of Object.entries(kCases))
    await harness.test(`steps: every equation holds, ${name}`, async (page, { address }) => {
      const weights = weightsOf(models[name]);
      const state = { view: "steps", model: ids[name], ...input };
      await open(page, address, state);
      const layers = await page.locator("#layer option").count();
      const seen = new Set();
      for (let layer = 0; layer < layers; ++layer) {
        await open(page, address, { ...state, layer, head: layer % 2, query: 3 + (layer % 2) });
        const data = await exported(page);
        check(data, weights);
        for (const step of data.steps) seen.add(step.name);
        for (const name of ["keys", "values"])
          assert.match(data.steps.find((step) => step.name === name).formula, /[xmh]j/, `${name}: of which vector?`);
        assert.equal(await page.locator(".steps > li").count(), data.steps.length);
      }
      assert.equal(await page.locator("msqrt").count(), 0, "a root that some fonts do not draw");
      for (const step of has) assert.ok(seen.has(step), `${name} has no step ${step}: ${[...seen]}`);
      for (const step of not) assert.ok(!seen.has(step), `${name} has a step ${step}`);
    });
}

/** Points at which a run can be steered. The chain shows what is added there, and each equation still holds. */
const kSteered = {
  language: [":embedded", "stack.layers.0:output", "stack.layers.2:output", "stack.layers.1.feed_forward:branch"],
  transformer: ["encoder:embedded", "decoder:embedded", "decoder.layers.0:output", "decoder.layers.1:output"],
  classifier: [":embedded", "stack.layers.1:output"],
  masked: ["stack.layers.1:output"],
  recurrent: [":outputs"],
  luong: [":outputs"],
};

export async function steered(harness) {
  const { ids, models } = harness.world;
  for (const [name, points] of Object.entries(kSteered))
    await harness.test(`steps: every equation holds in a steered run, ${name}`, async (page, { address }) => {
      const weights = weightsOf(models[name]);
      const { text, target } = kCases[name];
      const state = { view: "steps", model: ids[name], text, ...(target ? { target } : {}), query: 2, strength: 3 };
      for (const steerAt of points) {
        let shown = 0;
        const steer = text.startsWith("3") ? "Mai" : text.split(" ")[1];
        await open(page, address, { ...state, steer, steerAt });
        const layers = await page.locator("#layer option").count();
        for (let layer = 0; layer < layers; ++layer) {
          await open(page, address, { ...state, steer, steerAt, layer });
          const data = await exported(page);
          check(data, weights);
          shown += data.steps.filter((step) => step.name === "steering").length;
        }
        assert.ok(shown > 0, `${name}: no step shows the direction at ${steerAt}`);
        assert.match(await page.textContent("main .note >> nth=0"), /This run is steered at/);
      }
    });
}

const kTolerance = 2e-4; // of f32 sums, relative to the largest number

function close(actual, expected, what) {
  const most = Math.max(1, ...[expected].flat().filter(Number.isFinite).map(Math.abs));
  near(actual, expected, kTolerance * most, what);
}

const same = (a, b) => Array.isArray(a) && a.length === b.length && a.every((value, i) => Math.abs(value - b[i]) < 1e-6);
const plus = (a, b) => a.map((value, i) => value + (b?.[i] ?? 0));
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const logSum = (values) => {
  const most = Math.max(...values);
  return most + Math.log(values.reduce((sum, value) => sum + Math.exp(value - most), 0));
};
/** An approximation of the error function, exact to 1.5e-7 (Abramowitz and Stegun 7.1.26). */
const erf = (x) => {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - sum * Math.exp(-x * x));
};
const kActivations = {
  relu: (x) => Math.max(0, x),
  silu: (x) => x / (1 + Math.exp(-x)),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
};

/** The vector after the rotation of a step. */
function turned(vector, { "θ": angles, interleaved }) {
  const result = [...vector];
  angles.forEach((angle, i) => {
    const [a, b] = interleaved ? [2 * i, 2 * i + 1] : [i, i + angles.length];
    result[a] = vector[a] * Math.cos(angle) - vector[b] * Math.sin(angle);
    result[b] = vector[a] * Math.sin(angle) + vector[b] * Math.cos(angle);
  });
  return result;
}

/** RMSNorm within a head. */
function headNorm(vector, gamma, eps) {
  const size = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0) / vector.length + eps);
  return vector.map((value, i) => (value / size) * gamma[i]);
}

/** Checks every step of an exported view, and that each begins with the numbers with which the one before ended. */
export function check({ attention, head, query, steps, weights: shown }, weights) {
  const layer = attention.replace(/\.[^.]*$/, "");
  const stack = attention.split(".")[0];
  const table =
    stack === "decoder" && weights.has("target_embedding.weight") ? "target_embedding.weight" : "embedding.weight";
  const parameter = (name) => weights.get(name);
  const named = (name) => steps.find((step) => step.name === name);
  const head_dim = named("query").q.length;
  let x = null; // the vector that the chain has reached
  let q = named("query").q;
  for (const [index, step] of steps.entries()) {
    const before = steps[index - 1];
    const what = `${attention} head ${head}, ${step.name}`;
    const biased = (matrix, input, bias, first = 0, count = undefined) =>
      plus(times(parameter(matrix), input, first, count), bias);
    if (step.x && x && !["embeddingScale", "position", "types", "text", "logits", "steering"].includes(step.name)) close(step.x, x, `${what}: its input`);
    switch (step.name) {
      case "embedding":
        close(step.e, rowOf(parameter(table), step.token), what);
        x = step.e;
        break;
      case "embeddingScale":
        near(step.factor, Math.sqrt(step.e.length), 1e-6, what);
        close(step.x, step.e.map((value) => value * step.factor), what);
        x = null;
        break;
      case "position":
      case "types":
        close(step.x, plus(plus(step.e.map((value) => value * step.factor), step.p), step.u), what);
        if (parameter("positions.weight")) close(step.p, rowOf(parameter("positions.weight"), query), `${what}, p`);
        x = step.x;
        break;
      case "steering":
        assert.ok(step["δ"].some((value) => Math.abs(value) > 1e-6), `${what}: nothing was added`);
        close(step["x′"], plus(step.x, step["δ"]), what);
        assert.ok(Object.values(before).some((value) => same(value, step.x)), `${what}: not the result of ${before.name}`);
        if (x && same(x, step.x)) x = step["x′"];
        break;
      case "patch":
        if (step.patch === 0) close(step.e, Array.from(parameter("whole").data), what);
        x = step.e;
        break;
      case "maskedLayer":
        close(step.h, biased("masked_dense.weight", step.x, step.bM).map(kActivations[step.activation]), what);
        x = step.h;
        break;
      case "maskedNorm":
      case "embeddingNorm":
      case "normFirst":
      case "norm":
      case "finalNorm": {
        const n = step.x.length;
        const mean = step.norm === "rms" ? 0 : step.x.reduce((a, b) => a + b, 0) / n;
        const deviation = Math.sqrt(step.x.reduce((a, b) => a + (b - mean) ** 2, 0) / n + step.eps);
        const normed = step.x.map((value, i) => ((value - mean) / deviation) * (step["γ"]?.[i] ?? 1) + (step["β"]?.[i] ?? 0));
        close(step["norm(x)"], normed, what);
        near([step.mean, step.deviation], [mean, deviation], 1e-4, `${what}, its figures`);
        x = step["norm(x)"];
        break;
      }
      case "layersBefore":
        x = step[`x(${step.layer})`];
        break;
      case "otherAttention":
        close(step["x + o"], plus(step.x, step.o), what);
        x = step.y ?? step["x + o"];
        break;
      case "query":
        if (step.x) close(step.q, biased(`${attention}.query.weight`, step.x, step.bQ, head * head_dim, head_dim), what);
        if (step.s) close(step.q, times(parameter("additive.query.weight"), step.s), what);
        if (step["s′"]) {
          const matrix = parameter("multiplicative.projection.weight");
          close(step.q, matrix ? times(matrix, step["s′"]) : step["s′"], what);
        }
        break;
      case "queryNorm":
        close(step["q′"], headNorm(step.q, step["γ"], step.eps), what);
        q = step["q′"];
        break;
      case "rotation": {
        close(step["θ"][0], query, `${what}: the first angle is the position`);
        close(step["q′"], turned(step.q, step), what);
        q = step["q′"];
        break;
      }
      case "keys": {
        const matrix = parameter(`${attention}.key.weight`);
        const input = named("query").x;
        if (!matrix || !input || attention.endsWith("cross_attention")) break;
        const heads = parameter(`${attention}.query.weight`).shape[0] / head_dim;
        const shared = Math.floor(head / (heads / (matrix.shape[0] / head_dim)));
        let own = plus(times(matrix, input, shared * head_dim, head_dim), step.bK);
        const norm = named("queryNorm");
        if (norm) own = headNorm(own, Array.from(parameter(`${attention}.key_norm.weight`).data), norm.eps);
        if (named("rotation")) own = turned(own, named("rotation"));
        close(step.k[query], own, `${what} of the query's token`);
        break;
      }
      case "values": {
        const matrix = parameter(`${attention}.value.weight`);
        const input = named("query").x;
        if (!matrix || !input || attention.endsWith("cross_attention")) break;
        const size = step.v[0].length;
        const heads = parameter(`${attention}.query.weight`).shape[0] / head_dim;
        const shared = Math.floor(head / (heads / (matrix.shape[0] / size)));
        close(step.v[query], plus(times(matrix, input, shared * size, size), step.bV), `${what} of the query's token`);
        break;
      }
      case "products":
        close(step.qk, named("keys").k.map((key) => dot(q, key)), what);
        break;
      case "additive": {
        const a = rowOf(parameter("additive.score.weight"), 0);
        close(step.s, named("keys").k.map((key) => key.reduce((sum, value, d) => sum + a[d] * Math.tanh(q[d] + value), 0)), what);
        break;
      }
      case "scale":
        close(step.s, step.qk.map((value) => value * step.scale), what);
        break;
      case "relative":
      case "alibi":
        close(step["s′"], plus(step.s, step.b), what);
        break;
      case "mask":
        step.s.forEach((value, j) => Number(value) === -Infinity || close(value, step.before[j], what));
        break;
      case "softmax": {
        const scores = step.s.map(Number);
        close(step.w, scores.map((value) => Math.exp(value - logSum(scores))), what);
        close(shown, step.w, "the weights");
        break;
      }
      case "sum": {
        const { v } = named("values");
        const w = named("softmax").w;
        close(step.weightedSum, v[0].map((_, d) => w.reduce((sum, weight, j) => sum + weight * v[j][d], 0)), what);
        break;
      }
      case "concatenation": {
        const part = named("sum").weightedSum;
        close(step.c.slice(head * part.length, (head + 1) * part.length), part, what);
        break;
      }
      case "text":
        if (!step.mean && query === 0) close(step.t, step.x, what);
        break;
      case "projection":
        close(step.o, biased(`${attention}.output.weight`, step.c, step.bO), what);
        x = null; // the residual begins with the attention's input
        break;
      case "residual":
        close(step.y, plus(step.x, step.o ?? step.f), what);
        x = step.y;
        break;
      case "activation": {
        const act = kActivations[step.activation];
        const up = biased(`${layer}.feed_forward.up.weight`, step.x, step.b1);
        const gate = step.gated && biased(`${layer}.feed_forward.gate.weight`, step.x, parameter(`${layer}.feed_forward.gate.bias`)?.data);
        close(step.h, step.gated ? gate.map((value, i) => act(value) * up[i]) : up.map(act), what);
        break;
      }
      case "feedForward":
        close(step.f, biased(`${layer}.feed_forward.down.weight`, step.h, step.b2), what);
        x = null;
        break;
      case "layersAfter":
        x = step[`x(${step.last + 1})`];
        break;
      case "readout": {
        const input = [...step["s′"], ...step.c, ...step.e];
        close(step.r, plus(times(parameter("readout.weight"), input), parameter("readout.bias").data).map(Math.tanh), what);
        break;
      }
      case "outputScale":
        close(step.h, step.x.map((value) => value * step.scale), what);
        break;
      case "pooler":
        close(step.r, plus(times(parameter("pooler.weight"), step.t), parameter("pooler.bias").data).map(Math.tanh), what);
        break;
      case "logits": {
        const all = outputs(step, weights, table);
        close(step.z, step.tokens ? step.tokens.map((id) => all[id]) : [...all].sort((a, b) => b - a), what);
        step.all = all;
        break;
      }
      case "sigmoid":
        close(step.p, step.z.map((value) => 1 / (1 + Math.exp(-value))), what);
        break;
      case "probability": {
        const total = logSum(named("logits").all);
        near(step.total, total, 1e-3, `${what}: the sum of all logits`);
        close(step.p, step.z.map((value) => Math.exp(value - total)), what);
        break;
      }
    }
  }
  const last = steps.at(-1).name;
  assert.ok(["probability", "sigmoid", "memory"].includes(last), `the chain of ${attention} ends with ${last}`);
}

/** The logits of all tokens or labels. */
function outputs(step, weights, table) {
  const matrix = step.labels
    ? weights.get("classifier.weight")
    : (weights.get("output.weight") ?? weights.get("output_weight") ?? weights.get(table));
  const names = step.labels ? ["classifier.bias"] : ["output_bias", "output.bias", "masked_bias"];
  const bias = names.map((name) => weights.get(name)).find((one) => one);
  return plus(times(matrix, step.x), bias?.data);
}
