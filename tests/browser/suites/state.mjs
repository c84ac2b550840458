import assert from "node:assert/strict";
import { exported, open, settled } from "../harness.mjs";

/** The address contains the state: links restore it, and the back button works. */
export default async function state(harness) {
  const { ids } = harness.world;
  await harness.test("state: a shared address shows the same numbers", async (page, { address }) => {
    await open(page, address, { view: "neurons", model: ids.language, text: "A small dog runs", layer: 1, head: 2 });
    await page.selectOption("#query", "3");
    await page.waitForFunction(() => location.hash.includes("query=3"));
    await page.waitForFunction(() => document.querySelector("#query").value === "3");
    await page.selectOption("#key", "1");
    const [link, shown] = [page.url(), await exported(page)];
    assert.deepEqual([shown.head, shown.query, shown.key], [2, 3, 1]);
    await page.goto("about:blank");
    await page.goto(link);
    await settled(page, "neurons");
    assert.deepEqual(await exported(page), shown);
  });
  await harness.test("state: layers and heads are counted from 0, as in the address", async (page, { address }) => {
    for (const [lang, layer, head] of [
      ["en", (i) => `Layer ${i}`, (i) => `Head ${i}`],
      ["zh", (i) => `第 ${i} 层`, (i) => `头 ${i}`],
    ]) {
      await open(page, address, { view: "matrix", model: ids.language, text: "A small dog runs", lang });
      const texts = (select) => page.$$eval(`${select} option`, (list) => list.map((one) => one.textContent));
      for (const [select, text] of [
        ["#layer", layer],
        ["#head", head],
      ]) {
        const shown = await texts(select);
        assert.ok(shown.length > 1);
        assert.deepEqual(shown, shown.map((_, i) => text(i)));
      }
    }
    await open(page, address, { view: "ablate", model: ids.language, text: "A small dog runs" });
    assert.equal(await page.textContent("#off-0-0"), "0");
  });
  await harness.test("state: back and forward between views", async (page, { address }) => {
    await open(page, address, { view: "heads", model: ids.transformer });
    await page.click("#view-matrix");
    await settled(page, "matrix");
    await page.click("#view-steps");
    await settled(page, "steps");
    await page.goBack();
    await settled(page, "matrix");
    await page.goForward();
    await settled(page, "steps");
  });
  await harness.test("state: invalid values in the address become defaults", async (page, { address }) => {
    await page.goto(`${address}#view=nowhere&layer=99&head=-4&query=1e9&key=x&heads=7,a&off=9.9&theme=pink&zoom=a,b`);
    await settled(page, "heads");
    for (const view of ["matrix", "neurons", "steps", "ablate"]) {
      await page.click(`#view-${view}`);
      await settled(page, view);
      assert.equal(await page.isVisible("#error"), false);
    }
  });
  await harness.test("state: the page starts with the model's example and draws at once", async (page, { address }) => {
    await page.goto(address);
    await settled(page, "heads");
    assert.ok((await page.inputValue("#text")).length > 0);
    assert.ok((await exported(page)).weights[0].length > 1);
  });
}
