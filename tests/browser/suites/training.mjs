import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { exported, settled } from "../harness.mjs";
import { watchWords } from "../models.mjs";
import { addressOf, serve, view } from "../server.mjs";

/** A watched training: growing curves, and attention over time. */
export default async function training(harness) {
  const { attend, work, models } = harness.world;
  for (const start of [serve, view])
    await harness.test(`training: ${start.name} NAME=FOLDER shows the folder's training`, async (page) => {
      const server = await start(attend, [`dates=${models.transformer}`]);
      try {
        await page.goto(`${server.address}#view=training`);
        await settled(page, "training");
        assert.ok((await exported(page)).steps.length > 0);
      } finally {
        await server.stop();
      }
    });
  await harness.test("training: the page follows a training as it runs", async (page) => {
    const words = watchWords(join(work, "dates.tsv"), join(work, "watched"), { steps: 100000 });
    const child = spawn(attend, words, { stdio: ["ignore", "pipe", "pipe"] });
    try {
      await page.goto(`${await addressOf(child)}#view=training`);
      await settled(page, "training");
      await page.waitForSelector("#loss-picture");
      await page.waitForFunction(() => document.querySelector("#snapshot-picture"));
      const first = (await exported(page)).steps.length;
      const status = await page.textContent("#training-status");
      await page.waitForFunction((old) => document.querySelector("#training-status").textContent !== old, status);
      const now = await exported(page);
      assert.ok(now.running && now.steps.length > first, `${now.steps.length} steps after ${first}`);
      assert.ok(now.snapshots.length >= 1);
      await page.focus("#snapshot");
      await page.keyboard.press("Home");
      await page.waitForFunction(() => document.querySelector("#snapshot").value === "0");
      await page.fill("#follow-text", "4. Juni 1999");
      await page.click("#follow");
      await page.waitForFunction(() =>
        /4\. Juni 1999/.test(document.querySelector("#snapshot-picture")?.closest("section").textContent ?? ""),
      );
      assert.equal(await page.inputValue("#follow-text"), "4. Juni 1999", "the sentence stays");
      assert.equal((await exported(page)).text, "4. Juni 1999");
      assert.match(await page.textContent("main"), /label smoothing/);
      await page.click("#view-generation");
      await settled(page, "generation");
      child.kill("SIGINT");
      await new Promise((done) => child.on("exit", done));
      await page.fill("#text", "5. Mai 2001");
      await page.press("#text", "Enter");
      await page.waitForFunction(() => /does not respond/.test(document.querySelector("#error").textContent));
    } finally {
      if (child.exitCode === null) child.kill("SIGINT");
    }
  }, { allowed: ["ERR_", "Failed to load"] });
}
