import assert from "node:assert/strict";
import { downloaded, exported, open, savedAs, settled, viewsOf } from "../harness.mjs";

/** Every view opens for every kind of model, and can be saved in each format. */
export default async function views(harness) {
  const { ids } = harness.world;
  for (const [name, id] of Object.entries(ids)) {
    if (["long", "rotary", "distant", "normed"].includes(name)) continue; // as the language model
    await harness.test(`views: all open for the ${name} model`, async (page, { address }) => {
      const offered = await viewsOf(harness.browser, address, { model: id });
      assert.equal(offered.includes("alignment"), ["transformer", "recurrent", "relative", "luong"].includes(name));
      assert.equal(offered.includes("generation"), name !== "classifier" && name !== "masked");
      assert.equal(offered.includes("lens"), name !== "recurrent" && name !== "luong");
      for (const view of offered) {
        await open(page, address, { view, model: id });
        await page.waitForSelector("#tool-progress", { state: "detached" });
        assert.equal(await page.getAttribute(`#view-${view}`, "aria-current"), "page");
        assert.equal(await page.isVisible("#error"), false, `${view}: ${await page.textContent("#error")}`);
        const drawn = await page.locator("main canvas").count();
        const words = (await page.textContent("main")).length;
        assert.ok(drawn > 0 || words > 150, `${view} shows nothing`);
        if (drawn > 0) assert.ok(await isDrawn(page), `${view}: the picture is empty`);
      }
    });
  }
  await harness.test("views: each is saved as SVG, PNG and JSON", async (page, { address }) => {
    for (const view of harness.world.views.filter((one) => !["training", "chat"].includes(one))) {
      await open(page, address, { view, model: ids.transformer });
      if (view === "generation")
        await page.waitForFunction(() => /\d ms/.test(document.querySelector("main [role=status]").textContent));
      const svg = await savedAs(page, "svg");
      assert.match(svg, /^<svg xmlns/, view);
      const wrong = await page.evaluate(
        (text) => new DOMParser().parseFromString(text, "image/svg+xml").querySelector("parsererror")?.textContent,
        svg,
      );
      assert.equal(wrong, undefined, view);
      assert.ok(svg.includes("transformer"), `${view}: the SVG does not name its model`);
      assert.deepEqual([...(await savedAs(page, "png")).subarray(1, 4)], [...Buffer.from("PNG")]);
      assert.ok((await exported(page)) !== null, view);
    }
  });
  await harness.test(
    "views: saving downloads a file",
    async (page, { address }) => {
      await open(page, address, { view: "heads", model: ids.transformer, layer: 1, head: 2 });
      const { name, text } = await downloaded(page, "json");
      assert.equal(name, "attend-heads-transformer-encoder-1-self-head-2.json");
      const { model, texts, address: place, data } = JSON.parse(text);
      assert.deepEqual([model.name, texts.length, data.weights.length], ["transformer", 2, 1]);
      assert.match(place, /layer=1&head=2/);
    },
    { downloads: true },
  );
  await harness.test("views: a view that the model does not have is replaced", async (page, { address }) => {
    await page.goto(`${address}#view=alignment&model=${ids.language}`);
    await settled(page, "flow");
    assert.equal(await page.isVisible("#error"), false);
    assert.match(page.url(), /view=flow/);
  });
  await harness.test("views: the colours of exported heads have a legend", async (page, { address }) => {
    await open(page, address, { view: "heads", model: ids.transformer });
    const svg = await savedAs(page, "svg");
    for (const head of [0, 1, 2, 3]) assert.ok(svg.includes(`>Head ${head}<`), `no legend of head ${head}`);
  });
}

/** Whether the first picture has more than one colour. */
function isDrawn(page) {
  return page.waitForFunction(() => {
    const canvas = document.querySelector("main canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const pixels = new Uint32Array(data.buffer);
    return pixels.some((pixel) => pixel !== pixels[0]);
  });
}
