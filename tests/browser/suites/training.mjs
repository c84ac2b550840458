import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { exported, settled } from "../harness.mjs";
import { watchWords } from "../models.mjs";
import { addressOf } from "../server.mjs";

/** A watched training: growing curves, and attention over time. */
export default async function training(harness) {
  const { attend, work } = harness.world;
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
      await page.goto("about:blank"); // the page would log an error once the server is gone
    } finally {
      child.kill("SIGINT");
      await new Promise((done) => child.on("exit", done));
    }
  });
}
