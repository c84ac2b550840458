// Starts the command's server and reads the address of the page from its output.
import { execFile, spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";

const call = promisify(execFile);

export async function view(attend, models, more = []) {
  return serving(attend, ["view", ...models, "--no-open", "--port", "0", ...more]);
}

export async function serve(attend, models, more = []) {
  return serving(attend, ["serve", ...models, "--port", "0", ...more]);
}

async function serving(attend, words) {
  const child = spawn(attend, words, { stdio: ["ignore", "pipe", "pipe"] });
  return { address: await addressOf(child), child, stop: () => stopped(child) };
}

/** The address of the page, which the command prints. */
export function addressOf(child) {
  let said = "";
  return new Promise((found, failed) => {
    const read = (text) => {
      said += text;
      const match = said.match(/http:\/\/127\.0\.0\.1:\d+\//);
      if (match) found(match[0]);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", (code) => failed(new Error(`attend ended with ${code}: ${said}`)));
    setTimeout(() => failed(new Error(`attend named no address: ${said}`)), 60_000).unref();
  });
}

/** Sends SIGINT, as Ctrl-C does, and resolves to the exit code. */
function stopped(child) {
  if (child.exitCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((done) => {
    child.removeAllListeners("exit");
    child.on("exit", (code) => done(code));
    child.kill("SIGINT");
    setTimeout(() => child.kill("SIGKILL"), 10_000).unref();
  });
}

/** The output of `attend inspect -o FILE.json` for a text. */
export async function inspect(attend, model, text, file, more = []) {
  await call(attend, ["inspect", model, text, "-o", file, ...more], { maxBuffer: 1 << 26 });
  return file.endsWith(".json") ? JSON.parse(await readFile(file, "utf8")) : file;
}
