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
      const { text, snapshots } = await exported(page);
      for (const { run } of snapshots) {
        const { sides } = await (await page.request.get(new URL(`/api/runs/${run}`, page.url()).href)).json();
        assert.equal(sides[0].text, text, "a snapshot of another sentence");
      }
      assert.match(await page.textContent("main"), /label smoothing/);
      // New snapshots leave the focus, a half-typed sentence and the chosen step alone.
      const news = async () => {
        const most = Number(await page.getAttribute("#snapshot", "max"));
        await page.waitForFunction((old) => Number(document.querySelector("#snapshot").max) > old + 2, most);
        await page.waitForTimeout(3500); // other views are drawn again every 3 seconds
      };
      await page.fill("#follow-text", "4. Juni 19");
      await news();
      assert.equal(await page.inputValue("#follow-text"), "4. Juni 19", "a half-typed sentence");
      await page.focus("#snapshot");
      await page.keyboard.press("Home");
      await news();
      assert.equal(await page.inputValue("#snapshot"), "0");
      assert.equal(await page.evaluate(() => document.activeElement.id), "snapshot");
      const box = await page.locator("#snapshot").boundingBox();
      const values = new Set();
      await page.mouse.move(box.x + 8, box.y + box.height / 2);
      await page.mouse.down();
      for (const share of [0.2, 0.4, 0.6, 0.8]) {
        await page.mouse.move(box.x + box.width * share, box.y + box.height / 2);
        await page.waitForTimeout(150); // the picture is drawn meanwhile
        values.add(await page.inputValue("#snapshot"));
      }
      await page.mouse.up();
      assert.ok(values.size >= 4, `dragging the slider gave ${[...values]}`);
      await page.click("#view-matrix");
      await settled(page, "matrix");
      const weights = () => exported(page).then((data) => JSON.stringify(data.weights));
      const stale = await weights();
      for (let i = 0; i < 60 && (await weights()) === stale; ++i) await page.waitForTimeout(250);
      assert.notEqual(await weights(), stale, "the views show the newest model without a reload");
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
