// Many clients at once against `attend serve`:
//
//   node load.mjs ATTEND FOLDER [--seconds 20] [--clients 200]     FOLDER keeps the models between runs
//
// A third of the requests hang up midway, a tenth are malformed. Every complete answer must equal the answer to the same
// request alone, digit for digit. In the end no request may be left in the server, and its memory must not have grown.
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { trainModels } from "../browser/models.mjs";
import { serve } from "../browser/server.mjs";
import { post, random } from "../speed/client.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seconds: { type: "string", default: "20" }, clients: { type: "string", default: "200" } },
});
const [attend, folder] = positionals;
const [seconds, clients] = [Number(values.seconds), Number(values.clients)];
const kHangUp = 1 / 3;
const kMalformed = 1 / 10;
const kGrowth = 0.02;
// Bytes beside the 2 %, which are little for small models: buffers that grow to their largest size, and free memory
// between allocations.
const kSlack = { allocated: 1 << 20, resident: 3 << 20 };
const kWarmUps = 3;

mkdirSync(folder, { recursive: true });
const models = await trainModels(attend, folder, ["language", "transformer", "classifier"]);
writeFileSync(
  join(models.language, "chat_template.jinja"),
  "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:",
);
// The memory should be what the server holds, not the free memory that glibc keeps for each thread. The cache for keys and
// values is small, so that it is full after the warm-up.
process.env.MALLOC_ARENA_MAX = "1";
process.env.GLIBC_TUNABLES = "glibc.malloc.tcache_count=0";
const server = await serve(
  attend,
  [`novel=${models.language}`, `de-iso=${models.transformer}`, `reviews=${models.classifier}`],
  ["--cache-memory", "2", "--threads", "2"],
);
const { pid } = server.child;
const requests = makeRequests();
const malformed = makeMalformed();
const count = { complete: 0, hungUp: 0, refused: 0, broken: 0 };
const failures = new Map();

/** Requests of every kind that generates, with their path. Each has a seed, so that its answer is always the same. */
function makeRequests() {
  const list = [];
  const words = ["The sea", "从前有一个", "An old man", "海上", "Once upon a time there was", "a"];
  words.forEach((prompt, i) => {
    const sampled = { model: "novel", max_tokens: 12 + 5 * i, temperature: 0.9, seed: i };
    list.push(["/v1/completions", { ...sampled, prompt, stream: true, logprobs: 3 }]);
    list.push(["/v1/completions", { ...sampled, prompt, n: 2, stop: ["。", "zz"], echo: true }]);
    list.push(["/v1/completions", { ...sampled, prompt: prompt.repeat(20), stream: true, top_k: 5 }]);
    const messages = [{ role: "user", content: prompt }];
    list.push(["/v1/chat/completions", { ...sampled, messages, stream: true, logprobs: true, top_logprobs: 2 }]);
    list.push(["/v1/chat/completions", { ...sampled, messages, attend: { layers: 1, top: 2 }, max_tokens: 6 }]);
    list.push(["/translate", { q: `${i + 1}. Mai 20${10 + i}`, source: "de", target: "iso", alternatives: 1 }]);
    list.push(["/v1/embeddings", { model: "reviews", input: [prompt, "a good book"] }]);
    list.push(["/classify", { model: "reviews", text: prompt }]);
  });
  return list.map(([path, body]) => ({ path, body, text: JSON.stringify(body) }));
}

/** Requests that must be refused: [path, body, status]. */
function makeMalformed() {
  return [
    ["/v1/completions", '{"model":"novel","prompt":', 400],
    ["/v1/completions", '{"model":"novel","prompt":"a","top_p":7}', 400],
    ["/v1/completions", '{"model":"novel","prompt":"a","nothing":1}', 400],
    ["/v1/completions", '{"model":"novel","prompt":[-1]}', 400],
    ["/v1/completions", JSON.stringify({ model: "novel", prompt: "word ".repeat(3000) }), 400],
    ["/v1/completions", '{"model":"nobody","prompt":"a"}', 404],
    ["/v1/chat/completions", '{"model":"novel","messages":[{"role":"user"}],"tools":[1]}', 400],
    ["/v1/chat/completions", "[".repeat(100), 400],
    ["/v1/embeddings", '{"model":"reviews","input":[]}', 400],
    ["/translate", '{"q":"a","source":"xx","target":"iso"}', 400],
    ["/nowhere", "{}", 404],
  ];
}

function fail(message) {
  failures.set(message, (failures.get(message) ?? 0) + 1);
}

