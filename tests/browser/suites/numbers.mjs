import assert from "node:assert/strict";
import { join } from "node:path";
import { exported, near, open } from "../harness.mjs";
import { inspect } from "../server.mjs";

const kTolerance = 1e-5;

/** The page shows the library's numbers: compares each view with `attend inspect -o FILE.json`. */
export default async function numbers(harness) {
  const { attend, work, models, ids } = harness.world;
  const texts = {
    transformer: "3. Mai 2025",
    recurrent: "3. Mai 2025",
    language: "The old man walks to the river. 一只小猫",
    classifier: "I love this lamp.",
  };
  for (const name of Object.keys(texts)) {
    const target = name === "transformer" || name === "recurrent" ? ["--target", "2025-05-03"] : [];
    const file = await inspect(attend, models[name], texts[name], join(work, `${name}.json`), target);
    const state = { model: ids[name], text: texts[name], ...(target.length ? { target: target[1] } : {}) };
    await harness.test(`numbers: ${name}`, async (page, { address }) => {
      for (const { index, heads } of [file.run.attention[0], file.run.attention.at(-1)]) {
        for (const head of new Set([0, heads - 1]))
          await compareHead(page, address, file, { ...state, layer: index, head, query: 2, key: 1 });
      }
      await compareModel(page, address, file, state);
      if (target.length) await compareAlignment(page, address, file, state);
    });
  }
}

function array(file, name) {
  const found = file.arrays[name];
  assert.ok(found, `inspect's JSON has no ${name}`);
  return found.values;
}

/** Heads, Matrix, Neurons and Steps of one head. */
async function compareHead(page, address, file, state) {
  const at = `${state.layer}/${state.head}`;
  const weights = array(file, `weights/${at}`);
  await open(page, address, { ...state, view: "heads", heads: state.head });
  near((await exported(page)).weights[0], weights, kTolerance, `heads ${at}`);

  await open(page, address, { ...state, view: "matrix" });
  near((await exported(page)).weights, weights, kTolerance, `matrix ${at}`);
  await page.waitForFunction(() => document.querySelector("#readout").dataset.weight);
  near(await page.getAttribute("#readout", "data-weight"), weights[state.query][state.key], kTolerance, "the readout");
  await page.click("main .behind summary");
  await page.waitForSelector("main .behind table");
  const cells = await page.$$eval("main .behind tbody tr:nth-child(3) td", (list) =>
    list.map((cell) => Number(cell.textContent)),
  );
  near(cells.slice(0, weights[2].length), weights[2], kTolerance, "the table's third row");

  await open(page, address, { ...state, view: "neurons" });
  const neurons = await exported(page);
  near(neurons.q, array(file, `q/${at}`)[state.query], kTolerance, "q");
  near(neurons.k, array(file, `k/${at}`)[state.key], kTolerance, "k");
  near(neurons.weight, weights[state.query][state.key], kTolerance, "the pair's weight");
  const score = Number(neurons.score);
  if (file.run.attention[state.layer].score === "additive") near(neurons.sum, score, kTolerance, "Bahdanau's score");
  near(score, array(file, `scores/${at}`)[state.query][state.key], kTolerance, "the score");

  await open(page, address, { ...state, view: "steps" });
  const steps = await exported(page);
  near(steps.weights, weights[state.query], kTolerance, "the weights of Steps");
}

async function compareModel(page, address, file, state) {
  await open(page, address, { ...state, view: "model" });
  const { heads } = await exported(page);
  for (const figure of ["entropy", "distance", "peak"])
    near(
      heads.map((one) => one[figure]),
      file.heads.heads.map((one) => one[figure]),
      kTolerance,
      figure,
    );
}

async function compareAlignment(page, address, file, state) {
  await open(page, address, { ...state, view: "alignment", unit: "words" });
  const shown = await exported(page);
  assert.deepEqual([shown.source, shown.target], [file.alignment.source, file.alignment.target]);
  near(shown.weights, file.alignment.weights, kTolerance, "alignment");
  assert.deepEqual(shown.links, file.alignment.links);
}
