// Makes docs/screenshots/ with the command and the model of `./run demo`:
//   node screenshots.mjs ATTEND DATE_MODEL WORK     WORK: a folder for the recurrent model it is compared with
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { dialogues } from "./corpus.mjs";
import { findChromium, launch, open } from "./harness.mjs";
import { sharedModel, trainWords, watchWords } from "./models.mjs";
import { repacked, scene } from "./picture.mjs";
import { addressOf, view } from "./server.mjs";

const [attend, dateModel, work] = [
  process.argv[2] ?? "build/release/attend",
  process.argv[3] ?? "build/date-model",
  process.argv[4] ?? "build/browser",
].map((path) => resolve(path));
const only = process.argv[5];
const folder = new URL("../../docs/screenshots/", import.meta.url).pathname;
const date = { model: "m0", text: "Samstag, 3. Mai 2025", target: "2025-05-03" };

const shots = [
  {
    name: "heads",
    state: { ...date, view: "heads", layer: "last", threshold: 0.1, query: 8 },
  },
  { name: "model", state: { ...date, view: "model" }, tall: 1300 },
  { name: "matrix", state: { ...date, view: "matrix", layer: "last", head: 1, query: 9, key: 9 } },
  { name: "neurons", state: { ...date, view: "neurons", layer: "last", head: 1, query: 9, key: 9 } },
  {
    name: "steps",
    state: { ...date, view: "steps", layer: "last", head: 1, query: 9 },
    from: "#step-query",
    tall: 1400,
  },
  { name: "alignment", state: { ...date, view: "alignment" } },
  {
    name: "generation",
    state: { ...date, view: "generation", beam: 4 },
    wait: () => /\d ms/.test(document.querySelector("main [role=status]").textContent),
    click: ".sentence .token >> nth=5",
  },
  {
    name: "embeddings",
    state: { ...date, view: "embeddings" },
    fill: ["#search", "5"],
    wait: () => document.querySelector(".neighbours li"),
  },
  { name: "compare", state: { ...date, view: "compare", layer: "last", head: 1, model2: "m1" } },
  { name: "ablate", state: { ...date, view: "ablate", layer: "last", head: 1, held: "0.9" }, tall: 1100 },
  {
    name: "heads-dark",
    state: { ...date, view: "heads", layer: "last", threshold: 0.1, query: 8, theme: "dark" },
  },
  {
    name: "matrix-zh",
    state: {
      ...date,
      view: "matrix",
      layer: "last",
      head: 1,
      text: "二〇二一年六月十四日",
      target: "2021-06-14",
      lang: "zh",
      query: 6,
      key: 5,
    },
  },
  { name: "model-phone", whole: true, state: { ...date, view: "model" }, viewport: { width: 390, height: 844 } },
  {
    name: "heads-phone-zh",
    whole: true,
    state: {
      ...date,
      view: "heads",
      layer: "last",
      threshold: 0.1,
      text: "二〇二一年六月十四日",
      target: "2021-06-14",
      lang: "zh",
    },
    viewport: { width: 390, height: 844 },
  },
];

mkdirSync(folder, { recursive: true });
mkdirSync(work, { recursive: true });
const recurrent = join(work, "date-recurrent");
const corpus = join(dateModel, "dates.tsv"); // the demo's corpus
if (!existsSync(join(recurrent, "model.safetensors")))
  execFileSync(attend, [
    ...trainWords("rnn-attention", corpus, recurrent, { tokenizer: "char", dim: 64, hidden: 96, layers: 1, steps: 900 }),
    "--quiet",
  ]);
const server = await view(attend, [dateModel, recurrent], ["--text", date.text]);
const browser = await launch(findChromium());
try {
  for (const shot of shots) if (!only || shot.name.startsWith(only)) await take(shot, server.address);
  if (!only || only === "picture") await takePicture();
  if (!only || only === "chat") await takeChat();
  if (!only || only === "training") await takeTraining();
} finally {
  await browser.close();
  await server.stop();
}

async function take({ name, state, viewport = { width: 1120, height: 1180 }, ...shot }, address) {
  const page = await browser.newPage({ viewport, locale: "en-GB" });
  const layer = state.layer === "last" ? await lastLayer(page, address, state) : state.layer;
  await open(page, address, { ...state, ...(layer === undefined ? {} : { layer }) });
  if (shot.fill) await page.fill(...shot.fill);
  if (shot.wait) await page.waitForFunction(shot.wait);
  if (shot.click) await page.click(shot.click);
  await save(page, name, shot);
}

