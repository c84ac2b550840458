import assert from "node:assert/strict";
import { request } from "node:http";
import { prose } from "../corpus.mjs";
import { open } from "../harness.mjs";

const table = [];

/** The slowdown caused by other processes on this machine; 1 if it is idle. */
function busyness() {
  const [started, before] = [process.hrtime.bigint(), process.cpuUsage()];
  while (process.hrtime.bigint() - started < 400_000_000n);
  const { user, system } = process.cpuUsage(before);
  return Math.max(1, 400_000 / Math.max(1, user + system));
}

/** The page's size is asserted. Its times depend on the machine, so each is only printed, beside its limit. */
export default async function performance(harness) {
  const { ids } = harness.world;
  const sentences = prose(2000, 9).join(" ");
  await harness.test("performance: the page is small", async (_page, { address }) => {
    limit("page, compressed", (await bytesOf(address)) / 1000, 500, "kB");
  });
  await harness.test("performance: 512 tokens", async (page, { address }) => {
    const text = await textOf(page, address, ids.language, sentences, 512);
    await page.goto("about:blank");
    await page.goto(`${address}#${new URLSearchParams({ view: "heads", model: ids.language, text })}`);
    limit("first view of 512 tokens", await drawnAt(page, "#heads-picture"), 1000, "ms");
    const times = await page.evaluate(hoverTimes);
    limit("hover at 512 tokens, 9 of 10", times.sort((a, b) => a - b)[Math.floor(times.length * 0.9)], 16, "ms");
  });
  await harness.test("performance: a matrix of 16,384 tokens", async (page, { address }) => {
    const text = sentences.slice(0, 16_300);
    await page.goto("about:blank");
    await page.goto(`${address}#${new URLSearchParams({ view: "matrix", model: ids.long, text })}`);
    limit(
      `Matrix of ${text.length.toLocaleString("en")} tokens opens`,
      await drawnAt(page, "#matrix-picture"),
      2000,
      "ms",
    );
    limit("longest pause while it is panned", await panPause(page), 100, "ms");
  });
}

/** Notes a figure and its limit. Only a size is asserted. */
function limit(what, value, most, unit) {
  const slowdown = unit === "ms" ? busyness() : 1;
  table.push({ what, value, most, unit, slowdown });
  assert.ok(unit === "ms" || value < most, `${what}: ${value.toFixed(1)} ${unit}, the limit is ${most}`);
}

export function printTable() {
  if (table.length === 0) return;
  console.log(`\n${"what".padEnd(40)}  measured     limit   machine shared`);
  for (const { what, value, most, unit, slowdown } of table)
    console.log(
      `${what.padEnd(40)} ${value.toFixed(1).padStart(9)} ${String(most).padStart(9)} ${unit}${slowdown > 1.05 ? `   × ${slowdown.toFixed(1)}` : ""}`,
    );
  console.log("");
}

function bytesOf(address) {
  return new Promise((done, failed) => {
    request(address, { headers: { "Accept-Encoding": "gzip" } }, (response) => {
      let bytes = 0;
      response.on("data", (chunk) => (bytes += chunk.length));
      response.on("end", () =>
        response.headers["content-encoding"] === "gzip"
          ? done(bytes)
          : failed(new Error("the page is not sent compressed")),
      );
    })
      .on("error", failed)
      .end();
  });
}

/** The beginning of the text that has `count` tokens. */
async function textOf(page, address, model, all, count) {
  await open(page, address, { model, text: all.slice(0, 1000) });
  const tokens = Number((await page.textContent("#status")).match(/\d+/)[0]);
  return all.slice(0, Math.round((1000 * count) / tokens));
}

/** Milliseconds from the page's first request until the picture is drawn. */
function drawnAt(page, id) {
  return page
    .waitForFunction((name) => document.querySelector(name)?.dataset.drawn && window.performance.now(), id, {
      polling: "raf",
      timeout: 120_000,
    })
    .then((handle) => handle.jsonValue());
}

/** The times of mouse movements: handling, drawing and rasterising, which reading a pixel waits for. */
async function hoverTimes() {
  const canvas = document.querySelector("#heads-picture");
  const box = canvas.getBoundingClientRect();
  const times = [];
  for (let i = 0; i < 100; ++i) {
    const side = i % 2 ? 0.1 : 0.9;
    const event = new PointerEvent("pointermove", {
      clientX: box.left + box.width * side,
      clientY: box.top + 40 + ((i * 37) % (box.height - 60)),
    });
    const started = performance.now();
    canvas.dispatchEvent(event);
    const handled = performance.now() - started;
    canvas.dataset.drawn = "";
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const flushing = performance.now();
    canvas.getContext("2d").getImageData(0, 0, 1, 1);
    times.push(handled + Number(canvas.dataset.drawn) + performance.now() - flushing);
  }
  return times;
}

/** The longest time between two frames while the zoomed matrix is dragged back and forth. */
async function panPause(page) {
  const box = await page.locator("#matrix-picture").boundingBox();
  for (let i = 0; i < 5; ++i) await page.click("#zoom-in");
  await page.waitForTimeout(1500); // for the first tiles to load
  await page.evaluate(() => {
    window.pauses = [];
    let last = performance.now();
    const tick = () => {
      const now = performance.now();
      window.pauses.push(now - last);
      last = now;
      window.ticking = requestAnimationFrame(tick);
    };
    window.ticking = requestAnimationFrame(tick);
  });
  const [x, y] = [box.x + 300, box.y + 300];
  await page.mouse.move(x, y);
  await page.mouse.down();
  for (let i = 0; i < 40; ++i) await page.mouse.move(x + 180 * Math.sin(i / 4), y + 160 * Math.cos(i / 5));
  await page.mouse.up();
  return page.evaluate(() => {
    cancelAnimationFrame(window.ticking);
    return Math.max(...window.pauses.slice(1));
  });
}
