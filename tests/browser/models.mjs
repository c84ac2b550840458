// Trains the small models that the page is tested with, by the command itself; kept between runs of the test.
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { dates, prose, reviews } from "./corpus.mjs";

const call = promisify(execFile);

/** Folder of each model by name, trained unless it is newer than the command. */
export async function trainModels(attend, folder) {
  mkdirSync(folder, { recursive: true });
  const file = (name, lines) => {
    const path = join(folder, name);
    writeFileSync(path, lines.join("\n") + "\n");
    return path;
  };
  const pairs = file("dates.tsv", dates(3000));
  const labelled = file("reviews.tsv", reviews(400));
  const text = file("prose.txt", prose(3000));
  const small = ["--quiet", "--overwrite", "--threads", "2"];
  const plans = {
    transformer: [
      "transformer",
      pairs,
      "--tokenizer",
      "char",
      "--dim",
      "32",
      "--hidden",
      "64",
      "--heads",
      "4",
      "--encoder-layers",
      "2",
      "--decoder-layers",
      "2",
      "--steps",
      "60",
      "--batch-tokens",
      "1024",
    ],
    recurrent: [
      "rnn-attention",
      pairs,
      "--tokenizer",
      "char",
      "--dim",
      "32",
      "--hidden",
      "32",
      "--layers",
      "1",
      "--steps",
      "30",
      "--batch-tokens",
      "1024",
    ],
    language: [
      "gpt",
      text,
      "--tokenizer",
      "bpe",
      "--vocabulary",
      "400",
      "--dim",
      "32",
      "--heads",
      "4",
      "--layers",
      "3",
      "--context",
      "1024",
      "--steps",
      "12",
      "--batch",
      "2",
    ],
    classifier: [
      "encoder",
      labelled,
      "--tokenizer",
      "wordpiece",
      "--vocabulary",
      "120",
      "--dim",
      "32",
      "--hidden",
      "64",
      "--heads",
      "4",
      "--layers",
      "2",
      "--steps",
      "40",
    ],
    long: [
      "gpt",
      text,
      "--tokenizer",
      "char",
      "--dim",
      "16",
      "--heads",
      "2",
      "--layers",
      "1",
      "--context",
      "16384",
      "--positions",
      "rotary",
      "--steps",
      "1",
      "--batch",
      "1",
    ],
  };
  const models = {};
  for (const [name, plan] of Object.entries(plans)) {
    models[name] = join(folder, name);
    const made = join(models[name], "model.safetensors");
    if (existsSync(made) && statSync(made).mtimeMs > statSync(new URL("models.mjs", import.meta.url)).mtimeMs) continue;
    await call(attend, ["train", ...plan, "-o", models[name], ...small]);
  }
  return models;
}