async function lastLayer(page, address, { model, text, target }) {
  const response = await page.request.post(`${address}api/runs`, { data: { model, text, target } });
  return (await response.json()).attention.length - 1;
}

/** Screenshots of an image model, if there is one. */
async function takePicture() {
  const model = sharedModel("vit");
  if (!model) return console.log("picture.png: skipped, there is no folder goldens/models/vit in ../shared");
  const file = join(work, "scene.png");
  writeFileSync(file, scene());
  const pictures = await view(attend, [model], ["--picture", file]);
  try {
    const shot = { name: "picture", state: { view: "heads", layer: 1, query: 6 }, tall: 620 };
    await take(shot, pictures.address);
  } finally {
    await pictures.stop();
  }
}

/** A conversation with a model that has learnt a few dialogues by heart. */
async function takeChat() {
  const [text, folder] = [join(work, "dialogues.txt"), join(work, "bot")];
  if (!existsSync(join(folder, "model.safetensors"))) {
    writeFileSync(text, dialogues(1500).join("\n"));
    const settings = { tokenizer: "bpe", vocabulary: 700, dim: 96, heads: 6, layers: 4, context: 256, steps: 300, batch: 8 };
    execFileSync(attend, [...trainWords("gpt", text, folder, settings), "--quiet"]);
    const template =
      '{% for m in messages %}{{ "User" if m.role == "user" else "Bot" }}: {{ m.content | trim }}{{ "\\n" }}{% endfor %}Bot:';
    writeFileSync(join(folder, "chat_template.jinja"), template);
  }
  const talker = await view(attend, [folder]);
  try {
    const page = await browser.newPage({ viewport: { width: 1120, height: 1180 }, locale: "en-GB" });
    await open(page, talker.address, { view: "chat" });
    await page.click("#chat-settings summary");
    await page.fill("#chat-stop-text", "User:");
    await page.fill("#chat-seed", "3");
    await page.press("#chat-seed", "Tab");
    await page.click("#chat-settings summary");
    for (const question of ["Hello!", "Why is the sea blue?"]) {
      await page.fill("#message", question);
      await page.press("#message", "Enter");
      await page.waitForFunction(() => document.querySelector("#chat-stop").hidden);
    }
    const words = page.locator("#chat-message-3 .word");
    const texts = await words.allTextContents();
    await words.nth(Math.max(0, texts.findIndex((one) => / (water|sky)/.test(one)))).click();
    await save(page, "chat", { tall: 900 });
  } finally {
    await talker.stop();
  }
}

/** A screenshot of a training, taken once its attention has a clear pattern. */
async function takeTraining() {
  const words = watchWords(corpus, join(work, "watched"), { dim: 64, hidden: 128, steps: 600 });
  const child = spawn(attend, words, { stdio: ["ignore", "pipe", "pipe"] });
  try {
    const page = await browser.newPage({ viewport: { width: 1120, height: 860 }, locale: "en-GB" });
    await open(page, await addressOf(child), { view: "training" });
    await page.waitForFunction(
      () =>
        Number(
          document
            .querySelector("#training-status")
            .textContent.match(/step ([\d,]+)/)?.[1]
            .replace(",", ""),
        ) > 450,
      null,
      { timeout: 300_000 },
    );
    await page.selectOption("#layer", { index: (await page.locator("#layer option").count()) - 1 });
    await page.waitForTimeout(800);
    await save(page, "training", { tall: 1400 });
  } finally {
    child.kill("SIGINT");
    await new Promise((done) => child.on("exit", done));
  }
}

/** Saves the view, cut after the last element that fits into the height `tall`; or the whole page. */
async function save(page, name, { whole = false, tall = 900, from = "" } = {}) {
  await page.waitForTimeout(400);
  const box = await page.locator("main").boundingBox();
  const top = from ? (await page.locator(from).boundingBox()).y - 12 : box.y - 4;
  const bottoms = await page.$$eval("main > *, main > div > *, main figure > *, main section > *, main li > *, main .card", (list) =>
    list.filter((one) => one.tagName !== "H3").map((one) => one.getBoundingClientRect().bottom),
  );
  const bottom = Math.max(...bottoms.filter((place) => place <= top + tall)) + 8;
  const isPhone = page.viewportSize().width < 640;
  const clip = { x: box.x - 16, y: top, width: box.width + 32, height: bottom - top };
  const png = repacked(await page.screenshot({ fullPage: !whole || isPhone, ...(whole ? {} : { clip }) }));
  writeFileSync(join(folder, `${name}.png`), png);
  console.log(`${name}.png ${(png.length / 1000).toFixed(0)} kB`);
  await page.close();
}
