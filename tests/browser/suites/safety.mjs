import assert from "node:assert/strict";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { open, savedAs, settled, viewsOf } from "../harness.mjs";
import { inspect } from "../server.mjs";

const kHostile = `<script>window.hurt=1</script><img src=x onerror="hurt=1"> "'&amp; </textarea>`;

/** Tokens such as <script> are text everywhere. */
export default async function safety(harness) {
  const { attend, work, models, ids } = harness.world;
  await harness.test("safety: markup in a text is text in every view and export", async (page, { address }) => {
    for (const view of await viewsOf(harness.browser, address, { model: ids.language })) {
      await open(page, address, { view, model: ids.language, text: kHostile });
      assert.equal(await page.evaluate(() => window.hurt), undefined, view);
      assert.equal(await page.locator("main script, main img").count(), 0, view);
      assert.equal(await page.inputValue("#text"), kHostile);
    }
    await open(page, address, { view: "heads", model: ids.language, text: kHostile });
    const svg = await savedAs(page, "svg");
    const inside = await page.evaluate(
      (text) =>
        new DOMParser().parseFromString(text, "image/svg+xml").querySelectorAll("script, img, parsererror").length,
      svg,
    );
    assert.equal(inside, 0);
  });
  await harness.test("safety: markup in a text is text in an offline file", async (page) => {
    const file = await inspect(attend, models.language, kHostile, join(work, "hostile.html"));
    await page.goto(`${pathToFileURL(file).href}#view=heads`);
    await settled(page, "heads");
    assert.equal(await page.evaluate(() => window.hurt), undefined);
    assert.equal(await page.inputValue("#text"), kHostile);
  });
  await harness.test("safety: the page's policy forbids foreign sources", async (page, { address }) => {
    const response = await page.goto(address);
    const policy = response.headers()["content-security-policy"] ?? "";
    assert.match(policy, /default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+';/);
    assert.doesNotMatch(policy, /unsafe/);
  });
  await harness.test(
    "safety: a script that was added to the page does not run",
    async (page, { address }) => {
      await open(page, address, { view: "heads" });
      await page.evaluate(() => {
        const script = document.createElement("script");
        script.textContent = "window.hurt = 1";
        document.body.append(script);
      });
      assert.equal(await page.evaluate(() => window.hurt), undefined);
    },
    { allowed: ["Content Security Policy"] },
  );
}
