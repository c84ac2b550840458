import assert from "node:assert/strict";
import { downloaded, exported, open, savedAs } from "../harness.mjs";

/** Every view opens for every kind of model, and can be saved in each format. */
export default async function views(harness) {
  const { ids } = harness.world;
  for (const [name, id] of Object.entries(ids)) {
    if (name === "long") continue;
    await harness.test(`views: all open for the ${name} model`, async (page, { address }) => {
      for (const view of harness.world.views) {
        await open(page, address, { view, model: id });
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
    for (const view of harness.world.views.filter((one) => one !== "training")) {
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
      assert.ok(svg.includes("<text"), `${view}: the SVG has no text`);
      assert.deepEqual([...(await savedAs(page, "png")).subarray(1, 4)], [...Buffer.from("PNG")]);
      assert.ok((await exported(page)) !== null, view);
    }
  });
  await harness.test(
    "views: saving downloads a file",
    async (page, { address }) => {
      await open(page, address, { view: "heads", model: ids.transformer });
      const { name, text } = await downloaded(page, "json");
      assert.equal(name, "attend-heads.json");
      assert.ok(JSON.parse(text).weights.length > 0);
    },
    { downloads: true },
  );
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
