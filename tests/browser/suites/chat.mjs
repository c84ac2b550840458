import assert from "node:assert/strict";
import { cpSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exported, near, open, savedAs, settled } from "../harness.mjs";
import { inspect, serve } from "../server.mjs";
import { poorContrast } from "./accessibility.mjs";

const kTemplate = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>";
const kDone = () => document.querySelector("#chat-stop").hidden;

/** Talking with a model: streaming, candidates, the way to the other views, editing, errors; in both languages. */
export default async function chat(harness) {
  const { attend, work, models } = harness.world;
  const talker = join(work, "talker"); // the language model with a chat template
  rmSync(talker, { recursive: true, force: true });
  cpSync(models.language, talker, { recursive: true });
  writeFileSync(join(talker, "chat_template.jinja"), kTemplate);
  const folders = { talker, language: models.language, transformer: models.transformer, recurrent: models.recurrent };
  const server = await serve(attend, Object.entries(folders).map(([name, folder]) => `${name}=${folder}`));
  const ids = Object.fromEntries(Object.keys(folders).map((name, i) => [name, `m${i}`]));
  try {
    await suite(harness, server.address, ids);
  } finally {
    await server.stop();
  }
  await harness.test("chat: the stop button keeps what was written", async (page) => {
    const slow = await serve(attend, [`talker=${talker}`, "--draft", "0"]); // with drafts, 900 tokens take no time
    await start(page, slow.address, "m0", { length: 900, temperature: 0 }); // does not end by itself
    await page.evaluate(() =>
      new MutationObserver((_, observer) => {
        if (document.querySelectorAll(".words .word").length < 4) return;
        observer.disconnect();
        document.querySelector("#chat-stop").click();
      }).observe(document.querySelector("#talk"), { childList: true, subtree: true }),
    );
    await say(page, "Go on and on");
    await page.waitForFunction(() => document.querySelector(".message.assistant .facts"));
    assert.match(await page.textContent(".message.assistant .facts"), / · Stopped\.$/);
    const count = await page.locator(".words .word").count();
    assert.ok(count >= 4 && count < 900, `${count} words`);
    await page.waitForFunction(async () => /attend_running\{model="talker"\} 0\n/.test(await (await fetch("/metrics")).text()));
    await slow.stop();
  });
  await harness.test("chat: the end of the server is said in words", async (page) => {
    const short = await serve(attend, [`talker=${talker}`]);
    await open(page, short.address, { view: "chat" });
    await short.stop();
    await say(page, "Are you there?");
    assert.match(await page.textContent("#chat-error"), /The server does not respond/);
    await page.click("#language");
    await page.waitForFunction(() => document.querySelector("#view-title").textContent === "对话");
    assert.match(await page.textContent("#chat-error"), /服务器没有响应/);
    assert.equal(await page.textContent(".message.user .text"), "Are you there?", "the message is kept");
    assert.ok(await page.isVisible("#chat-again"));
  }, { allowed: ["ERR_CONNECTION_REFUSED", "Failed to load resource"] });
  await harness.test("chat: a file does not offer it", async (page) => {
    const file = await inspect(attend, models.language, "A dog", join(work, "chat.html"));
    await page.goto(`file://${file}#view=heads`);
    await settled(page, "heads");
    assert.equal(await page.locator("#view-chat").count(), 0);
    await page.goto(`file://${file}#view=chat`);
    await page.waitForFunction(() => !location.hash.includes("view=chat"));
    assert.equal(await page.locator("#message").count(), 0);
  });
}

/** Sends a message and waits for the end of the answer. */
async function say(page, text) {
  await page.fill("#message", text);
  await page.press("#message", "Enter");
  await page.waitForFunction(kDone);
}

/** The n-th word that can be seen: others are spaces, line ends or control characters. */
function seen(page, n, within = ".words") {
  return page.locator(`${within} .word`).filter({ hasText: /[\p{L}\p{N}]/u }).nth(n);
}

