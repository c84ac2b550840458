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
  await harness.test("state: one selection for all views, in the address and after reload", async (page, { address }) => {
    await open(page, address, { view: "matrix", model: ids.language, text: "A small dog runs", layer: 1 });
    await page.selectOption("#head", "3");
    await page.waitForFunction(() => document.querySelector("#head").value === "3");
    await settled(page, "matrix");
    const { rows } = await exported(page);
    const box = await page.locator("#matrix-picture").boundingBox();
    await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await page.waitForFunction(() => /query=\d+&key=\d+/.test(location.hash));
    const [, query, key] = page.url().match(/query=(\d+)&key=(\d+)/).map(Number);
    assert.ok(query < rows.length);
    for (const view of ["neurons", "steps", "heads", "compare", "matrix"]) {
      await page.click(`#view-${view}`);
      await settled(page, view);
      assert.match(page.url(), new RegExp(`layer=1&head=3&query=${query}&key=${key}`), view);
      const data = await exported(page);
      if (view === "neurons") assert.deepEqual([data.head, data.query, data.key], [3, query, key]);
      if (view === "steps") assert.deepEqual([data.head, data.query], [3, query]);
      if (view === "heads") assert.deepEqual(data.heads, [3]);
      if (view === "compare") assert.equal(data[0].head, 3);
    }
  });
  await harness.test("state: the first sight is the last query and the sharpest head", async (page, { address }) => {
    await open(page, address, { view: "steps", model: ids.language, text: "A small dog runs" });
    const { query, head } = await exported(page);
    await page.click("#view-model");
    await settled(page, "model");
    const first = (await exported(page)).heads.filter((one) => one.attention === 0);
    assert.equal(head, first.reduce((best, one) => (one.entropy < best.entropy ? one : best)).head);
    await page.click("#view-heads");
    await settled(page, "heads");
    assert.equal(query, (await exported(page)).rows.length - 1);
    await page.click("#view-compare");
    await settled(page, "compare");
    const [a, b] = await exported(page);
    assert.notDeepEqual([a.model, a.attention, a.head], [b.model, b.attention, b.head]);
  });
  await harness.test("state: back undoes a text and a model; the focus stays", async (page, { address }) => {
    await open(page, address, { view: "heads", model: ids.transformer, text: "3. Mai 2025" });
    await page.fill("#text", "4. Mai 1999");
    await page.press("#text", "Enter");
    await page.waitForFunction(() => location.hash.includes("1999"));
    await settled(page, "heads");
    await page.selectOption("#model", ids.language);
    await page.waitForFunction((id) => location.hash.includes(`model=${id}`), ids.language);
    await settled(page, "heads");
    await page.goBack();
    await page.waitForFunction(() => document.querySelector("#text").value === "4. Mai 1999");
    await page.goBack();
    await page.waitForFunction(() => document.querySelector("#text").value === "3. Mai 2025");
    await settled(page, "heads");
    await page.focus("#view-matrix");
    await page.keyboard.press("Enter");
    await settled(page, "matrix");
    assert.equal(await page.evaluate(() => document.activeElement.id), "view-matrix");
  });
  await harness.test(
    "state: a text that is too long blocks only the views that need it",
    async (page, { address }) => {
      const text = "x".repeat(5000);
      await page.goto(`${address}#${new URLSearchParams({ view: "embeddings", model: ids.language, text })}`);
      await settled(page, "embeddings");
      assert.ok(await page.isVisible("#embeddings-picture"));
      await page.click("#view-training");
      await settled(page, "training");
      assert.ok(await page.isVisible("#loss-picture"));
    },
    { allowed: ["400"] },
  );
  await harness.test("state: Training shows the record of the chosen model", async (page, { address }) => {
    for (const [name, steps] of [
      ["transformer", 60],
      ["classifier", 40],
    ]) {
      await open(page, address, { view: "training", model: ids[name] });
      assert.equal((await exported(page)).total, steps, name);
    }
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
    const bad = "model=m99&layer=99&head=1.4&query=1e9&key=x&heads=7,a&off=9.9&theme=pink&zoom=a,b&align=9.9&beam=99&step=-7";
    await page.goto(`${address}#view=nowhere&${bad}`);
    await settled(page, "flow");
    assert.doesNotMatch(page.url(), /m99|layer=99|1e9|1000000000/);
    for (const view of ["matrix", "neurons", "steps", "alignment", "generation", "ablate"]) {
      await page.click(`#view-${view}`);
      await settled(page, view);
      assert.equal(await page.isVisible("#error"), false);
    }
  });
  await harness.test("state: values of another model in the address are ignored", async (page, { address }) => {
    for (const [name, bad] of [
      ["transformer", "second=x&ids=999999&steerAt=nowhere"],
      ["language", "second=x&ids=999999&place=99"],
      ["classifier", "wanted=river&contrast=x&place=99"],
    ])
      for (const view of ["flow", "heads", "attribute"]) {
        await page.goto("about:blank");
        await page.goto(`${address}#view=${view}&model=${ids[name]}&${bad}`);
        await settled(page, view);
        await page.waitForSelector("#tool-progress", { state: "detached" });
        assert.equal(await page.isVisible("#error"), false, `${name} ${view}: ${await page.textContent("#error")}`);
      }
  });
  await harness.test("state: the page starts with the model's example and draws at once", async (page, { address }) => {
    await page.goto(address);
    await settled(page, "flow");
    assert.ok((await page.inputValue("#text")).length > 0);
    assert.ok((await page.locator(".flow-list > li").count()) > 3);
  });
}
