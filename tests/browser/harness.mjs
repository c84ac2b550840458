// A small test harness. Each test gets a new page, and fails on a console error or a request to another machine.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const require = createRequire(new URL("../../web/package.json", import.meta.url));

/** The views that a page offers for a model: the links of its menu. */
export async function viewsOf(browser, address, state = {}) {
  const page = await browser.newPage();
  await page.goto(`${address}#${new URLSearchParams(state)}`);
  await page.waitForSelector("nav a");
  const views = await offeredOn(page);
  await page.close();
  return views;
}

export function offeredOn(page) {
  return page.$$eval("nav a", (links) => links.map((link) => link.id.replace("view-", "")));
}

/** The path of Chromium: $CHROMIUM or Debian's; null if there is none. */
export function findChromium() {
  const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  return places.find((path) => path && existsSync(path)) ?? null;
}

export async function launch(executablePath) {
  const { chromium } = require("playwright-core");
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

export class Harness {
  constructor(browser, world) {
    this.browser = browser;
    this.world = world; // address, models, …
    this.results = [];
  }

  /** Runs `body(page, world)`; the page is watched from its first request. */
  async test(name, body, options = {}) {
    const started = Date.now();
    const error = await this.once(body, options);
    this.results.push({ name, error });
    console.log(`${error ? "FAIL" : "ok  "} ${name} (${Date.now() - started} ms)`);
    if (error) console.log(indent(error.stack ?? String(error)));
  }

  async once(body, { viewport = { width: 1180, height: 900 }, ...options }) {
    const context = await this.browser.newContext({
      viewport,
      acceptDownloads: true,
      locale: "en-GB",
      ...options.context,
    });
    if (!options.downloads) await context.addInitScript(catchSaved);
    const page = await context.newPage();
    page.setDefaultTimeout(30_000);
    const problems = watch(page, options.allowed ?? []);
    try {
      await body(page, this.world);
      assert.deepEqual(problems, []);
      return null;
    } catch (error) {
      return problems.length ? new Error(`${error.message}\n${problems.join("\n")}`, { cause: error }) : error;
    } finally {
      await context.close();
    }
  }

  get failed() {
    return this.results.filter((result) => result.error).length;
  }
}

function watch(page, allowed) {
  const problems = [];
  page.on("console", (message) => {
    if (message.type() === "error" && !allowed.some((text) => message.text().includes(text)))
      problems.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`page: ${error.stack}`));
  page.on("request", (request) => {
    const { protocol, hostname } = new URL(request.url());
    if (!["data:", "blob:", "file:"].includes(protocol) && hostname !== "127.0.0.1")
      problems.push(`request left this machine: ${request.url()}`);
  });
  return problems;
}

/** Opens the page in a state and waits until its view is drawn. */
export async function open(page, address, state) {
  const parts = new URLSearchParams({ view: "heads", ...state });
  await page.goto(`${address}#${parts}`);
  await settled(page, parts.get("view"));
}

export async function settled(page, view) {
  await page.waitForFunction((name) => {
    const main = document.querySelector("main");
    return main?.dataset.view === name && document.querySelector("#page").dataset.drawing === undefined;
  }, view);
}

/** The view's numbers in its JSON export. */
export async function exported(page) {
  return JSON.parse(await savedAs(page, "json")).data;
}

/** The bytes that a button saves, intercepted in the page: a real download takes a second. */
export async function savedAs(page, kind) {
  await page.evaluate(() => (window.saved = null));
  await page.click(`#save-${kind}`);
  await page.waitForFunction(() => window.saved);
  if (kind !== "png") return page.evaluate(() => window.saved.text());
  return Buffer.from(
    await page.evaluate(async () => Array.from(new Uint8Array(await window.saved.slice(0, 64).arrayBuffer()))),
  );
}

function catchSaved() {
  const make = URL.createObjectURL;
  URL.createObjectURL = (blob) => {
    window.saved = blob;
    return make.call(URL, blob);
  };
  HTMLAnchorElement.prototype.click = () => {};
}

/** The same as a real download. */
export async function downloaded(page, kind) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click(`#save-${kind}`)]);
  return { name: download.suggestedFilename(), text: await readFile(await download.path(), "utf8") };
}

/** Asserts that all numbers agree within `tolerance`; infinities must be equal. */
export function near(actual, expected, tolerance, what) {
  const [a, b] = [flat(actual), flat(expected)];
  assert.equal(a.length, b.length, `${what}: ${a.length} numbers instead of ${b.length}`);
  a.forEach((value, i) =>
    assert.ok(value === b[i] || Math.abs(value - b[i]) <= tolerance, `${what}[${i}]: ${value} instead of ${b[i]}`),
  );
}

function flat(values) {
  return [values].flat(Infinity).map((value) => (value === null ? NaN : Number(value)));
}

function indent(text) {
  return text
    .split("\n")
    .map((line) => `     ${line}`)
    .join("\n");
}
