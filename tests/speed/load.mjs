// Load for any server with OpenAI's API: N clients start at once and stream completions.
//
//   node load.mjs http://127.0.0.1:8757 --clients 32 --in 128 --out 128
//   node load.mjs http://127.0.0.1:8757 --clients 200 --seconds 600 --hang-up 0.33 --malformed 0.1
//
// Each client sends `--requests` requests one after the other (default 1), or requests for `--seconds`. Prints tokens
// per second, the time to the first token, the time between tokens (median and 99th percentile), and errors.
import http from "node:http";
import { parseArgs } from "node:util";
import { post, random } from "./client.mjs";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    clients: { type: "string", default: "1" },
    in: { type: "string", default: "128" }, // tokens of a prompt
    out: { type: "string", default: "128" }, // tokens to generate
    requests: { type: "string", default: "1" },
    seconds: { type: "string", default: "0" },
    model: { type: "string" },
    key: { type: "string" },
    vocabulary: { type: "string", default: "50000" }, // prompts are random token ids below this
    prompt: { type: "string" }, // text instead of random ids
    "hang-up": { type: "string", default: "0" }, // share of requests whose client leaves midway
    malformed: { type: "string", default: "0" }, // share of malformed requests
    seed: { type: "string", default: "1" },
    json: { type: "boolean", default: false },
  },
});
const base = new URL(positionals[0] ?? "http://127.0.0.1:8757");
const number = (name) => Number(options[name]);
const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });
const firsts = [];
const gaps = [];
const totals = { tokens: 0, done: 0, hungUp: 0, refused: 0 };
const errors = new Map();

function note(message) {
  errors.set(message, (errors.get(message) ?? 0) + 1);
}

function body(draw) {
  const ids = () => Array.from({ length: number("in") }, () => 10 + Math.floor(draw() * (number("vocabulary") - 10)));
  return JSON.stringify({
    model: options.model,
    prompt: options.prompt ?? ids(),
    max_tokens: number("out"),
    temperature: 0,
    ignore_eos: true,
    stream: true,
  });
}

/** Posts a completion; onEvent gets each event of the stream. */
function ask(text, onEvent) {
  return post(new URL("/v1/completions", base), text, { agent, key: options.key, onEvent });
}

async function once(draw) {
  const kind = draw();
  if (kind < number("malformed")) {
    const wrong = ['{"prompt":', '{"prompt":"a","top_p":7}', '{"nothing":1}', "[]", '{"prompt":"a","n":"x"}'];
    const { status, rest } = await ask(wrong[Math.floor(draw() * wrong.length)], () => false);
    if (status === 400) ++totals.refused;
    else note(`a malformed request got ${status} ${rest.slice(0, 80)}`);
    return;
  }
  const leaves = kind < number("malformed") + number("hang-up");
  const most = leaves ? 1 + Math.floor((draw() * number("out")) / 2) : Infinity;
  const start = performance.now();
  let last = 0;
  let tokens = 0;
  let isDone = false;
  const { status, rest, isWhole } = await ask(body(draw), (event) => {
    if (event === "data: [DONE]") return void (isDone = true);
    if (!event.includes('"choices":[{')) return;
    const now = performance.now();
    if (tokens++ === 0) firsts.push(now - start);
    else gaps.push(now - last);
    last = now;
    ++totals.tokens;
    return tokens < most;
  });
  if (leaves && tokens >= most) ++totals.hungUp;
  else if (isDone && isWhole) ++totals.done;
  else note(status === 200 ? "a stream ended early" : `status ${status}: ${rest.slice(0, 120)}`);
}

async function client(index, end) {
  const draw = random(number("seed") * 100003 + index);
  for (let i = 0; number("seconds") > 0 ? performance.now() < end : i < number("requests"); ++i) await once(draw);
}

function rank(values, share) {
  values.sort((a, b) => a - b);
  return values.length ? values[Math.min(values.length - 1, Math.floor(values.length * share))] : NaN;
}

const start = performance.now();
const end = start + number("seconds") * 1000;
await Promise.all(Array.from({ length: number("clients") }, (_, index) => client(index, end)));
const seconds = (performance.now() - start) / 1000;
const figures = {
  clients: number("clients"),
  seconds,
  tokens_per_second: totals.tokens / seconds,
  first_token_ms: { median: rank(firsts, 0.5), p99: rank(firsts, 0.99) },
  between_tokens_ms: { median: rank(gaps, 0.5), p99: rank(gaps, 0.99), most: rank(gaps, 1) },
  ...totals,
  errors: Object.fromEntries(errors),
};
if (options.json) {
  console.log(JSON.stringify(figures));
} else {
  const ms = (value) => `${value.toFixed(1)} ms`;
  console.log(`${figures.clients} clients, ${seconds.toFixed(1)} s, ${figures.tokens_per_second.toFixed(1)} tokens/s`);
  console.log(`first token      ${ms(figures.first_token_ms.median)} (median), ${ms(figures.first_token_ms.p99)} (99 %)`);
  const between = figures.between_tokens_ms;
  console.log(`between tokens   ${ms(between.median)} (median), ${ms(between.p99)} (99 %), ${ms(between.most)} (longest)`);
  console.log(`${totals.done} complete, ${totals.hungUp} hung up, ${totals.refused} refused as expected`);
  for (const [message, count] of errors) console.log(`error × ${count}: ${message}`);
}
process.exit(errors.size > 0 ? 1 : 0);
