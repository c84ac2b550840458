// The npm package `openai`, unchanged, against `attend serve`: node openai.mjs ATTEND FOLDER. The folder keeps the
// models between runs.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { trainModels } from "../browser/models.mjs";
import { serve } from "../browser/server.mjs";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const OpenAI = require("openai").default;

const [attend, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const models = await trainModels(attend, folder, ["language", "classifier"]);
const template =
  "{% if tools %}Answer with <tool_call>.\n{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";
writeFileSync(join(models.language, "chat_template.jinja"), template);
const keys = join(folder, "keys");
writeFileSync(keys, "# the tests' key\nsecret-key\n");
const server = await serve(attend, [`novel=${models.language}`, `reviews=${models.classifier}`], ["--api-key-file", keys]);
const client = new OpenAI({ baseURL: `${server.address}v1`, apiKey: "secret-key", maxRetries: 0 });

const tests = {
  async models() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.deepEqual(ids, ["novel", "reviews"]);
    assert.equal((await client.models.retrieve("novel")).object, "model");
  },

  async completion() {
    const request = { model: "novel", prompt: "The", max_tokens: 12, seed: 4, temperature: 0.7 };
    const first = await client.completions.create(request);
    assert.equal(first.object, "text_completion");
    assert.equal(first.choices[0].finish_reason, "length");
    assert.equal(first.usage.completion_tokens, 12);
    const again = await client.completions.create(request);
    assert.equal(again.choices[0].text, first.choices[0].text, "the same seed gives the same text");
    const chinese = await client.completions.create({ model: "novel", prompt: "从前有一个", max_tokens: 20, seed: 1 });
    assert.ok(chinese.usage.prompt_tokens > 5);
  },

  async streaming() {
    const request = { model: "novel", prompt: "从前", max_tokens: 30, seed: 9, logprobs: 2 };
    const whole = await client.completions.create(request);
    const stream = await client.completions.create({ ...request, stream: true, stream_options: { include_usage: true } });
    let text = "";
    let tokens = 0;
    let usage = null;
    for await (const chunk of stream) {
      usage = chunk.usage ?? usage;
      text += chunk.choices[0]?.text ?? "";
      tokens += chunk.choices[0]?.logprobs.tokens.length ?? 0;
    }
    assert.equal(text, whole.choices[0].text);
    assert.deepEqual(usage, whole.usage);
    assert.equal(tokens, whole.choices[0].logprobs.tokens.length);
  },

  async chat() {
    const messages = [
      { role: "system", content: "Answer briefly." },
      { role: "user", content: "你好" },
    ];
    const request = { model: "novel", messages, max_completion_tokens: 20, seed: 2 };
    const whole = await client.chat.completions.create({ ...request, logprobs: true, top_logprobs: 3 });
    assert.equal(whole.choices[0].message.role, "assistant");
    assert.equal(whole.choices[0].logprobs.content[0].top_logprobs.length, 3);
    const prompt = "system: Answer briefly.\nuser: 你好\nassistant:";
    const same = await client.completions.create({ model: "novel", prompt, max_tokens: 20, seed: 2 });
    assert.equal(whole.choices[0].message.content, same.choices[0].text);
    assert.deepEqual(whole.usage, same.usage);
    const stream = client.chat.completions.stream(request);
    assert.equal(await stream.finalContent(), whole.choices[0].message.content);
  },

  async jsonSchema() {
    const schema = {
      type: "object",
      properties: { name: { type: "string", maxLength: 10 }, age: { type: "integer", minimum: 10, maximum: 99 } },
      required: ["name", "age"],
      additionalProperties: false,
    };
    const response_format = { type: "json_schema", json_schema: { name: "person", strict: true, schema } };
    const messages = [{ role: "user", content: "谁？" }];
    const request = { model: "novel", messages, response_format, seed: 5 };
    const answer = await client.chat.completions.parse(request);
    const person = answer.choices[0].message.parsed;
    assert.deepEqual(Object.keys(person), ["name", "age"]);
    assert.ok(person.age >= 10 && person.age <= 99);
    assert.equal(answer.choices[0].finish_reason, "stop");
    const stream = client.chat.completions.stream(request);
    assert.equal(await stream.finalContent(), answer.choices[0].message.content);
    schema.properties.name = { type: "string", contentEncoding: "base64" };
    await assert.rejects(client.chat.completions.create(request), /the keyword 'contentEncoding' is not supported/);
  },

  async tools() {
    const parameters = { type: "object", properties: { city: { enum: ["北京", "Paris"] } }, required: ["city"] };
    const tools = [{ type: "function", function: { name: "weather", parameters } }];
    const messages = [{ role: "user", content: "Weather?" }];
    const request = { model: "novel", messages, tools, tool_choice: "required", parallel_tool_calls: false, seed: 6 };
    const answer = await client.chat.completions.create(request);
    const [call] = answer.choices[0].message.tool_calls;
    assert.equal(answer.choices[0].finish_reason, "tool_calls");
    assert.equal(call.function.name, "weather");
    assert.ok(["北京", "Paris"].includes(JSON.parse(call.function.arguments).city));
    const stream = client.chat.completions.stream(request);
    assert.deepEqual((await stream.finalMessage()).tool_calls[0].function.arguments, call.function.arguments);
    const result = { role: "tool", tool_call_id: call.id, content: "rain" };
    const next = await client.chat.completions.create({
      model: "novel",
      messages: [...messages, answer.choices[0].message, result],
      tools,
      max_tokens: 5,
    });
    assert.ok(next.choices[0].finish_reason);
  },

  async cancelling() {
    const stream = await client.completions.create({ model: "novel", prompt: "a", max_tokens: 900, stream: true });
    for await (const chunk of stream) {
      assert.ok(chunk.id.startsWith("cmpl-"));
      break; // closes the connection
    }
    for (let i = 0; i < 200; ++i) {
      const answer = await fetch(`${server.address}metrics`, { headers: { Authorization: "Bearer secret-key" } });
      if (/attend_running\{model="novel"\} 0\n/.test(await answer.text())) return;
      await new Promise((done) => setTimeout(done, 20));
    }
    assert.fail("the request still runs");
  },

  async embeddings() {
    const input = ["a good book", "a bad book"];
    const coded = await client.embeddings.create({ model: "reviews", input }); // the client asks for base64 by itself
    const floats = await client.embeddings.create({ model: "reviews", input, encoding_format: "float" });
    assert.equal(coded.data.length, 2);
    assert.equal(coded.data[1].embedding.length, 32);
    assert.deepEqual(Array.from(coded.data[1].embedding), floats.data[1].embedding.map(Math.fround));
    assert.ok(floats.usage.total_tokens >= 6);
  },

  async errors() {
    const fails = (promise, type, check) => assert.rejects(promise, (error) => error instanceof type && check(error));
    const request = { model: "novel", prompt: "a" };
    await fails(
      client.completions.create({ ...request, best_of: 2 }),
      OpenAI.BadRequestError,
      (e) => e.param === "best_of" && e.code === "unsupported_parameter",
    );
    await fails(client.completions.create({ ...request, model: "x" }), OpenAI.NotFoundError, (e) => e.code === "model_not_found");
    await fails(
      client.completions.create({ ...request, prompt: "word ".repeat(3000) }),
      OpenAI.BadRequestError,
      (e) => /the prompt has \d+ tokens, but the model's context is 1024 tokens/.test(e.message),
    );
    await fails(
      new OpenAI({ baseURL: `${server.address}v1`, apiKey: "wrong", maxRetries: 0 }).models.list(),
      OpenAI.AuthenticationError,
      (e) => /API key/.test(e.message) && !e.message.includes("wrong"),
    );
  },

  async looking_inside() {
    const answer = await client.completions.create({ model: "novel", prompt: "a b", max_tokens: 3, attend: { layers: [1], top: 2 } });
    const looks = answer.choices[0].attend;
    assert.equal(looks.length, 3);
    assert.equal(looks[0].looked.length, 4, "one for each head");
    assert.ok(looks[0].looked.every((one) => one.layer === 1 && one.weights[0] >= one.weights[1]));
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok   ${name}`);
  } catch (error) {
    ++failed;
    console.log(`FAIL ${name}\n${error.stack}`);
  }
}
const code = await server.stop();
if (code !== 0) console.log(`FAIL the server ended with ${code}`);
process.exit(failed > 0 || code !== 0 ? 1 : 0);
