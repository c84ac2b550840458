import assert from "node:assert/strict";
import { open, viewsOf } from "../harness.mjs";

/** Labels, tables, focus order, contrast, and the width of a phone. */
export default async function accessibility(harness) {
  const { ids } = harness.world;
  await harness.test(
    "accessibility: every control has a name, every picture a name and a table",
    async (page, { address }) => {
      for (const view of harness.world.views) {
        await open(page, address, { view, model: ids.transformer });
        const problems = await page.evaluate(findProblems);
        assert.deepEqual(problems, [], view);
      }
    },
  );
  await harness.test("accessibility: the tables open and have headed rows", async (page, { address }) => {
    for (const view of harness.world.views.filter((one) => !["training", "chat"].includes(one))) {
      await open(page, address, { view, model: ids.transformer });
      await page.click("main .behind summary >> nth=0");
      await page.waitForSelector("main .behind table");
      assert.ok((await page.locator("main .behind table thead th[scope=col]").count()) >= 2, view);
      assert.ok((await page.locator("main .behind table tbody th[scope=row]").count()) >= 1, view);
    }
  });
  await harness.test("accessibility: Tab reaches every control in visual order", async (page, { address }) => {
    await open(page, address, { view: "heads", model: ids.transformer });
    const seen = [];
    for (let i = 0; i < 50; ++i) {
      await page.keyboard.press("Tab");
      seen.push(
        await page.evaluate(
          () => document.activeElement.id || document.activeElement.className || document.activeElement.tagName,
        ),
      );
    }
    const wanted = [
      "skip",
      "model",
      "theme",
      "language",
      "text",
      "target",
      "run",
      "view-heads",
      "view-ablate",
      "layer",
      "heads-0",
      "heads-all",
      "threshold",
      "heads-picture",
      "save-svg",
    ];
    const places = wanted.map((id) => seen.indexOf(id));
    assert.ok(
      places.every((place) => place >= 0),
      `not reached: ${wanted.filter((_, i) => places[i] < 0)}; reached ${seen}`,
    );
    assert.deepEqual(
      places,
      [...places].sort((a, b) => a - b),
    );
  });
  await harness.test("accessibility: the skip link leads to the view", async (page, { address }) => {
    await open(page, address, { view: "heads", model: ids.transformer });
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  });
  for (const theme of ["light", "dark"])
    await harness.test(`accessibility: text has enough contrast (${theme})`, async (page, { address }) => {
      for (const view of harness.world.views) {
        await open(page, address, { view, model: ids.transformer, theme, ...(view === "heads" ? { heads: "0,2" } : {}) });
        assert.deepEqual(await page.evaluate(poorContrast), [], view);
      }
    });
  await harness.test(
    "accessibility: a phone shows the picture first, and that there are more views",
    async (page, { address }) => {
      for (const view of ["heads", "matrix", "model", "alignment"]) {
        await open(page, address, { view, model: ids.transformer });
        const top = await page.locator("main canvas").first().evaluate((one) => one.getBoundingClientRect().top);
        assert.ok(top < 500, `${view}: the picture begins at ${top} pixels`);
      }
      assert.ok(await page.locator("nav.more").count(), "no sign of more views");
      await page.click("#inputs-summary");
      assert.ok(await page.isVisible("#text"));
    },
    { viewport: { width: 390, height: 844 } },
  );
  await harness.test("accessibility: 400 tokens fit the window", async (page, { address }) => {
    const text = "The old man walks to the river. ".repeat(14).slice(0, 400);
    for (const view of ["compare", "ablate"]) {
      await open(page, address, { view, model: ids.long, text, off: "none" });
      const sizes = await page.$$eval("main .scroller", (list) =>
        list.map((one) => [one.scrollWidth - one.clientWidth, one.clientHeight]),
      );
      for (const [wide, high] of sizes) assert.ok(wide <= 1 && high < 900, `${view}: ${wide} too wide, ${high} high`);
    }
    const pair = { text: "3. Mai 2025 ".repeat(34).slice(0, 400), target: "2025-05-03 ".repeat(37).slice(0, 400) };
    await open(page, address, { view: "alignment", model: ids.relative, unit: "tokens", ...pair });
    const [wide, high] = await page.$eval("main .scroller", (one) => [one.scrollWidth - one.clientWidth, one.clientHeight]);
    assert.ok(wide <= 1 && high < 800, `alignment: ${wide} too wide, ${high} high`);
  });
  await harness.test(
    "accessibility: no view is wider than a phone",
    async (page, { address }) => {
      for (const model of [ids.transformer, ids.language])
        for (const view of await viewsOf(harness.browser, address, { model })) {
          await open(page, address, { view, model });
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
          assert.ok(wide <= 0, `${view} is ${wide} px too wide`);
        }
    },
    { viewport: { width: 360, height: 700 } },
  );
}

export function findProblems() {
  const problems = [];
  const name = (element) =>
    element.getAttribute("aria-label") ||
    element.labels?.[0]?.textContent.trim() ||
    element.textContent.trim() ||
    element.title;
  for (const control of document.querySelectorAll("button, select, input, textarea, a, summary, canvas"))
    if (!name(control)) problems.push(`no name: ${control.outerHTML.slice(0, 80)}`);
  for (const figure of document.querySelectorAll("figure"))
    if (!figure.querySelector("details.behind")) problems.push(`no table: ${figure.querySelector("canvas").id}`);
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((one, i) => ids.indexOf(one) !== i))) problems.push(`id twice: ${id}`);
  const levels = [...document.querySelectorAll("h1, h2, h3")].map((heading) => Number(heading.tagName[1]));
  levels.forEach(
    (level, i) => i > 0 && level > levels[i - 1] + 1 && problems.push(`heading level ${level} after ${levels[i - 1]}`),
  );
  for (const landmark of ["main", "nav", "header"])
    if (document.querySelectorAll(landmark).length !== 1) problems.push(`not one ${landmark}`);
  if (!document.documentElement.lang) problems.push("no language");
  if (!document.title) problems.push("no title");
  return problems;
}

/** Texts below WCAG's contrast of 4.5. */
export function poorContrast() {
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const brightness = (colour) => {
    const [r, g, b] = channels(colour)
      .slice(0, 3)
      .map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((channels(colour)[3] ?? 1) > 0.9) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const poor = [];
  for (const element of document.querySelectorAll(
    "h1, h2, h3, p, a, button, span, label, summary, option, textarea, select",
  )) {
    if (
      !element.textContent.trim() ||
      element.closest(".unseen, .skip") ||
      !element.getClientRects().length ||
      element.matches(":disabled")
    )
      continue;
    const [a, b] = [brightness(getComputedStyle(element).color), brightness(ground(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) poor.push(`${contrast.toFixed(2)}: ${element.outerHTML.slice(0, 70)}`);
  }
  return poor;
}
