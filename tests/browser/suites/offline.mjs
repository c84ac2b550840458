import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { exported, near, offeredOn, settled } from "../harness.mjs";
import { inspect } from "../server.mjs";

/** The file that `attend inspect -o page.html` writes works from disk, without a server. */
export default async function offline(harness) {
  const { attend, work, models } = harness.world;
  const more = ["--target", "2025-05-03"];
  const page = pathToFileURL(
    await inspect(attend, models.transformer, "3. Mai 2025", join(work, "page.html"), more),
  ).href;
  const file = await inspect(attend, models.transformer, "3. Mai 2025", join(work, "page.json"), more);
  await harness.test("offline: every view opens from a file", async (tab) => {
    await tab.goto(page);
    await settled(tab, "flow");
    const offered = await offeredOn(tab);
    assert.ok(offered.includes("steps") && offered.includes("generation") && !offered.includes("ablate"), offered.join());
    for (const view of offered) {
      await tab.goto(`${page}#view=${view}`);
      await settled(tab, view);
      assert.ok((await tab.textContent("main")).length > 60, view);
    }
  });
  await harness.test("offline: the numbers match the JSON", async (tab) => {
    await tab.goto(`${page}#view=matrix&layer=5&head=3`);
    await settled(tab, "matrix");
    near((await exported(tab)).weights, file.arrays["weights/5/3"].values, 1e-6, "weights");
    await tab.goto(`${page}#view=steps&layer=5&head=3&query=4`);
    await settled(tab, "steps");
    near((await exported(tab)).weights, file.arrays["weights/5/3"].values[4], 1e-6, "weights of Steps");
  });
  await harness.test("offline: a missing feature is explained in a sentence", async (tab) => {
    await tab.goto(`${page}#view=embeddings&token=20`);
    await settled(tab, "embeddings");
    await tab.waitForFunction(() => /attend view MODEL/.test(document.querySelector("#neighbours").textContent));
    assert.equal(await tab.locator("#run").count(), 0);
  });
  await harness.test("offline: the page works in a frame without an address, as in a notebook", async (tab) => {
    const html = readFileSync(new URL(page), "utf8");
    await tab.setContent("<iframe width=1000 height=800></iframe>");
    await tab.evaluate((text) => (document.querySelector("iframe").srcdoc = text), html);
    const frame = await (await tab.waitForSelector("iframe")).contentFrame();
    await frame.click("#view-heads");
    await frame.waitForSelector("#heads-picture");
    await frame.click("#view-matrix");
    await frame.waitForSelector("#matrix-picture");
    await frame.selectOption("#head", "2");
    await frame.waitForFunction(() => document.querySelector("#head").value === "2");
    assert.equal(await frame.isVisible("#error"), false);
  });
}
