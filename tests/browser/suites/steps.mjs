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
  recurrent: { text: "3. Mai 2025", target: "2025-05-03", has: ["additive", "nextState", "readout"], not: ["position", "projection"] },
};

export default async function steps(harness) {
  const { ids, models } = harness.world;
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

const kTolerance = 2e-4; // of f32 sums, relative to the largest number

function close(actual, expected, what) {
  const most = Math.max(1, ...[expected].flat().filter(Number.isFinite).map(Math.abs));
  near(actual, expected, kTolerance * most, what);
}

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

/** Checks every step of an exported view, and that each begins with the numbers with which the one before ended. */
function check({ attention, head, query, steps, weights: shown }, weights) {
  const layer = attention.replace(/\.[^.]*$/, "");
  const stack = attention.split(".")[0];
  const table =
    stack === "decoder" && weights.has("target_embedding.weight") ? "target_embedding.weight" : "embedding.weight";
  const parameter = (name) => weights.get(name);
  const named = (name) => steps.find((step) => step.name === name);
  const head_dim = named("query").q.length;
  let x = null; // the vector that the chain has reached
  let q = named("query").q;
  for (const step of steps) {
    const what = `${attention} head ${head}, ${step.name}`;
    const biased = (matrix, input, bias, first = 0, count = undefined) =>
      plus(times(parameter(matrix), input, first, count), bias);
    if (step.x && x && !["embeddingScale", "position", "types", "text", "logits"].includes(step.name)) close(step.x, x, `${what}: its input`);
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
        break;
      case "rotation": {
        const pairs = step["θ"].length;
        close(step["θ"][0], query, `${what}: the first angle is the position`);
        const turned = [...step.q];
        step["θ"].forEach((angle, i) => {
          const [a, b] = step.interleaved ? [2 * i, 2 * i + 1] : [i, i + pairs];
          turned[a] = step.q[a] * Math.cos(angle) - step.q[b] * Math.sin(angle);
          turned[b] = step.q[a] * Math.sin(angle) + step.q[b] * Math.cos(angle);
        });
        close(step["q′"], turned, what);
        q = step["q′"];
        break;
      }
      case "keys":
        step.rows = step.k;
        break;
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
        const gate = step.gated && times(parameter(`${layer}.feed_forward.gate.weight`), step.x);
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
  const bias = step.labels ? weights.get("classifier.bias") : (weights.get("output_bias") ?? weights.get("output.bias"));
  return plus(times(matrix, step.x), bias?.data);
}