/** Opens the view with settings that give the same answer each time. */
async function start(page, address, model, { lang = "en", length = 16, temperature = 0.8 } = {}) {
  await open(page, address, { view: "chat", model, lang });
  await page.click("#chat-settings summary");
  await page.fill("#chat-length", String(length));
  await page.fill("#chat-seed", "7");
  await page.fill("#chat-temperature", String(temperature));
  await page.press("#chat-temperature", "Tab");
}

async function suite(harness, address, ids) {
  await harness.test("chat: the answer is the API's, word by word", async (page) => {
    await start(page, address, ids.talker);
    await page.fill("#system", "Be kind.");
    await say(page, "Hello 你好");
    const shown = await page.textContent(".message.assistant .words");
    const response = await page.request.post(`${address}v1/chat/completions`, {
      data: {
        model: "talker",
        messages: [
          { role: "system", content: "Be kind." },
          { role: "user", content: "Hello 你好" },
        ],
        ...{ max_tokens: 16, seed: 7, temperature: 0.8 },
      },
    });
    const { content } = (await response.json()).choices[0].message;
    assert.equal(shown, content.trim());
    assert.equal(await page.textContent(".message.assistant .unseen"), content, "for screen readers");
    const { messages, answers, model } = await exported(page);
    assert.equal(model, "talker");
    assert.deepEqual(JSON.parse(await savedAs(page, "json")).messages, messages, "as attend chat reads them");
    assert.deepEqual(
      messages.map((one) => one.role),
      ["system", "user", "assistant"],
    );
    assert.equal(answers[0].tokens.length, 16);
    assert.equal(answers[0].tokens[0].candidates.length, 8);
    assert.match(await page.textContent(".message.assistant .facts"), /16 tokens, .* · reached the maximum/);
  });
  for (const [lang, candidates] of [
    ["en", /Click to look inside/],
    ["zh", /点击可深入查看/],
  ])
    await harness.test(`chat: pointing at a word shows its candidates (${lang})`, async (page) => {
      await start(page, address, ids.talker, { lang });
      await say(page, "Hello");
      await seen(page, 1).hover();
      assert.match(await page.textContent("#word-card"), candidates);
      assert.ok((await page.locator("#word-card .candidate").count()) >= 8);
      assert.equal(await page.locator("#word-card .candidate.chosen").count(), 1);
      await page.mouse.move(2, 2);
      assert.equal(await page.isVisible("#word-card"), false);
      await page.focus(".words");
      for (let i = 0; i < 3; ++i) await page.keyboard.press("ArrowRight");
      assert.ok(await page.isVisible("#word-card"));
      assert.equal(await page.getAttribute(".words", "aria-activedescendant"), "word-1-2");
      await page.waitForFunction(() => /(Candidates: |候选：)\S/.test(document.querySelector("#announcement").textContent));
      await page.keyboard.press("Enter");
      assert.equal(await page.evaluate(() => document.activeElement.closest("#word-card") !== null), true);
      await page.keyboard.press("Escape");
      assert.equal(await page.isVisible("#word-card"), false);
      assert.equal(await page.evaluate(() => document.activeElement.className), "words");
    });
  await harness.test("chat: a word opens Heads, Steps and Matrix on its moment", async (page) => {
    await start(page, address, ids.talker);
    await say(page, "Hello 你好");
    const { answers } = await exported(page);
    const words = await page.$$eval(".words .word", (list) => list.map((one) => one.textContent));
    const odd = words.findIndex((one) => one.includes("\ufffd")); // bytes that form no character
    let place = Math.max(0, odd < 0 ? 5 : Math.min(5, odd - 1));
    while (place > 0 && !/[\p{L}\p{N}]/u.test(words[place])) --place;
    const whole = await page.textContent(".message.assistant .unseen"); // with its first space
    const before = place === 0 ? "" : whole.slice(0, whole.trimEnd().length - words.slice(place).join("").length);
    for (const view of ["heads", "steps", "matrix"]) {
      await page.locator(".words .word").nth(place).click();
      await page.click(`#word-card a[href*="view=${view}"]`);
      await settled(page, view);
      assert.equal(await page.isVisible("#error"), false);
      const text = await page.inputValue("#text");
      assert.equal(text, `<user>Hello 你好\n<assistant>${before}`);
      const state = new URLSearchParams(new URL(page.url()).hash.slice(1));
      const read = state.get("ids").split(",").map(Number);
      assert.equal(Number(state.get("query")), read.length - 1);
      if (view === "steps") assert.equal(await page.inputValue("#query"), String(read.length - 1));
      const token = answers[0].tokens[read.length - answers[0].promptTokens.length];
      if (odd !== 0) assert.equal(token.text.trim(), words[place].trim());
      const run = await (await page.request.post(`${address}api/runs`, { data: { model: ids.talker, ids: read } })).json();
      const best = run.output.rows.at(-1);
      near(
        token.candidates.slice(0, 5).map((one) => Math.exp(one.logp)),
        best.map((one) => one.p),
        1e-4,
        "the candidates of the moment",
      );
      await page.goBack();
      await settled(page, "chat");
    }
    assert.equal(await page.locator(".message").count(), 2, "the conversation is kept");
    await page.reload();
    await settled(page, "chat");
    assert.equal(await page.locator(".message").count(), 2, "also when the page is loaded again");
    await page.locator(".words .word").nth(place).click();
    await page.click('#word-card a[href*="view=heads"]');
    await settled(page, "heads");
    await page.fill("#text", "Another text");
    await page.click("#run");
    await page.waitForFunction(() => !location.hash.includes("ids="));
    await settled(page, "heads");
    assert.equal(await page.inputValue("#text"), "Another text");
  });
  for (const name of ["transformer", "recurrent"])
    await harness.test(`chat: a translation and its alignment (${name})`, async (page) => {
      await start(page, address, ids[name], { temperature: 0, length: 12 });
      await say(page, "3. Mai 2025");
      const shown = await page.textContent(".message.assistant .words");
      assert.ok((await page.locator(".words .word").count()) >= 2);
      await seen(page, 1).click();
      await page.click('#word-card a[href*="view=alignment"]');
      await settled(page, "alignment");
      assert.equal(await page.inputValue("#text"), "3. Mai 2025");
      assert.equal(await page.inputValue("#target"), shown);
      assert.match(new URLSearchParams(new URL(page.url()).hash.slice(1)).get("query"), /^[1-9]$/);
      await page.goBack();
      await settled(page, "chat");
      await page.click("#chat-settings summary");
      await page.fill("#chat-beam", "3");
      await page.press("#chat-beam", "Tab");
      await say(page, "4. Mai 2025");
      assert.ok((await page.locator("#chat-message-3 .word").count()) >= 2, "beam search");
      await seen(page, 1, "#chat-message-3").click();
      assert.match(await page.textContent("#word-card"), /beam search has no candidates/);
      await page.click('#word-card a[href*="view=heads"]');
      await settled(page, "heads");
      assert.equal(await page.inputValue("#text"), "4. Mai 2025");
      for (const view of name === "transformer" ? ["ablate", "lens"] : ["attribute"]) {
        await page.goto(page.url().replace(/view=\w+/, `view=${view}`));
        await settled(page, view);
      }
    });
  await harness.test("chat: an earlier message is edited, and the rest is written again", async (page) => {
    await start(page, address, ids.talker);
    await say(page, "One");
    await say(page, "Two");
    const first = await page.textContent("#chat-message-1 .words");
    await page.click("#chat-edit-0");
    await page.fill("#chat-edit-text", "Three");
    await page.keyboard.press("Enter");
    await page.waitForFunction(kDone);
    assert.equal(await page.locator(".message").count(), 2);
    assert.equal(await page.textContent("#chat-message-0 .text"), "Three");
    assert.equal(await page.textContent("#chat-status"), "Later messages were removed.");
    const { answers } = await exported(page);
    const text = await (await page.request.post(`${address}detokenize`, { data: { model: "talker", tokens: answers[0].promptTokens } })).json();
    assert.equal(text.text, "<user>Three\n<assistant>");
    await page.click("#chat-undo");
    assert.equal(await page.locator(".message").count(), 4);
    assert.equal(await page.textContent("#chat-message-1 .words"), first);
    await page.click("#chat-edit-1");
    await page.fill("#chat-edit-text", "My own words.");
    await page.click("#chat-edit-done");
    assert.equal(await page.locator(".message").count(), 2);
    await say(page, "Four");
    const { answers: next } = await exported(page);
    const prompt = await (await page.request.post(`${address}detokenize`, { data: { model: "talker", tokens: next[0].promptTokens } })).json();
    assert.equal(prompt.text, "<user>One\n<assistant>My own words.\n<user>Four\n<assistant>");
    await page.click("#chat-new");
    assert.equal(await page.locator(".message").count(), 0);
  });
  await harness.test("chat: an answer goes on while the page changes its language", async (page) => {
    await start(page, address, ids.talker, { length: 300 });
    await page.fill("#message", "Go on");
    await page.press("#message", "Enter");
    await page.click("#language");
    await page.waitForFunction(() => document.querySelector("#view-title").textContent === "对话");
    await page.waitForFunction(kDone);
    assert.match(await page.textContent(".message.assistant .facts"), /\d 个词元/);
    assert.ok((await page.locator(".words .word").count()) > 4);
  });
  await harness.test("chat: a model without a template continues the text", async (page) => {
    await start(page, address, ids.language);
    assert.match(await page.textContent(".welcome"), /continues your text/);
    await say(page, "A small dog ");
    const first = await page.textContent("#chat-message-1 .unseen");
    assert.equal(await page.textContent("#chat-send"), "Write more");
    await page.click("#chat-send");
    await page.waitForFunction(kDone);
    const { answers } = await exported(page);
    const text = await (await page.request.post(`${address}detokenize`, { data: { model: "language", tokens: answers[1].promptTokens } })).json();
    assert.equal(text.text, `A small dog ${first}`);
  });
  await harness.test("chat: where each word looked", async (page) => {
    await start(page, address, ids.talker);
    await page.check("#chat-looks");
    await say(page, "Hello");
    await seen(page, 2).hover();
    await page.waitForFunction(() => /Looked at/.test(document.querySelector("#word-card").textContent));
    await page.waitForFunction(() => !document.querySelector("#word-card").textContent.includes("…"));
  });
  await harness.test("chat: an error is one line in the view", async (page) => {
    await start(page, address, ids.talker);
    await page.fill("#message", "word ".repeat(3000));
    await page.click("#chat-send");
    await page.waitForFunction(kDone);
    assert.match(
      await page.textContent("#chat-error"),
      /^the prompt has \d+ tokens, but the model's context is 1024 tokens/,
    );
  }, { allowed: ["Failed to load resource"] });
  await harness.test("chat: copies the conversation as JSON", async (page) => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await start(page, address, ids.talker);
    await say(page, "Hello");
    await page.click("#chat-copy");
    await page.waitForFunction(() => document.querySelector("#chat-status").textContent === "Copied.");
    const copied = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()));
    assert.deepEqual(copied[0], { role: "user", content: "Hello" });
    assert.equal(copied[1].role, "assistant");
  });
  for (const theme of ["light", "dark"])
    await harness.test(
      `chat: fits a phone and has enough contrast (${theme})`,
      async (page) => {
        await open(page, address, { view: "chat", model: ids.talker, theme });
        await say(page, "Hello, this is a long message for a narrow page. 你好，这是一条很长的消息，页面却很窄。");
        await seen(page, 1).tap();
        assert.ok(await page.isVisible('#word-card a[href*="view=heads"]'));
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        assert.ok(wide <= 0, `${wide} px too wide`);
        assert.deepEqual(await page.evaluate(poorContrast), []);
      },
      { viewport: { width: 360, height: 700 }, context: { hasTouch: true } },
    );
}
