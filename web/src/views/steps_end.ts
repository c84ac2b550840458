import { visible } from "../data/words";
import { addOther, type Chain, type Vector } from "./steps_chain";
import { formulas } from "./steps_formulas";
import { added, difference } from "./steps_numbers";
import { outputPicture } from "./steps_pictures";

// From the result of one head to the next token's probability.

/** Concatenation, output projection, residual and norm of the attention. Returns the input of the layer's next part. */
export async function addProjected(chain: Chain, sum: Vector, x: Vector): Promise<Vector> {
  const { numbers, attention, head, context } = chain;
  const { path, value_dim, heads } = attention;
  const { t } = context;
  const joined = (await numbers.value(path, "attended"))!;
  const off = attention.off.includes(head);
  const part = joined.subarray(head * value_dim, (head + 1) * value_dim);
  const check = off ? t.headIsOff : t.equalCheck(difference(sum, part));
  chain.strips("sum", formulas.sum(), [[`c${head}`, sum]], { weightedSum: sum }, check);
  chain.strips("concatenation", formulas.concatenation(heads), [["c", joined, value_dim]]);
  const bias = await numbers.parameter(`${path}.output.bias`);
  const projected = (await numbers.value(path, "projected"))!;
  chain.strips("projection", formulas.projection(bias !== null), [["c", joined, value_dim], ["bO", bias], ["o", projected]]);
  return addResidual(chain, path, "o", x, projected);
}

/** A residual connection and, in a post-norm model, the norm after it. */
async function addResidual(chain: Chain, path: string, branch: string, x: Vector, value: Vector): Promise<Vector> {
  const { numbers, context } = chain;
  const part = await chain.steered(path, "branch", value);
  const residual = (await numbers.value(path, "residual"))!;
  const check = context.t.equalCheck(difference(added(x, part), residual));
  chain.strips("residual", formulas.residual(branch), [["x", x], [branch, part], ["y", residual]], {}, check);
  if (numbers.stack!.normFirst) return residual;
  const normed = (await numbers.value(path, "normed"))!;
  await chain.norm("norm", residual, normed, `${path}_norm`);
  return normed;
}

/** The rest of the layer: a decoder's cross-attention after its self-attention, and the feed-forward network. */
export async function addRestOfLayer(chain: Chain, x: Vector): Promise<Vector> {
  const { numbers, attention, context } = chain;
  const stack = numbers.stack!;
  const crosses = context.run.attention.some((one) => one.path === `${numbers.layer}.cross_attention`);
  const y = crosses && attention.kind === "self" ? await addOther(chain, "cross_attention", x) : x;
  const path = `${numbers.layer}.feed_forward`;
  let input = y;
  if (stack.normFirst) {
    input = (await numbers.value(path, "normed"))!;
    await chain.norm("normFirst", y, input, `${path}_norm`);
  }
  const [activated, branch] = [(await numbers.value(path, "activated"))!, (await numbers.computed(path, "branch"))!];
  const up = await numbers.parameter(`${path}.up.bias`);
  const down = await numbers.parameter(`${path}.down.bias`);
  chain.strips("activation", formulas.activation(stack.activation, stack.gated, up !== null), [["x", input], ["b1", up], ["h", activated]], {
    activation: stack.activation,
    gated: stack.gated,
  });
  chain.strips("feedForward", formulas.feedForward(down !== null), [["h", activated], ["b2", down], ["f", branch]]);
  return addResidual(chain, path, "f", y, branch);
}

/** The layers after this one, the final norm and the output. */
export async function addOutput(chain: Chain, x: Vector): Promise<void> {
  const { numbers, attention, context } = chain;
  const stack = numbers.stack!;
  const last = stack.layers - 1;
  let y = await chain.steered(numbers.layer, "output", x);
  if (attention.layer < last) {
    const path = `${stack.name}.layers.${last}`;
    const result = (await numbers.computed(path, "output"))!;
    chain.strips("layersAfter", formulas.layersAfter(attention.layer, last), [["x", y], [`x(${last + 1})`, result]], { last });
    y = await chain.steered(path, "output", result);
  }
  if (stack.finalNorm) {
    const final = (await numbers.computed(stack.name, "final"))!;
    await chain.norm("finalNorm", y, final, `${stack.name}.norm`);
    y = final;
  }
  y = await chain.steered(stack.name, "final", y);
  const { output } = context.run;
  if (context.run.sides.length > 1 && attention.stack === "encoder") chain.strips("memory", formulas.memory(), [["m", y]]);
  else if (output.kind === "tokens") await addPrediction(chain, output.masked ? await addMaskedLayer(chain, y) : y);
  else if (output.kind === "labels") await addLabels(chain, y);
}

