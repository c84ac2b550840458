import type { Context, View } from "../context";
import { controls } from "../controls";
import { el } from "../dom";
import { attentionSelect, axes, headSelect, note, selectedNames, tokenSelect } from "./common";
import { patchesPicture } from "./patches";
import { pointName } from "./points";
import type { Pairing } from "./pairing";
import { addInput, addProjections, addScores, loadChain, type Chain, type Step } from "./steps_chain";
import { addOutput, addProjected, addRestOfLayer } from "./steps_end";
import { addRecurrent } from "./steps_recurrent";

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
  const steered = run.interventions.steer.map((one) => pointName(t, one.point));
  const list = el("ol", { class: "steps" }, ...chain.steps.map((step) => stepElement(context, step)));
  return {
    element: el("div", {}, bar, steered.length ? note(t.stepsSteered(steered.join(", "))) : null, patches?.element, list, note(t.stepsHelp)),
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

function stepElement({ t }: Context, step: Step): HTMLElement {
  const text = t.steps[step.name];
  const formula = el("div", { class: "formula" });
  formula.append(step.formula);
  return el(
    "li",
    { attributes: { id: `step-${step.id}`, "data-step": step.name } },
    el("h3", {}, text.title),
    formula,
    el("p", {}, step.text ?? text.text),
    step.picture?.element ?? null,
    step.check ? el("p", { class: "check" }, step.check) : null,
  );
}
