import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { exported, near, open, settled, viewsOf } from "../harness.mjs";
import { sharedModel } from "../models.mjs";
import { scene } from "../picture.mjs";
import { times, weightsOf } from "../safetensors.mjs";
import { inspect, view } from "../server.mjs";
import { check } from "./steps.mjs";

/** An image model: pictures from the command, the file dialog and by drop; patches as tokens; attention as shading. */
export default async function pictures(harness) {
  const { attend, work } = harness.world;
  const model = sharedModel("vit");
  if (!model) return console.log("pictures: skipped, there is no folder goldens/models/vit in ../shared");
  const picture = join(work, "scene.png");
  writeFileSync(picture, scene());
  const label = execFileSync(attend, ["classify", model, picture], { encoding: "utf8" }).trim().split("\t")[1];
  const file = await inspect(attend, model, picture, join(work, "vit.json"));
  const given = await view(attend, [model], ["--picture", picture]);
  const bare = await view(attend, [model]);
  try {
    await withPicture(harness, given.address, file, label);
    await withoutPicture(harness, bare.address, picture, label);
  } finally {
    await given.stop();
    await bare.stop();
  }
  const page = pathToFileURL(await inspect(attend, model, picture, join(work, "vit.html"))).href;
  await harness.test("pictures: every view opens from a file", async (tab) => {
    for (const name of await viewsOf(harness.browser, page)) {
      await tab.goto(`${page}#view=${name}&lang=en`);
      await settled(tab, name);
      assert.equal(await tab.isVisible("#error"), false, `${name}: ${await tab.textContent("#error")}`);
    }
    await tab.goto(`${page}#view=heads&layer=1&query=6`);
    await settled(tab, "heads");
    near((await exported(tab)).weights[2], file.arrays["weights/1/2"].values, 1e-6, "weights");
    assert.equal(await tab.textContent("#picture-name"), "scene.png");
  });
}

