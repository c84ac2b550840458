import type { Context, View } from "../context";
import { controls } from "../controls";
import { el } from "../dom";
import { sub } from "../draw/math";
import { attentionSelect, axes, headSelect, note, selectedNames, tokenSelect } from "./common";
import { patchesPicture } from "./patches";
import type { Pairing } from "./pairing";
import { addInput, addProjections, addScores, loadChain, rowsOf, type Chain, type Step } from "./steps_chain";
import { addOutput, addProjected, addRecurrentInput, addRecurrentOutput, addRestOfLayer } from "./steps_end";
import { formulas } from "./steps_formulas";
import { weightedSum } from "./steps_numbers";
import { mapPicture } from "./steps_pictures";

/** The computation of the selected query, step by step, with the model's own equations and numbers. */
export async function stepsView(context: Context): Promise<View> {
  const { run, t, update, selection } = context;
  const { attention, head, query } = selection;
  const { chain, pairing } = await loadChain(context);
  if (attention.stack === "rnn") await addRecurrent(chain, pairing);
  else await addAll(chain, pairing);
  const rows = axes(run, attention, false).rows;
  const bar = controls(
    attentionSelect(context),
    headSelect(context),
    tokenSelect("query", t.query, rows, query, (value) => update({ query: value, key: -1 })),
  );
  const patches = await patchesPicture(context, {
    id: "patches-picture",
    tiles: () => [{ caption: t.head(head), weights: pairing.weights }],
    query: () => query,
    press: (token) => update({ query: token, key: -1 }),
    move: (token) => update({ query: token, key: -1 }),
  });
  const list = el("ol", { class: "steps" }, ...chain.steps.map((step) => stepElement(context, step)));
  return {
    element: el("div", {}, bar, patches?.element, list, note(t.stepsHelp)),
    pictures: [patches, ...chain.steps.map((step) => step.picture)].filter((picture) => picture !== null),
    caption: () => [...selectedNames(context), rows[query]!.plain],
    data: () => ({
      attention: attention.path,
      head,
      query,
      weights: pairing.weights,
      scores: pairing.scores,
      steps: chain.steps.map(({ name, formula, numbers }) => ({ name, formula: formula.textContent, ...numbers })),
    }),
  };
}

/** A layer of a Transformer, with everything before and after it. */
async function addAll(chain: Chain, pairing: Pairing): Promise<void> {
  const { numbers, attention } = chain;
  const x = await addInput(chain);
  let input = x;
  if (x && numbers.stack!.normFirst) {
    input = (await numbers.value(attention.path, "normed"))!;
    await chain.norm("normFirst", x, input, `${attention.path}_norm`);
  }
  await addProjections(chain, pairing, input);
  const sum = await addScores(chain, pairing);
  if (!x) return;
  const attended = await addProjected(chain, sum, x);
  await addOutput(chain, await addRestOfLayer(chain, attended));
}

/** The attention of a recurrent decoder (Bahdanau et al. 2015, Luong et al. 2015). */
async function addRecurrent(chain: Chain, pairing: Pairing): Promise<void> {
  const { attention, context, labels, head } = chain;
  const additive = attention.score === "additive";
  await addRecurrentInput(chain, additive, pairing.q);
  const h = () => sub("h", "j");
  const formula = additive ? formulas.keys(h(), false, false, false) : formulas.same("k", h());
  chain.add("keys", formula, { k: rowsOf(pairing) }, mapPicture(context, "keys", labels, pairing.k));
  const v = await context.source.array(context.run.id, `v/${attention.index}/${head}`);
  const values = Array.from({ length: v.rows }, (_, j) => v.row(j));
  chain.add("values", formulas.same("v", h()), { v: values }, mapPicture(context, "values", labels, v));
  await addScores(chain, pairing);
  await addRecurrentOutput(chain, additive, weightedSum(pairing.weights, v.rows, v.columns, (j, d) => v.at(j, d)));
}

function stepElement({ t }: Context, step: Step): HTMLElement {
  const text = t.steps[step.name];
  const formula = el("div", { class: "formula" });
  formula.append(step.formula);
  return el(
    "li",
    { attributes: { id: `step-${step.id}`, "data-step": step.name } },
    el("h3", {}, text.title),
    formula,
    el("p", {}, text.text),
    step.picture?.element ?? null,
    step.check ? el("p", { class: "check" }, step.check) : null,
  );
}
