import assert from "node:assert/strict";
import { open, settled } from "../harness.mjs";

/** English and Chinese, chosen by the switch or by the browser; light and dark themes. */
export default async function languages(harness) {
  const { ids } = harness.world;
  await harness.test(
    "languages: a Chinese browser gets Chinese in every view",
    async (page, { address }) => {
      for (const view of harness.world.views) {
        await open(page, address, { view, model: ids.transformer });
        assert.equal(await page.getAttribute("html", "lang"), "zh-Hans");
        assert.match(await page.textContent("#view-title"), /[\u4e00-\u9fff]/);
        const english = (await page.textContent("main")).match(/\b(undefined|NaN|Layer|Head|Weight|Query|The|and)\b/g);
        assert.equal(english, null, `${view}: ${english}`);
      }
    },
    { context: { locale: "zh-CN" } },
  );
  await harness.test("languages: the switch changes the language and keeps the view", async (page, { address }) => {
    await open(page, address, { view: "steps", model: ids.language });
    assert.equal(await page.textContent("#view-title"), "Steps");
    await page.click("#language");
    await page.waitForFunction(() => document.querySelector("#view-title").textContent === "逐步计算");
    assert.match(page.url(), /lang=zh/);
    await page.click("#language");
    await page.waitForFunction(() => document.querySelector("#view-title").textContent === "Steps");
  });
  await harness.test("languages: Chinese tokens are whole characters, marked as Chinese", async (page, { address }) => {
    await open(page, address, { view: "ablate", model: ids.transformer, text: "2025年5月3日", target: "2025-05-03" });
    const shown = await page.$$eval("#held-0-4", (list) => list.map((one) => [one.textContent, one.lang]));
    assert.deepEqual(shown, [["年", "zh-Hans"]]);
  });
  await harness.test(
    "languages: dark by switch and by the system",
    async (page, { address }) => {
      await open(page, address, { view: "heads", model: ids.transformer });
      assert.equal(await page.getAttribute("html", "data-theme"), "dark");
      await page.selectOption("#theme", "light");
      await page.waitForFunction(() => document.documentElement.dataset.theme === "light");
      await settled(page, "heads");
      assert.match(page.url(), /theme=light/);
    },
    { context: { colorScheme: "dark" } },
  );
}
