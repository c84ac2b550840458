import assert from "node:assert/strict";
import { exported, open, savedAs, settled } from "../harness.mjs";
import { findProblems } from "./accessibility.mjs";

const kTools = ["lens", "attribute", "patch", "probe", "steer"];
const kText = "The old man walks to the river";
const kOther = "The man walks to the old river"; // as many tokens

/** Flow, and the views of interpretability. */
export default async function tools(harness) {
  const { ids } = harness.world;
  await harness.test("tools: Flow shows the way of the sentence, and opens its parts", async (page, { address }) => {
    await open(page, address, { view: "flow", model: ids.language, text: kText });
    assert.ok((await page.locator(".flow-list > li").count()) >= 5);
    await page.hover("#flow-tokens");
    assert.match(await page.textContent("#flow-explain"), /cut into tokens/);
    await page.click("#flow-open-layer-stack-1");
    await settled(page, "steps");
    await page.goBack();
    await settled(page, "flow");
  });
  await harness.test("tools: temperature, top-k and top-p move the probabilities at once", async (page, { address }) => {
    await open(page, address, { view: "flow", model: ids.language, text: kText });
    const first = () => page.textContent("#flow-probabilities .candidate .number >> nth=0");
    const before = await first();
    const { output } = await exported(page);
    assert.ok(Math.abs(output.probabilities.reduce((sum, one) => sum + one.p, 0)) <= 1 + 1e-6);
    await page.fill("#heat", "0");
    assert.equal(await first(), "100 %");
    await page.fill("#heat", "1");
    assert.equal(await first(), before);
    await page.fill("#top-k", "1");
    assert.equal(await first(), "100 %");
    assert.match(await page.textContent("#flow-probabilities .note"), /^1 of /);
    await page.fill("#top-k", "0");
    await page.fill("#top-p", "0.05");
    assert.match(await page.textContent("#flow-probabilities .note"), /^\d+ of /);
  });
  await harness.test("tools: the last row of the lens is the model’s output", async (page, { address }) => {
    for (const name of ["language", "transformer", "classifier"]) {
      await open(page, address, { view: "lens", model: ids[name] });
      await page.waitForSelector("#lens-picture");
      const lens = await exported(page);
      assert.equal(lens.places[0].cells.length, lens.points.length);
      await open(page, address, { view: "flow", model: ids[name] });
      const last = lens.places[lens.places[0].index < 0 ? 0 : lens.places.length - 1].cells.at(-1).top[0];
      const { output } = await exported(page);
      const best = output.probabilities ? output.probabilities[0].p : output.items[0].p;
      assert.ok(Math.abs(best - last.p) < 1e-5, `${name}: ${best} ${last.p}`);
    }
  });
  await harness.test("tools: a cell of the lens is selected by mouse and keyboard", async (page, { address }) => {
    await open(page, address, { view: "lens", model: ids.language, text: kText });
    await page.waitForSelector("#lens-picture");
    const before = await page.textContent("#lens-details h3");
    await page.focus("#lens-picture");
    await page.keyboard.press("ArrowUp");
    assert.notEqual(await page.textContent("#lens-details h3"), before);
    assert.match(page.url(), /row=2/);
    await page.selectOption("#lens-show", "rank");
    await page.waitForSelector("#lens-picture");
  });
  await harness.test("tools: parts add up to the logit, integrated gradients are complete", async (page, { address }) => {
    for (const name of ["language", "transformer", "classifier"]) {
      await open(page, address, { view: "attribute", model: ids[name] });
      await page.waitForSelector("#attribute-goal");
      const found = await exported(page);
      const sum = found.parts.reduce((total, part) => total + part.value, 0);
      assert.ok(Math.abs(sum - found.value) < 1e-4, `${name}: ${sum} ${found.value}`);
      assert.ok(found.error <= 0.01, `${name}: ${found.error}`);
    }
  });
  await harness.test("tools: a sweep of patches starts, stops and ends", async (page, { address }) => {
    await open(page, address, { view: "patch", model: ids.language, text: kText, other: kOther, wanted: ".", contrast: " river" });
    await page.click("#tool-start");
    await page.waitForSelector("#patch-goal");
    const found = await exported(page);
    assert.ok(found.maps.length >= 4);
    const [residual] = found.maps;
    assert.equal(residual.shares[0].length, found.sides[0].tokens.length);
    assert.match(page.url(), /other=/);
    await open(page, address, { view: "patch", model: ids.language, text: kText, other: "short" });
    await page.click("#tool-start");
    await page.waitForSelector("#error:not([hidden])");
    assert.match(await page.textContent("#error"), /same number of tokens/);
  });
  await harness.test("tools: a long sweep of patches shows its maps while it works", async (page, { address }) => {
    const text = "The old man walks to the river. ".repeat(28);
    // Texts that differ in every letter: patches of equal parts take no time, and the sweep should not end before it is seen.
    const other = text.replace(/[a-z]/g, (letter) => (letter === "e" ? "a" : "e"));
    await open(page, address, { view: "patch", model: ids.long, text, other, wanted: "e", contrast: "a" });
    await page.click("#tool-start");
    await page.waitForSelector("#patch-so-far canvas, #patch-maps canvas");
    if ((await page.locator("#patch-maps").count()) > 0) return; // a fast machine ends before the first maps are sent
    await page.click("#patch-so-far .behind summary");
    await page.waitForSelector("#patch-so-far .behind table");
    await page.click("#tool-stop");
    await page.waitForSelector("#tool-start");
    assert.equal(await page.isVisible("#error"), false);
    assert.ok((await page.locator("#patch-so-far canvas").count()) > 0, "what was computed stays");
  });
  await harness.test("tools: the circuits of a head are words", async (page, { address }) => {
    await open(page, address, { view: "probe", model: ids.language, text: kText, layer: 1, head: 2 });
    await page.waitForSelector("#ov-table tbody tr");
    const found = await exported(page);
    assert.equal(found.module, "stack.layers.1.attention");
    assert.equal(found.head, 2);
    assert.equal(await page.locator("#qk-table tbody tr").count(), found.tokens.length);
  });
  await harness.test("tools: steering is part of the address and changes every view", async (page, { address }) => {
    await open(page, address, { view: "steer", model: ids.language, text: kText });
    await page.fill("#steer", "river");
    await page.press("#steer", "Enter");
    await page.waitForSelector("#output-table");
    assert.match(page.url(), /steer=river/);
    const found = await exported(page);
    assert.equal(found.interventions.steer[0].toward, "river");
    assert.notDeepEqual(found.before, found.after);
    await page.reload();
    await settled(page, "steer");
    assert.deepEqual((await exported(page)).after, found.after);
  });
  const wrongPoint = { allowed: ["400"] }; // the page asks once with the point of the address
  await harness.test("tools: an address that steers at no point, or at a wrong one, is mended", async (page, { address }) => {
    const asked = { view: "steer", model: ids.language, text: kText, steer: "river" };
    const after = [];
    for (const steerAt of [{}, { steerAt: "nowhere" }]) {
      await page.goto("about:blank");
      await open(page, address, { ...asked, ...steerAt });
      await page.waitForSelector("#output-table");
      assert.match(page.url(), /steerAt=(?!nowhere)/);
      const found = await exported(page);
      assert.notDeepEqual(found.before, found.after);
      after.push(found.after);
    }
    assert.deepEqual(after[0], after[1]);
  }, wrongPoint);
  await harness.test("tools: the Model view names the kinds of heads", async (page, { address }) => {
    await open(page, address, { view: "model", model: ids.language, text: "a b c a b c a b c" });
    await page.click("main .behind summary >> nth=0");
    await page.waitForSelector("main .behind table");
    assert.match(await page.textContent("main .behind table thead"), /Kind/);
  });
  await harness.test("tools: the Heads view has a badge for each kind of a head, with its scores", async (page, { address }) => {
    const names = { previous: "previous token", duplicate: "duplicate token", first: "first token" };
    let badges = 0;
    for (const name of ["transformer", "language", "classifier"]) {
      const { models } = await (await page.request.get(`${address}api/info`)).json();
      const { example } = models.find((model) => model.id === ids[name]);
      const data = { model: ids[name], text: example.text, ...(example.target ? { target: example.target } : {}) };
      const lines = (await (await page.request.post(`${address}api/tools/detect`, { data })).text()).trim().split("\n");
      const { heads } = JSON.parse(lines.at(-1)).result;
      for (const layer of [...new Set(heads.map((head) => head.attention))]) {
        await open(page, address, { view: "heads", model: ids[name], layer });
        await page.waitForSelector("#head-kinds li, #head-kinds-hint:not(:empty)");
        const found = heads.filter((head) => head.attention === layer && head.kinds.length > 0);
        const shown = await page.$$eval("#head-kinds li", (list) => list.map((item) => item.textContent));
        assert.deepEqual(
          shown,
          found.map((head) => `Head ${head.head}${head.kinds.map((kind) => names[kind] ?? kind).join("")}`),
        );
        for (const head of found) {
          assert.match(await page.getAttribute(`#heads-${head.head}`, "aria-label"), /^Head \d+: [a-z]/);
          const badge = page.locator("#head-kinds li", { hasText: `Head ${head.head}` }).locator("button").first();
          const scores = [head.text[head.kinds[0]], head.probe[head.kinds[0]]].filter((score) => score !== null);
          for (const score of scores) assert.ok((await badge.getAttribute("title")).includes(score.toFixed(2)));
          await badge.click();
          assert.ok((await page.textContent("#head-kinds-hint")).includes(await badge.getAttribute("title")));
          ++badges;
        }
      }
    }
    assert.ok(badges > 0, "no model has a head of a known kind");
  });
  await harness.test("tools: Heads, Generation and Flow show the scale of their colours", async (page, { address }) => {
    await open(page, address, { view: "heads", model: ids.transformer });
    const drawn = (await savedAs(page, "svg")).match(/<text[^>]*>[^<]*/g).map((text) => text.replace(/<[^>]*>/, ""));
    for (const text of ["Weight", "0.05", "0.25", "0.5", "1"]) assert.ok(drawn.includes(text), text);
    await open(page, address, { view: "generation", model: ids.transformer });
    await page.waitForSelector(".looked .scale canvas");
    assert.equal(await page.getAttribute(".looked .scale canvas", "aria-label"), "Weight");
    assert.match(await page.textContent(".legend"), /the generated text/);
    const shades = await page.$eval(".looked .scale canvas", (canvas) => {
      const dots = window.devicePixelRatio;
      const at = (x) => canvas.getContext("2d").getImageData(x * dots, 4 * dots, 1, 1).data[0];
      return [8, 60, 120, 180].map(at);
    });
    assert.deepEqual(shades, [...shades].sort((a, b) => b - a), "darker to the right");
    assert.ok(shades[0] > 200 && shades[3] < 40, String(shades));
    await open(page, address, { view: "flow", model: ids.transformer });
    assert.equal(await page.locator(".scales canvas[aria-label]").count(), 2);
  });
  await harness.test("tools: the texts fit the kind of model", async (page, { address }) => {
    await open(page, address, { view: "flow", model: ids.classifier });
    assert.match(await page.textContent("main .lead"), /scores of the labels/);
    assert.equal(await page.locator("#flow-open-output").count(), 0, "a classifier has no Generation");
    await open(page, address, { view: "lens", model: ids.classifier });
    await page.waitForSelector("#lens-picture");
    assert.match(await page.textContent("#lens-details h3"), /whole input/);
    assert.doesNotMatch(await page.textContent("main"), /\bwords?\b/);
    await open(page, address, { view: "patch", model: ids.language });
    assert.equal(await page.getAttribute("#wanted", "placeholder"), "what the other one predicts");
    assert.equal(await page.getAttribute("#contrast", "placeholder"), "what this one predicts");
    await open(page, address, { view: "alignment", model: ids.transformer, unit: "tokens" });
    assert.equal((await exported(page)).target.at(-1), "(end)");
  });
  await harness.test("tools: a model of masked words predicts the word at its mask", async (page, { address }) => {
    const state = { model: ids.masked, text: "The old <mask> walks to the river." };
    await open(page, address, { ...state, view: "flow" });
    assert.match(await page.textContent("main .lead"), /the word at the selected place/);
    assert.equal(await page.locator("#flow-open-output").count(), 0, "no Generation");
    assert.equal(await page.textContent(".token[aria-pressed=true]"), "<mask>4");
    const { place, output } = await exported(page);
    await open(page, address, { ...state, view: "lens" });
    await page.waitForSelector("#lens-picture");
    const lens = await exported(page);
    assert.ok(Math.abs(lens.places[place].cells.at(-1).top[0].p - output.probabilities[0].p) < 1e-5);
    assert.equal(lens.places[place].isTrue, false, "a mask is not the correct word");
    assert.equal(lens.places[place - 1].isTrue, true);
    await open(page, address, { ...state, view: "attribute" });
    await page.waitForSelector("#attribute-goal");
    assert.equal((await exported(page)).goal.output, place);
    assert.equal(await page.inputValue("#place"), String(place));
    await open(page, address, { ...state, view: "ablate" });
    assert.match(await page.textContent("main table thead"), /At token/);
    assert.match(await page.textContent("main .note"), /matters most/);
  });
  await harness.test("tools: Flow tells how this model works", async (page, { address }) => {
    const told = async (model, part) => {
      await open(page, address, { model: ids[model], view: "flow" });
      await page.hover(part);
      return page.textContent("#flow-explain");
    };
    for (const [model, text] of [
      ["language", /learned vector for its position is added/],
      ["rotary", /rotate queries and keys/],
      ["distant", /lower the scores of distant tokens/],
    ])
      assert.match(await told(model, "#flow-vectors-stack"), text);
    assert.match(await told("relative", "#flow-vectors-encoder"), /a learned number for each distance/);
    assert.match(await told("recurrent", "#flow-layer-rnn-0"), /compares its state with the encoder’s states/);
    assert.doesNotMatch(await page.textContent("main"), /feed-forward/);
    assert.match(await told("luong", "#flow-states"), /recurrent network reads the source/);
  });
  await harness.test("tools: Steer offers only points that change the run", async (page, { address }) => {
    for (const name of ["recurrent", "luong", "language", "transformer", "classifier"]) {
      const { models } = await (await page.request.get(`${address}api/info`)).json();
      const { example } = models.find((model) => model.id === ids[name]);
      const state = { model: ids[name], view: "steer", text: example.text, steer: example.text.slice(0, 4), strength: 9 };
      await open(page, address, state);
      const points = await page.$$eval("#steer-at option", (list) => list.map((one) => one.value));
      assert.ok(points.length >= 2, name);
      for (const steerAt of points) {
        await open(page, address, { ...state, steerAt });
        const { before, after } = await exported(page);
        assert.notDeepEqual(before, after, `${name} at ${steerAt}`);
      }
    }
  });
  await harness.test("tools: both rows of an attribution have the colours of one scale", async (page, { address }) => {
    await open(page, address, { view: "attribute", model: ids.transformer });
    await page.waitForSelector("#attribute-goal");
    const { integrated, gradient } = await exported(page);
    const most = Math.max(...[...integrated[0], ...gradient[0]].map(Math.abs));
    const short = most >= 0.995 ? most.toFixed(0) : String(+most.toPrecision(2));
    assert.ok((await savedAs(page, "svg")).includes(`>${short}<`), short);
  });
  await harness.test("tools: every control has a name, in both languages, on a phone", async (page, { address }) => {
    for (const view of ["flow", ...kTools]) {
      for (const lang of ["en", "zh"]) {
        await open(page, address, { view, model: ids.language, text: kText, other: kOther, lang });
        if (["lens", "attribute", "probe"].includes(view)) await page.waitForSelector("#tool-progress", { state: "detached" });
        assert.deepEqual(await page.evaluate(findProblems), [], `${view} ${lang}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        assert.ok(wide <= 1, `${view} ${lang} is ${wide} pixels too wide`);
        const high = await page.$eval("header", (header) => header.offsetHeight);
        assert.ok(high < 64, `${view} ${lang}: the header has ${high} pixels`);
      }
    }
  }, { viewport: { width: 390, height: 844 } });
}
