import assert from "node:assert/strict";
import { exported, open, settled } from "../harness.mjs";

/** Mouse, keyboard and the text field. */
export default async function input(harness) {
  const { ids } = harness.world;
  const state = { model: ids.transformer, text: "3. Mai 2025", target: "2025-05-03", layer: 0 };
  const announced = (page, pattern) =>
    page.waitForFunction(
      (source) => new RegExp(source).test(document.querySelector("#announcement").textContent),
      pattern,
    );
  const picture = (page, id) => page.evaluate((name) => document.querySelector(name).toDataURL(), id);

  await harness.test("input: pointing at a token isolates it", async (page, { address }) => {
    await open(page, address, { ...state, view: "heads" });
    const before = await picture(page, "#heads-picture");
    const box = await page.locator("#heads-picture").boundingBox();
    await page.mouse.move(box.x + 100, box.y + 30 + 24 * 2 + 12);
    await announced(page, "^\\. looks at|^. looks at");
    assert.notEqual(await picture(page, "#heads-picture"), before);
    await page.mouse.move(box.x + 100, box.y - 60);
    await page.waitForFunction((old) => document.querySelector("#heads-picture").toDataURL() === old, before);
  });
  await harness.test("input: attention from one sentence to the other can be shown alone", async (page, { address }) => {
    const texts = { model: ids.classifier, text: "I love this lamp.", second: "It is broken." };
    for (const [view, id] of [
      ["heads", "#heads-picture"],
      ["model", "#model-picture"],
    ])
      for (const words of ["0", "1"]) {
        const seen = new Set();
        for (const pair of ["", "aa", "ab", "ba", "bb"]) {
          await open(page, address, { ...texts, view, words, pair, threshold: 0 });
          assert.equal(await page.inputValue("#pair"), pair);
          await page.waitForFunction((name) => document.querySelector(name).dataset.drawn, id);
          seen.add(await picture(page, id));
        }
        assert.equal(seen.size, 5, `${view}: ${seen.size} different pictures`);
      }
    await open(page, address, { ...texts, second: "", view: "heads" });
    assert.equal(await page.locator("#pair").count(), 0);
  });
  await harness.test("input: the arrow keys move between tokens, sides and cells", async (page, { address }) => {
    await open(page, address, { ...state, view: "heads" });
    await page.focus("#heads-picture");
    await page.keyboard.press("ArrowDown");
    await announced(page, "^3 looks at");
    await page.keyboard.press("ArrowDown");
    await announced(page, "^\\. looks at");
    await page.keyboard.press("ArrowRight");
    await announced(page, "is looked at by");
    await open(page, address, { ...state, view: "matrix", query: 0, key: 0 });
    await page.focus("#matrix-picture");
    await page.keyboard.press("ArrowRight");
    await announced(page, "to “\\.”");
    await page.keyboard.press("+");
    await page.keyboard.press("ArrowDown");
    await announced(page, "from “\\.” to “\\.”");
    await open(page, address, { ...state, view: "model" });
    await page.focus("#model-picture");
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await settled(page, "heads");
    assert.match(page.url(), /layer=1&head=1/);
    await open(page, address, { ...state, view: "neurons" });
    await page.focus("#neurons-picture");
    await page.keyboard.press("End");
    assert.equal((await exported(page)).key, (await page.locator("#key option").count()) - 1);
  });
  await harness.test("input: a matrix is zoomed by wheel and buttons, and dragged", async (page, { address }) => {
    await open(page, address, { ...state, view: "matrix" });
    const all = await picture(page, "#matrix-picture");
    const box = await page.locator("#matrix-picture").boundingBox();
    await page.mouse.move(box.x + 200, box.y + 150);
    await page.mouse.wheel(0, -300);
    await page.waitForFunction((old) => document.querySelector("#matrix-picture").toDataURL() !== old, all);
    await page.waitForFunction(() => location.hash.includes("zoom="));
    await page.mouse.down();
    await page.mouse.move(box.x + 150, box.y + 120, { steps: 4 });
    await page.mouse.up();
    await page.click("#zoom-all");
    await page.mouse.move(5, 5);
  });
  await harness.test(
    "input: another text is drawn on Enter, an error is one line",
    async (page, { address }) => {
      await open(page, address, { ...state, view: "heads" });
      await page.fill("#text", "4. Mai 1999");
      await page.press("#text", "Enter");
      await page.waitForFunction(() => location.hash.includes("1999"));
      await settled(page, "heads");
      assert.ok((await exported(page)).rows.join("").startsWith("4. Mai 1999"));
      await page.fill("#text", "x".repeat(40_000));
      await page.press("#text", "Enter");
      await page.waitForSelector("#error:not([hidden])");
      assert.ok(!(await page.textContent("#error")).includes("\n"));
    },
    { allowed: ["400", "413", "422"] },
  );
  await harness.test("input: heads are toggled and tokens grouped into words", async (page, { address }) => {
    await open(page, address, { model: ids.language, view: "heads", text: "The old man walks to the river." });
    const tokens = (await exported(page)).rows.length;
    await page.click("#heads-0");
    await page.waitForFunction(() => document.querySelector("#heads-0").getAttribute("aria-pressed") === "false");
    assert.deepEqual((await exported(page)).heads, [1, 2, 3]);
    await page.check("#words");
    await page.waitForFunction(() => location.hash.includes("words=1"));
    await settled(page, "heads");
    await page.waitForFunction(() => document.querySelector("#words").checked);
    const { rows, weights } = await exported(page);
    assert.ok(rows.length < tokens, `${rows.length} words of ${tokens} tokens`);
    for (const row of weights[0]) assert.ok(Math.abs(row.reduce((a, b) => a + b, 0) - 1) < 1e-4);
    await open(page, address, { model: ids.language, view: "heads", text: "old 🎉 man", words: "1" });
    assert.deepEqual((await exported(page)).rows.slice(-2), ["🎉", "man"], "bytes of a word form characters");
  });
  await harness.test("input: ablating a head and a token changes the output", async (page, { address }) => {
    await open(page, address, { ...state, view: "ablate", layer: 1 });
    assert.equal((await exported(page)).ablate.heads.length, 1, "the head that matters most");
    assert.match(await page.textContent("main .note"), /matters most/);
    await page.click("#ablate-reset");
    await page.waitForFunction(() => location.hash.includes("off=none"));
    await settled(page, "ablate");
    const before = await exported(page);
    assert.deepEqual(before.before, before.after);
    await page.click("#off-0-0");
    await page.waitForFunction(() => document.querySelector("#off-0-0").getAttribute("aria-pressed") === "false");
    const off = await exported(page);
    assert.deepEqual(off.ablate.heads, [{ attention: 0, head: 0 }]);
    assert.notDeepEqual(off.after, off.before);
    await page.click("#held-0-2");
    await page.waitForFunction(() => document.querySelector("#held-0-2").getAttribute("aria-pressed") === "true");
    assert.notDeepEqual((await exported(page)).after, off.after);
  });
  await harness.test(
    "input: generation streams, each token has candidates and a place it looked at",
    async (page, { address }) => {
      await open(page, address, { ...state, view: "generation", beam: 3 });
      await page.waitForFunction(() => /\d ms/.test(document.querySelector("main [role=status]").textContent));
      const lines = await exported(page);
      assert.ok(lines.at(-1).done);
      assert.ok(await page.isDisabled("#stop"));
      assert.ok(lines.some((line) => line.nodes?.length >= 3));
      await page.click(".sentence button >> nth=0");
      assert.equal(await page.locator(".candidate").count(), 5);
      const shown = await page.$$eval(".shaded span", (list) => list.map((one) => Number(one.title)));
      assert.ok(Math.abs(shown.reduce((a, b) => a + b, 0) - 1) < 0.01);
    },
  );
  await harness.test("input: for a long text, Ablate shows the end and Heads says what to do", async (page, { address }) => {
    const long = { model: ids.long, text: "The old man walks to the river. ".repeat(60) };
    await open(page, address, { ...long, view: "ablate", off: "0.0" });
    const words = await page.$$eval("main td .word", (list) => list.map((one) => one.textContent));
    assert.equal(words.length, 800);
    assert.ok(words.every((word) => word !== "—"));
    assert.match(await page.textContent("main"), /Matrix shows longer ones/);
    await open(page, address, { ...long, view: "heads" });
    assert.equal(await page.locator("#words").count(), 0);
    const place = (selector) => page.locator(selector).evaluate((one) => one.getBoundingClientRect().top);
    assert.ok((await place("main .note:not([role])")) < (await place("#heads-picture")));
  });
  await harness.test("input: Target and Generation are decoded the same way, which is named", async (page, { address }) => {
    for (const model of [ids.transformer, ids.recurrent])
      for (const beam of ["", "1", "3"]) {
        await open(page, address, { view: "generation", model, text: "7. Mai 2024", ...(beam ? { beam } : {}) });
        await page.waitForFunction(() => /\d ms/.test(document.querySelector("main [role=status]").textContent));
        assert.equal((await exported(page)).at(-1).text, await page.inputValue("#target"));
        const method = beam === "1" ? /greedy search/ : new RegExp(`beam search, ${beam || 4}`);
        assert.match(await page.textContent("#target-method"), method);
        assert.match(await page.textContent("main [role=status]"), method);
      }
  });
  await harness.test(
    "input: touch selects as the mouse does",
    async (page, { address }) => {
      await open(page, address, { ...state, view: "heads" });
      const box = await page.locator("#heads-picture").boundingBox();
      await page.touchscreen.tap(box.x + 40, box.y + 30 + 24 * 2 + 12);
      await announced(page, "looks at");
      assert.match(page.url(), /query=2/);
      await page.waitForTimeout(100); // the finger has left: the token stays
      const pinned = await picture(page, "#heads-picture");
      await page.click("#view-matrix");
      await settled(page, "matrix");
      assert.match(page.url(), /view=matrix.*query=2/);
      await page.click("#view-heads");
      await settled(page, "heads");
      await page.waitForFunction((old) => document.querySelector("#heads-picture").toDataURL() === old, pinned);
    },
    { viewport: { width: 390, height: 844 }, context: { hasTouch: true } },
  );
  await harness.test(
    "input: a finger scrolls the page over a picture that can be zoomed, two fingers zoom it",
    async (page, { address }) => {
      const fingers = await page.context().newCDPSession(page);
      const touch = (type, ...points) => fingers.send("Input.dispatchTouchEvent", { type, touchPoints: points });
      for (const [view, id] of [
        ["matrix", "#matrix-picture"],
        ["embeddings", "#embeddings-picture"],
      ]) {
        await open(page, address, { ...state, view });
        await page.waitForFunction((name) => document.querySelector(name).dataset.drawn, id);
        const box = await page.locator(id).boundingBox();
        const [x, y] = [box.x + box.width / 2, Math.min(box.y + box.height / 2, 700)];
        await touch("touchStart", { x, y });
        for (let i = 1; i <= 10; ++i) await touch("touchMove", { x, y: y - 20 * i });
        await touch("touchEnd");
        await page.waitForFunction(() => window.scrollY > 50);
        assert.equal(await page.locator(`${id}.zoomed`).count(), 0);
        await page.evaluate(() => window.scrollTo(0, 0));
        await touch("touchStart", { x: x - 20, y, id: 0 }, { x: x + 20, y, id: 1 });
        for (let i = 1; i <= 10; ++i) await touch("touchMove", { x: x - 20 - 6 * i, y, id: 0 }, { x: x + 20 + 6 * i, y, id: 1 });
        await touch("touchEnd");
        await page.waitForSelector(`${id}.zoomed`);
      }
    },
    {
      viewport: { width: 390, height: 844 },
      context: { hasTouch: true, isMobile: true },
      allowed: ["Ignored attempt to cancel a touchmove"], // if the page is still scrolling
    },
  );
  await harness.test("input: an embedding found by search shows its neighbours", async (page, { address }) => {
    await open(page, address, { ...state, view: "embeddings" });
    await page.fill("#search", "5");
    await page.waitForSelector(".neighbours li");
    assert.equal(await page.locator(".neighbours").count(), 2);
  });
  await harness.test("input: two models compared on one sentence", async (page, { address }) => {
    await open(page, address, { ...state, view: "compare", layer: 5, model2: ids.recurrent });
    const [a, b] = await exported(page);
    assert.equal(a.rows.length, b.rows.length);
    assert.equal(await page.inputValue("#model-b"), ids.recurrent);
  });
}
