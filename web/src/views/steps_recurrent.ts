import { sub } from "../draw/math";
import type { Pairing } from "./pairing";
import { addScores, rowsOf, type Chain, type Vector } from "./steps_chain";
import { addPrediction } from "./steps_end";
import { formulas } from "./steps_formulas";
import { difference, weightedSum } from "./steps_numbers";
import { mapPicture } from "./steps_pictures";

/** The attention of a recurrent decoder (Bahdanau et al. 2015, Luong et al. 2015). */
export async function addRecurrent(chain: Chain, pairing: Pairing): Promise<void> {
  const { attention, context, labels, head } = chain;
  const texts = context.t.recurrentSteps;
  const additive = attention.score === "additive";
  await addQuery(chain, additive, pairing.q);
  const h = () => sub("h", "j");
  const formula = additive ? formulas.keys(h(), false, false, false) : formulas.same("k", h());
  chain.add("keys", formula, { k: rowsOf(pairing) }, mapPicture(context, "keys", labels, pairing.k));
  chain.describe(additive ? texts.projectedKeys : texts.plainKeys);
  const v = await context.source.array(context.run.id, `v/${attention.index}/${head}`);
  const values = Array.from({ length: v.rows }, (_, j) => v.row(j));
  chain.add("values", formulas.same("v", h()), { v: values }, mapPicture(context, "values", labels, v));
  chain.describe(texts.values);
  await addScores(chain, pairing);
  await addOutput(chain, additive, weightedSum(pairing.weights, v.rows, v.columns, (j, d) => v.at(j, d)));
}

/** The decoder's state as a query: before the step for additive scores, after it for the others. */
async function addQuery(chain: Chain, additive: boolean, q: Vector): Promise<void> {
  const { numbers, context } = chain;
  const texts = context.t.recurrentSteps;
  const words = await numbers.value("", "words");
  const side = context.run.sides[chain.attention.querySide]!;
  const id = side.tokens[chain.query]!.id;
  if (words) chain.strips("embedding", formulas.embedding(id), [["e", words]], { token: id });
  if (additive) {
    chain.strips("query", formulas.query("s", false), [["s", await numbers.value("", "states")], ["q", q]]);
    chain.describe(texts.projectedQuery);
    return;
  }
  const computed = (await numbers.computed("", "outputs"))!;
  chain.strips("nextState", formulas.nextState(cellName(chain), false), [["e", words], ["s′", computed]]);
  const state = await chain.steered("", "outputs", computed);
  const general = context.run.arithmetic?.score === "general";
  const formula = general ? formulas.query("s′", false) : formulas.same("q", "s′");
  chain.strips("query", formula, [["s′", state], ["q", q]]);
  chain.describe(general ? texts.projectedQuery : texts.plainQuery);
}

/** The weighted sum, the decoder's next state for additive scores, and the read-out. */
async function addOutput(chain: Chain, additive: boolean, sum: Vector): Promise<void> {
  const { numbers, context } = chain;
  const [words, computed, seen, readout] = await Promise.all(
    ["words", "outputs", "context", "readout"].map((what) => numbers.computed("", what)),
  );
  const check = seen ? context.t.equalCheck(difference(sum, seen)) : undefined;
  chain.strips("sum", formulas.sum(), [["c", sum]], { weightedSum: sum }, check);
  if (!words || !computed || !readout) return;
  let state = (await numbers.value("", "outputs"))!;
  if (additive) {
    chain.strips("nextState", formulas.nextState(cellName(chain), true), [["e", words], ["c", sum], ["s′", computed]]);
    state = await chain.steered("", "outputs", computed);
  }
  const attended = await chain.steered("", "context", sum);
  chain.strips("readout", formulas.readout(true), [["s′", state], ["c", attended], ["e", words], ["r", readout]]);
  await addPrediction(chain, await chain.steered("", "readout", readout));
}

function cellName(chain: Chain): string {
  const cell = chain.context.run.arithmetic?.cell ?? "";
  return cell === "gru" || cell === "lstm" ? cell.toUpperCase() : "RNN";
}
