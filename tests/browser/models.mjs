// Trains the small models of the page's tests with the command, and keeps them between test runs.
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { dates, prose, reviews } from "./corpus.mjs";

const call = promisify(execFile);

const kTranslator = { tokenizer: "char", dim: 32, hidden: 64, heads: 4, "batch-tokens": 1024 };
const kPlans = {
  transformer: ["transformer", "dates.tsv", { ...kTranslator, "encoder-layers": 2, "decoder-layers": 2, steps: 60 }],
  recurrent: [
    "rnn-attention",
    "dates.tsv",
    { tokenizer: "char", dim: 32, hidden: 32, layers: 1, steps: 30, "batch-tokens": 1024 },
  ],
  language: [
    "gpt",
    "prose.txt",
    { tokenizer: "bpe", vocabulary: 400, dim: 32, heads: 4, layers: 3, context: 1024, steps: 12, batch: 2 },
  ],
  classifier: [
    "encoder",
    "reviews.tsv",
    { tokenizer: "wordpiece", vocabulary: 120, dim: 32, hidden: 64, heads: 4, layers: 2, steps: 40 },
  ],
  // As in Llama and in T5: for the equations of Steps, which need no good model.
  rotary: [
    "gpt",
    "prose.txt",
    {
      ...{ tokenizer: "bpe", vocabulary: 400, dim: 32, heads: 4, "key-heads": 2, layers: 2, context: 256, steps: 2, batch: 1 },
      ...{ positions: "rotary", "rms-norm": "yes", gated: "yes", activation: "silu", bias: "no" },
    },
  ],
  relative: [
    "transformer",
    "dates.tsv",
    {
      ...{ ...kTranslator, "encoder-layers": 2, "decoder-layers": 1, steps: 2 },
      ...{ positions: "relative", "rms-norm": "yes", "norm-first": "yes", gated: "yes", activation: "gelu_tanh", bias: "no" },
      ...{ "scale-scores": "no", "scale-embedding": "no", "scale-output": "yes" },
    },
  ],
  // Other equations: biases by distance, a window, gates with biases; norms of queries, partial rotation, an output bias.
  distant: [
    "gpt",
    "prose.txt",
    {
      ...{ tokenizer: "bpe", vocabulary: 400, dim: 32, heads: 4, layers: 2, context: 256, steps: 2, batch: 1 },
      ...{ positions: "alibi", gated: "yes", activation: "gelu", window: 3, "layer-kinds": '["full","window"]' },
    },
  ],
  normed: [
    "gpt",
    "prose.txt",
    {
      ...{ tokenizer: "bpe", vocabulary: 400, dim: 32, heads: 4, "key-heads": 2, layers: 2, context: 256, steps: 2, batch: 1 },
      ...{ positions: "rotary", "rope-dims": 4, "qk-norm": "yes", "rms-norm": "yes", "attention-bias": "inputs" },
      ...{ activation: "relu", tied: "no", "output-bias": "yes", "scale-by-layer": "yes" },
    },
  ],
  luong: [
    "rnn-attention",
    "dates.tsv",
    { tokenizer: "char", dim: 24, "state-dim": 32, layers: 1, cell: "lstm", score: "general", steps: 4, "batch-tokens": 1024 },
  ],
  masked: [
    "encoder",
    "prose.txt",
    { "masked-words": null, tokenizer: "wordpiece", vocabulary: 200, dim: 32, heads: 4, layers: 2, steps: 10 },
  ],
  long: [
    "gpt",
    "prose.txt",
    { tokenizer: "char", dim: 16, heads: 2, layers: 1, context: 16384, positions: "rotary", steps: 1, batch: 1 },
  ],
};

/** The path of a Hugging Face folder in $ATTEND_SHARED or ../shared, if it exists. */
export function sharedModel(name) {
  const shared = process.env.ATTEND_SHARED ?? new URL("../../../shared", import.meta.url).pathname;
  const folder = join(shared, "goldens", "models", name);
  return existsSync(folder) ? folder : null;
}

/** The arguments of `attend` that train a model. */
export function trainWords(architecture, corpus, folder, settings) {
  const options = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, ...(value === null ? [] : [String(value)])]);
  return ["train", architecture, corpus, "-o", folder, "--overwrite", ...options];
}

/** The arguments of a training that is watched while it runs. */
export function watchWords(corpus, folder, settings = {}) {
  const words = trainWords("transformer", corpus, folder, { ...kTranslator, ...settings });
  return [...words, "--watch", "--watch-text", "3. Mai 2025"];
}

/** The folder of each model by name. Trains a model unless its folder is newer than this file. */
export async function trainModels(attend, folder, names = Object.keys(kPlans)) {
  mkdirSync(folder, { recursive: true });
  const write = (name, lines) => writeFileSync(join(folder, name), lines.join("\n") + "\n");
  write("dates.tsv", dates(3000));
  write("reviews.tsv", reviews(400));
  write("prose.txt", prose(3000));
  const models = {};
  for (const name of names) {
    const [architecture, corpus, settings] = kPlans[name];
    models[name] = join(folder, name);
    const made = join(models[name], "model.safetensors");
    if (existsSync(made) && statSync(made).mtimeMs > statSync(new URL("models.mjs", import.meta.url)).mtimeMs) continue;
    const words = trainWords(architecture, join(folder, corpus), models[name], { ...settings, threads: 2 });
    await call(attend, [...words, "--quiet"]);
  }
  return models;
}
