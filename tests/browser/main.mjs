// Drives Chromium over pages served by the real command with small models:
//   node main.mjs ATTEND WORK [NAME]     ATTEND: the command; WORK: a folder for models; NAME: run only this suite
// Exits with 77 if there is no Chromium, which CTest reports as skipped.
import { spawnSync } from "node:child_process";
import { resolve } from "node:path";
import { findChromium, Harness, launch, viewsOf } from "./harness.mjs";
import { trainModels } from "./models.mjs";
import { view } from "./server.mjs";
import { printTable } from "./suites/performance.mjs";

const kSuites = [
  "views",
  "numbers",
  "steps",
  "input",
  "languages",
  "accessibility",
  "state",
  "offline",
  "safety",
  "pictures",
  "training",
  "chat",
  "tools",
  "performance",
];

const [attend, work, only] = [
  resolve(process.argv[2] ?? "build/release/attend"),
  resolve(process.argv[3] ?? "build/browser"),
  process.argv[4],
];
const chromium = findChromium();
if (!chromium) {
  console.log("browser: skipped, there is no Chromium (Debian: apt install chromium)");
  process.exit(77);
}
if (spawnSync(attend, ["view", "--help"]).status !== 0) {
  console.log("browser: skipped, this command has no view");
  process.exit(77);
}
const models = await trainModels(attend, work);
const names = ["transformer", "recurrent", "language", "classifier", "long", "rotary", "relative", "masked", "distant", "normed", "luong"];
const server = await view(
  attend,
  names.map((name) => models[name]),
);
const browser = await launch(chromium);
let failed = 1;
try {
  const ids = Object.fromEntries(names.map((name, i) => [name, `m${i}`]));
  // The suite "tools" tests the views that compute first, or need more than a text.
  const kComputing = ["lens", "attribute", "patch", "probe", "steer"];
  const views = (await viewsOf(browser, server.address)).filter((view) => !kComputing.includes(view));
  const harness = new Harness(browser, { attend, work, models, ids, views, address: server.address });
  for (const name of kSuites) {
    if (only && name !== only) continue;
    const { default: suite } = await import(`./suites/${name}.mjs`);
    await suite(harness);
  }
  printTable();
  failed = harness.failed;
  console.log(`${harness.results.length - failed} passed, ${failed} failed`);
} finally {
  await browser.close();
  const code = await server.stop();
  if (code !== 0) {
    console.log(`FAIL attend view ended with ${code} on Ctrl-C`);
    failed += 1;
  }
}
process.exit(failed ? 1 : 0);
