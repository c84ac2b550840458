import assert from "node:assert/strict";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { exported, near, settled } from "../harness.mjs";
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
    for (const view of harness.world.views) {
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
    await tab.goto(`${page}#view=ablate`);
    await settled(tab, "ablate");
    assert.match(await tab.textContent("main"), /attend view MODEL/);
    assert.equal(await tab.locator("#run").count(), 0);
  });
}