/** The layer and the norm of a head for masked words. Returns the output layer's input. */
async function addMaskedLayer(chain: Chain, x: Vector): Promise<Vector> {
  const { numbers, context } = chain;
  const activation = context.run.arithmetic!.maskedActivation;
  const bias = await numbers.parameter("masked_dense.bias");
  const hidden = (await numbers.computed("", "transformed"))!;
  chain.strips("maskedLayer", formulas.maskedLayer(activation), [["x", x], ["bM", bias], ["h", hidden]], { activation });
  const input = await chain.steered("", "transformed", hidden);
  const normed = (await numbers.computed("", "readout"))!;
  await chain.norm("maskedNorm", input, normed, "masked_norm");
  return chain.steered("", "readout", normed);
}

/** The output layer of a model that predicts tokens. */
export async function addPrediction(chain: Chain, x: Vector): Promise<void> {
  const { run, t } = chain.context;
  const { output } = run;
  if (output.kind !== "tokens") return;
  const candidates = output.rows[chain.query] ?? [];
  if (candidates.length === 0 || candidates[0]!.logit === undefined) return;
  const scale = run.arithmetic?.outputScale ?? 1;
  const h = x.map((value) => value * scale);
  if (scale !== 1) chain.strips("outputScale", formulas.outputScale(scale), [["x", x], ["h", h]], { scale });
  const names = candidates.map((one) => visible(one.text) || "∅");
  const logits = Float32Array.from(candidates, (one) => one.logit!);
  const total = output.totals?.[chain.query] ?? 0;
  const p = Float32Array.from(candidates, (one) => one.p);
  const known = { tokens: candidates.map((one) => one.id), texts: candidates.map((one) => one.text) };
  const bias = (run.arithmetic?.outputBias ?? "") !== "";
  const formula = formulas.logits(scale === 1 ? "x" : "h", bias);
  chain.add("logits", formula, { ...known, x: h, z: logits }, outputPicture(chain.context, "logits", names, logits, false), t.bestOf(names.length));
  const off = difference(logits.map((z) => Math.exp(z - total)), p);
  const picture = outputPicture(chain.context, "probability", names, p, true);
  chain.add("probability", formulas.probability(total), { ...known, z: logits, total, p }, picture, t.equalCheck(off));
}

/** The classifier of a model that predicts labels. It reads one vector of the whole text. */
async function addLabels(chain: Chain, x: Vector): Promise<void> {
  const { run, t } = chain.context;
  const { output, arithmetic } = run;
  if (output.kind !== "labels" || output.items[0]?.logit === undefined || !arithmetic) return;
  const mean = arithmetic.pooling === "mean";
  const first = await chain.numbers.value(chain.numbers.stack!.name, "final", 0);
  let vector = (await chain.numbers.value("", "text", 0)) ?? first ?? x;
  chain.strips("text", formulas.text(mean), [["x", x], ["t", vector]], { mean });
  const pooled = await chain.numbers.value("", "pooled", 0);
  if (pooled) chain.strips("pooler", formulas.pooler(arithmetic.pooler), [["t", vector], ["r", pooled]]);
  vector = pooled ?? vector;
  const names = output.items.map((item) => item.label);
  const logits = Float32Array.from(output.items, (item) => item.logit!);
  const bias = await chain.numbers.parameter("classifier.bias");
  const formula = formulas.logits(pooled ? "r" : "t", bias !== null);
  chain.add("logits", formula, { labels: names, x: vector, z: logits }, outputPicture(chain.context, "logits", names, logits, false));
  if (arithmetic.scores === "values") return;
  const p = Float32Array.from(output.items, (item) => item.p);
  const each = arithmetic.scores === "each";
  const total = Math.log(logits.reduce((sum, z) => sum + Math.exp(z), 0));
  const off = difference(logits.map((z) => (each ? 1 / (1 + Math.exp(-z)) : Math.exp(z - total))), p);
  const picture = outputPicture(chain.context, each ? "sigmoid" : "probability", names, p, true);
  const numbers = { labels: names, z: logits, p, ...(each ? {} : { total }) };
  chain.add(each ? "sigmoid" : "probability", each ? formulas.sigmoid() : formulas.probability(total), numbers, picture, t.equalCheck(off));
}