/** Sends a request. Resolves to the answer without its id and date; null if the client hung up after `events` events. */
async function ask({ path, body, text }, agent, events = Infinity) {
  const seen = [];
  const { status, rest, isWhole } = await post(new URL(path, server.address), text, {
    agent,
    onEvent: (event) => {
      seen.push(event);
      return seen.length < events;
    },
  });
  if (seen.length >= events && seen.at(-1) !== "data: [DONE]") return null;
  assert.equal(status, 200, `${path} ${text.slice(0, 80)}: ${status} ${rest.slice(0, 200)}`);
  assert.ok(isWhole && (!body.stream || seen.at(-1) === "data: [DONE]"), `${path}: the response is incomplete`);
  return (seen.join("\n") + rest).replaceAll(/"(id|created)":("[^"]*"|\d+)/g, "");
}

/** Bytes that are not a request, or the beginning of one. */
function sendBroken(draw) {
  const texts = ["\0\x01garbage\r\n\r\n", "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"];
  return new Promise((done) => {
    const { hostname, port } = new URL(server.address);
    const socket = net.connect(Number(port), hostname, () => {
      socket.write(texts[draw() < 0.5 ? 0 : 1]);
      setTimeout(() => socket.destroy(), 20);
    });
    socket.on("error", () => {});
    socket.on("close", done);
  });
}

async function once(draw, agent, wanted) {
  const kind = draw();
  if (kind < kMalformed / 5) {
    await sendBroken(draw);
    ++count.broken;
  } else if (kind < kMalformed) {
    const [path, text, expected] = malformed[Math.floor(draw() * malformed.length)];
    const { status, rest } = await post(new URL(path, server.address), text, { agent });
    const isError = status === expected && JSON.parse(rest).error;
    if (isError) ++count.refused;
    else fail(`${path} ${text.slice(0, 40)}: ${status} ${rest.slice(0, 80)}`);
  } else {
    const leaves = kind < kMalformed + kHangUp;
    const streams = wanted.filter((one) => one.body.stream);
    const list = leaves && streams.length > 0 ? streams : wanted;
    const request = list[Math.floor(draw() * list.length)];
    const events = leaves && request.body.stream ? 1 + Math.floor((draw() * request.body.max_tokens) / 2) : Infinity;
    const answer = await ask(request, agent, events);
    if (answer === null) return void ++count.hungUp;
    if (answer === request.answer) ++count.complete;
    else fail(`another answer than alone: ${request.path} ${request.text.slice(0, 90)}`);
  }
}

/** All clients for some seconds, with these requests; then waits until the server is idle. */
async function load(time, seed, wanted = requests) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });
  const end = performance.now() + time * 1000;
  const client = async (index) => {
    const draw = random(seed * 100003 + index);
    while (performance.now() < end) await once(draw, agent, wanted).catch((error) => fail(error.message));
  };
  await Promise.all(Array.from({ length: clients }, (_, index) => client(index)));
  agent.destroy();
  await idle();
}

/** Waits until no request is left: the metrics are zero, and the connections are closed. */
async function idle() {
  let left = "";
  for (let i = 0; i < 600; ++i) {
    const text = await (await fetch(`${server.address}metrics`, { headers: { Connection: "close" } })).text();
    left = [...text.matchAll(/^attend_(waiting|running|tokens_in_flight)\{.*\} (?!0$).*$/gm)].join("; ");
    if (left === "" && readdirSync(`/proc/${pid}/fd`).length <= files + 1) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  assert.fail(`still in the server: ${left || `${readdirSync(`/proc/${pid}/fd`).length} open files, ${files} before`}`);
}

/** The bytes that the server holds: allocated ones, and resident memory. */
async function memory() {
  const text = await (await fetch(`${server.address}metrics`, { headers: { Connection: "close" } })).text();
  const value = (name) => Number(text.match(new RegExp(`^${name} (\\d+)$`, "m"))[1]);
  return { allocated: value("attend_allocated_bytes"), resident: value("process_resident_memory_bytes") };
}

function mebi(bytes) {
  return (bytes / 2 ** 20).toFixed(1);
}

const files = readdirSync(`/proc/${pid}/fd`).length;
let code = 1;
try {
  for (const request of requests) request.answer = await ask(request);
  // First all clients send the same kind of request, so that the buffers of each kind grow to their largest size.
  const paths = [...new Set(requests.map((one) => one.path))];
  const share = Math.min(seconds, 60) / (paths.length + kWarmUps);
  for (const path of paths) await load(share, 1, requests.filter((one) => one.path === path));
  let before = await memory();
  for (let i = 0; i < kWarmUps; ++i) {
    await load(share, i + 2);
    before = await memory();
    console.log(`warm-up ${i + 1}: ${mebi(before.allocated)} MiB allocated, ${mebi(before.resident)} MiB resident`);
  }
  await load(seconds, 100);
  const after = await memory();
  for (const request of requests) assert.equal(await ask(request), request.answer, `afterwards: ${request.path}`);
  console.log(
    `${clients} clients, ${seconds} s: ${count.complete} complete and right, ${count.hungUp} hung up, ` +
      `${count.refused} refused, ${count.broken} broken; memory ${mebi(before.allocated)} → ${mebi(after.allocated)} MiB ` +
      `allocated, ${mebi(before.resident)} → ${mebi(after.resident)} MiB resident`,
  );
  for (const [message, times] of failures) console.log(`FAIL × ${times}: ${message}`);
  assert.equal(failures.size, 0, "some answers were wrong");
  assert.ok(count.complete > 0 && count.hungUp > 0 && count.refused > 0);
  for (const [kind, slack] of Object.entries(kSlack)) {
    const growth = after[kind] / before[kind] - 1;
    const isFlat = after[kind] <= before[kind] * (1 + kGrowth) + slack;
    assert.ok(isFlat, `the ${kind} memory grew by ${(growth * 100).toFixed(1)} %`);
  }
  code = 0;
} catch (error) {
  console.log(`FAIL ${error.message}`);
}
const ended = await server.stop();
if (ended !== 0) console.log(`FAIL the server ended with ${ended}`);
process.exit(code || (ended === 0 ? 0 : 1));