async function withPicture(harness, address, file, label) {
  for (const lang of ["en", "zh"])
    await harness.test(`pictures: every view opens, ${lang}`, async (page) => {
      const offered = await viewsOf(harness.browser, address);
      assert.ok(!offered.includes("alignment") && !offered.includes("generation"));
      for (const name of offered) {
        await open(page, address, { view: name, lang });
        assert.equal(await page.isVisible("#error"), false, `${name}: ${await page.textContent("#error")}`);
        assert.ok((await page.textContent("main")).length > (lang === "zh" ? 30 : 90), `${name} shows nothing`);
      }
      assert.ok((await page.textContent("#prediction")).includes(`${label} `));
    });
  await harness.test("pictures: patches are chosen by mouse and keyboard, and have a table", async (page) => {
    await open(page, address, { view: "heads", layer: 1 });
    assert.deepEqual((await exported(page)).rows.slice(0, 3), ["[CLS]", "r1c1", "r1c2"]);
    await page.locator("#patches-picture").scrollIntoViewIfNeeded();
    const box = await page.locator("#patches-picture").boundingBox();
    await page.mouse.click(box.x + 100, box.y + 100); // the second of four patches, in both directions
    await page.waitForFunction(() => /query=6/.test(location.hash));
    await page.waitForFunction(() => /^r2c2 looks at/.test(document.querySelector("#announcement").textContent));
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction(() => /query=11/.test(location.hash));
    await page.click(".patches .behind summary");
    await page.waitForSelector(".patches .behind table");
    const columns = await page.$$eval(".patches thead th", (cells) => cells.map((cell) => cell.textContent));
    assert.deepEqual(columns.slice(0, 3), ["Patch", "Mean of heads", "Head 0"]);
    assert.equal(columns.at(-1), "Rollout, all layers");
    const rows = await page.$$eval(".patches tbody tr", (list) =>
      list.map((row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.textContent))),
    );
    const shown = (column) => rows.map((row) => row[column]);
    near(shown(1), file.arrays["weights/1/0"].values[11], 1e-5, "head 0");
    near(shown(0), file.arrays["average/1"].values[11], 1e-5, "the mean");
    near(shown(columns.length - 2), file.arrays["rollout/stack"].values[11], 1e-5, "rollout");
    await page.focus("#patches-picture");
    await page.keyboard.press("Home");
    await page.waitForFunction(() => /query=0/.test(location.hash));
  });
  await harness.test("pictures: the brightest patch has the largest weight", async (page) => {
    await open(page, address, { view: "matrix", layer: 1, head: 2, query: 6 });
    await page.waitForFunction(() => document.querySelector("#readout").dataset.weight);
    await page.waitForTimeout(100);
    const weights = file.arrays["weights/1/2"].values[6].slice(1);
    const [light, plain] = await page.evaluate(() => {
      const canvas = document.querySelector("#patches-picture");
      const scale = canvas.width / canvas.clientWidth;
      const at = (left) => (patch) => {
        const [x, y] = [left + 65 * (patch % 4) + 12, 65 * Math.floor(patch / 4) + 12]; // tiles of 260 pixels
        return canvas.getContext("2d").getImageData(x * scale, y * scale, 1, 1).data[2];
      };
      const all = [...Array(16).keys()];
      return [all.map(at(274)), all.map(at(0))];
    });
    // The tint's blue is 44 · share, blended with an opacity of 0.8 − 0.6 · share.
    const most = Math.max(...weights);
    weights.forEach((weight, i) => {
      const [share, cover] = [weight / most, 0.8 - (0.6 * weight) / most];
      const expected = plain[i] * (1 - cover) + 44 * share * cover;
      assert.ok(Math.abs(light[i] - expected) < 6, `patch ${i}: ${light[i]} instead of ${expected}`);
    });
  });
  await harness.test("pictures: ablating a patch changes the output", async (page) => {
    await open(page, address, { view: "ablate" });
    const box = await page.locator("#patches-picture").boundingBox();
    await page.mouse.click(box.x + 100, box.y + 100);
    await page.waitForFunction(() => document.querySelector("#held-0-6")?.getAttribute("aria-pressed") === "true");
    const { before, after } = await exported(page);
    assert.notEqual(before.items[0].p, after.items[0].p);
  });
  await harness.test("pictures: every equation of Steps holds", async (page) => {
    const weights = ownNames(weightsOf(sharedModel("vit")));
    for (const layer of [0, 1])
      for (const query of [0, 6]) {
        await open(page, address, { view: "steps", layer, query, head: layer });
        const data = await exported(page);
        check(data, weights);
        if (query > 0) near(data.steps[0].e, await patchVector(page, weights, query - 1), 1e-3, "a patch’s vector");
        const names = data.steps.map((step) => step.name);
        for (const name of ["patch", "position", "activation", "text", "logits", "probability"])
          assert.ok(names.includes(name), `no step ${name}: ${names}`);
      }
  });
  await harness.test("pictures: activations of another picture are patched in", async (page) => {
    await open(page, address, { view: "patch", wanted: "LABEL_1", contrast: "LABEL_3" });
    await page.setInputFiles("#other-picture", { name: "night.png", mimeType: "image/png", buffer: scene(0.2) });
    await page.click("#tool-start");
    await page.waitForSelector("#patch-goal");
    assert.match(await page.textContent("#patch-goal"), /for this picture and .* for the other one/);
    assert.equal(await page.locator(".patched").count(), 2);
    const found = await exported(page);
    const residual = found.maps.find((map) => map.kind === "residual");
    assert.equal(residual.shares[0].length, 17);
    near(residual.values.at(-1)[0], found.otherValue, 1e-5, "the last [CLS] decides everything");
    assert.match(page.url(), /otherPicture=p\d+/);
    await page.reload();
    await page.waitForSelector("#tool-start");
  });
  await harness.test(
    "pictures: no view is wider than a phone",
    async (page) => {
      for (const name of await viewsOf(harness.browser, address)) {
        await open(page, address, { view: name });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        assert.ok(wide <= 0, `${name} is ${wide} pixels too wide`);
      }
    },
    { viewport: { width: 390, height: 844 } },
  );
}

async function withoutPicture(harness, address, picture, label) {
  await harness.test("pictures: the page asks for a picture, and takes one from the file dialog", async (page) => {
    await open(page, address, {});
    assert.equal(await page.locator("main canvas").count(), 0);
    assert.match(await page.textContent("#inputs"), /drop one anywhere/);
    await page.setInputFiles("#picture", picture);
    await page.waitForSelector("#patches-picture");
    assert.ok((await page.textContent("#prediction")).includes(`${label} `));
    assert.equal(await page.textContent("#picture-name"), "scene.png");
    await page.reload(); // the address contains the picture's id, and the server still has it
    await page.waitForSelector("#patches-picture");
  });
  await harness.test("pictures: a dropped picture is uploaded", async (page) => {
    await open(page, address, {});
    await drop(page, "<b>.png", scene());
    await page.waitForSelector("#patches-picture");
    assert.equal(await page.textContent("#picture-name"), "<b>.png");
  });
  await harness.test(
    "pictures: what is none is refused in one line",
    async (page) => {
      await open(page, address, {});
      await drop(page, "a.txt", Buffer.from("hello"));
      await page.waitForFunction(() => document.querySelector("#error").textContent);
      assert.equal(await page.textContent("#error"), "the picture: expected a PNG or a JPEG");
      await open(page, address, { picture: "p99" });
      await page.waitForFunction(() => /p99/.test(document.querySelector("#error").textContent));
    },
    { allowed: ["400", "404"] },
  );
}

/** The weights of a Hugging Face folder under the names of attend. */
function ownNames(weights) {
  const parts = [
    [/^vit\./, ""],
    [/^embeddings\.cls_token$/, "whole"],
    [/^embeddings\.position_embeddings$/, "positions.weight"],
    [/^embeddings\.patch_embeddings\.projection/, "patches"],
    [/^encoder\.layer\./, "stack.layers."],
    [/attention\.attention\./, "attention."],
    [/attention\.output\.dense/, "attention.output"],
    [/intermediate\.dense/, "feed_forward.up"],
    [/(\d)\.output\.dense/, "$1.feed_forward.down"],
  ];
  return new Map(
    [...weights].map(([name, { shape, data }]) => [
      parts.reduce((text, [from, to]) => text.replace(from, to), name),
      { shape: shape.length > 2 && shape[0] === 1 ? shape.slice(1) : shape, data },
    ]),
  );
}

/** W a + b of a patch, from the pixels of the picture that the page shows; the model maps 0 … 255 to −1 … 1. */
async function patchVector(page, weights, patch) {
  const { shape, data } = weights.get("patches.weight"); // [dim, channels, size, size]
  const [dim, channels, size] = shape;
  const pixels = await page.evaluate(async () => {
    const run = await (await fetch(`/api/runs`, { method: "POST", body: JSON.stringify({ model: "m0" }) })).json();
    const image = new Image();
    image.src = run.sides[0].picture.data;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    canvas.getContext("2d").drawImage(image, 0, 0);
    return { width: image.width, data: [...canvas.getContext("2d").getImageData(0, 0, image.width, image.height).data] };
  });
  const across = pixels.width / size;
  const [top, left] = [Math.floor(patch / across) * size, (patch % across) * size];
  const a = [];
  for (let c = 0; c < channels; ++c)
    for (let y = 0; y < size; ++y)
      for (let x = 0; x < size; ++x) a.push(pixels.data[((top + y) * pixels.width + left + x) * 4 + c] / 127.5 - 1);
  const bias = weights.get("patches.bias").data;
  return times({ shape: [dim, a.length], data }, a).map((value, i) => value + bias[i]);
}

async function drop(page, name, bytes) {
  const transfer = await page.evaluateHandle(
    ([title, data]) => {
      const carried = new DataTransfer();
      carried.items.add(new File([new Uint8Array(data)], title));
      return carried;
    },
    [name, [...bytes]],
  );
  await page.dispatchEvent("body", "drop", { dataTransfer: transfer });
}
