import { Grid } from "./grid";
import { SourceError, Unreachable, type Feature, type Part, type Source } from "./source";
import type { ToolName, ToolRequest, ToolResults, ToolWatch } from "./tools";
import type {
  Alignment,
  Embeddings,
  GenerateLine,
  GenerateRequest,
  HeadEffect,
  HeadStats,
  HeadSummary,
  Info,
  Logits,
  Neighbours,
  Run,
  RunRequest,
  Training,
  TrainingEvent,
} from "./types";
import { bodyOf, pathOf, readEvents, type WriteRequest, type WrittenPiece } from "./write";

const kKeptAnswers = 400;
const kBetweenChanges = 3000; // milliseconds
const kKeptTools = 24;

/** Talks to `attend view`. Responses are cached until the model changes, which happens only while it is trained; the
 * oldest are evicted first. */
export class ServerSource implements Source {
  readonly kind = "server";
  changed = () => {};
  private events: EventSource | null = null; // of a training, shared by all listeners
  private listeners = new Set<(event: TrainingEvent) => void>();
  private pending = 0; // timer of the next call of changed()
  private kept = new Map<string, Promise<unknown>>();
  private requests = new Map<string, RunRequest>(); // by run id
  private renamed = new Map<string, string>(); // runs the server has dropped → the run that was computed again

  private tools = new Map<string, unknown>(); // finished results

  has(_feature: Feature): boolean {
    return true;
  }

  async info(): Promise<Info> {
    const info = await this.json<Info>("/api/info");
    if (info.training) this.follow((event) => this.take(event));
    return info;
  }

  /** A snapshot means that the model has new weights: every earlier answer is out of date. */
  private take(event: TrainingEvent): void {
    if (event.type !== "snapshot" && event.type !== "done") return;
    this.kept.clear();
    this.tools.clear();
    this.pending ||= window.setTimeout(() => {
      this.pending = 0;
      this.changed();
    }, kBetweenChanges);
  }

  run(request: RunRequest): Promise<Run> {
    return this.keep("run " + JSON.stringify(request), async () => {
      const run = await this.post<Run>("/api/runs", request);
      this.requests.set(run.id, request);
      return run;
    });
  }

  async upload(picture: Blob, name: string): Promise<string> {
    const path = `/api/pictures?name=${encodeURIComponent(name.slice(0, 200))}`;
    return (await this.json<{ id: string }>(path, { method: "POST", body: picture })).id;
  }

  runById(id: string): Promise<Run> {
    return this.ofRun(id, "");
  }

  array(run: string, name: string, part: Part = {}): Promise<Grid> {
    const ranges = [part.rows && `rows=${part.rows.join(":")}`, part.columns && `columns=${part.columns.join(":")}`];
    const query = [`name=${encodeURIComponent(name)}`, ...ranges].filter(Boolean).join("&");
    return this.keep(`${run} ${query}`, () =>
      this.again(run, async (id) => readGrid(await this.fetch(`/api/runs/${id}/array?${query}`))),
    );
  }

  async heads(run: string): Promise<HeadSummary[]> {
    return (await this.ofRun<{ heads: HeadSummary[] }>(run, "/heads")).heads;
  }

  effects(request: RunRequest): Promise<HeadEffect[]> {
    return this.keep("effects " + JSON.stringify(request), async () => {
      return (await this.post<{ effects: HeadEffect[] }>("/api/effects", request)).effects;
    });
  }

  stats(run: string, attention: number, head: number): Promise<HeadStats> {
    return this.ofRun(run, `/stats?attention=${attention}&head=${head}`);
  }

  alignment(run: string, layer: string, head: string): Promise<Alignment> {
    return this.ofRun(run, `/alignment?layer=${layer}&head=${head}`);
  }

  async generate(request: GenerateRequest, line: (line: GenerateLine) => void, signal: AbortSignal): Promise<void> {
    const response = await this.fetch("/api/generate", { ...postOf(request), signal });
    await readLines(response, (text) => line(checked(JSON.parse(text) as GenerateLine)));
  }

  async logits(run: string, place: number): Promise<Logits> {
    const found = await this.ofRun<{ top: Logits["top"]; sorted: string }>(run, `/logits?place=${place}`);
    const bytes = Uint8Array.from(atob(found.sorted), (character) => character.charCodeAt(0));
    return { top: found.top, sorted: new Float32Array(bytes.buffer) };
  }

  async tool<N extends ToolName>(
    name: N,
    request: ToolRequest,
    watch: ToolWatch<N>,
    signal: AbortSignal,
  ): Promise<ToolResults[N]> {
    const response = await this.fetch(`/api/tools/${name}`, { ...postOf(request), signal });
    let result: ToolResults[N] | undefined;
    await readLines(response, (text) => {
      type Line = { done?: number; total?: number; partial?: ToolResults[N]; result?: ToolResults[N]; error?: string };
      const line = checked(JSON.parse(text) as Line);
      if (line.result) result = line.result;
      else if (line.partial) watch.partial?.(line.partial);
      else watch.step(line.done ?? 0, line.total ?? 0);
    });
    if (!result) throw new SourceError("the tool ended without a result", 500);
    this.tools.set(toolKey(name, request), result);
    if (this.tools.size > kKeptTools) this.tools.delete(this.tools.keys().next().value!);
    return result;
  }

  toolResult<N extends ToolName>(name: N, request: ToolRequest): ToolResults[N] | null {
    return (this.tools.get(toolKey(name, request)) as ToolResults[N] | undefined) ?? null;
  }

  async write(request: WriteRequest, piece: (piece: WrittenPiece) => void, signal: AbortSignal): Promise<void> {
    const response = await this.fetch(pathOf(request), { ...postOf(bodyOf(request)), signal });
    await readEvents(response, piece, signal);
  }

  async tokenTexts(model: string, ids: number[]): Promise<string[]> {
    return (await this.post<{ pieces: string[] }>("/detokenize", { model, tokens: ids })).pieces;
  }

  embeddings(model: string, kind: "tokens" | "positions", limit: number, also?: number): Promise<Embeddings> {
    const more = also === undefined ? "" : `&also=${also}`;
    return this.keepJson(`/api/models/${model}/embeddings?kind=${kind}&limit=${limit}${more}`);
  }

  async tokens(model: string, text: string): Promise<{ id: number; text: string }[]> {
    const found = await this.keepJson<{ tokens: { id: number; text: string }[] }>(
      `/api/models/${model}/tokens?contains=${encodeURIComponent(text)}`,
    );
    return found.tokens;
  }

  neighbours(model: string, token: number, count: number): Promise<Neighbours> {
    return this.keepJson(`/api/models/${model}/neighbours?token=${token}&count=${count}`);
  }

  training(model: string): Promise<Training> {
    return this.json(`/api/training?model=${encodeURIComponent(model)}`);
  }

  follow(event: (event: TrainingEvent) => void): () => void {
    this.listeners.add(event);
    if (!this.events) {
      this.events = new EventSource("/api/training/events");
      this.events.onmessage = (message) => {
        const told = JSON.parse(message.data as string) as TrainingEvent;
        for (const listener of [...this.listeners]) listener(told);
        if (told.type === "done") this.events!.close();
      };
    }
    return () => this.listeners.delete(event);
  }

  async followSentence(text: string, target: string): Promise<void> {
    await this.post("/api/training/sentence", target ? { text, target } : { text });
  }

  private ofRun<T>(run: string, rest: string): Promise<T> {
    return this.keep(`${run}${rest}`, () => this.again(run, (id) => this.json<T>(`/api/runs/${id}${rest}`)));
  }

  /** The server keeps only the last few runs. If it has dropped this one, computes it again, once. */
  private async again<T>(run: string, ask: (id: string) => Promise<T>): Promise<T> {
    try {
      return await ask(this.renamed.get(run) ?? run);
    } catch (error) {
      const request = this.requests.get(run);
      if (!(error instanceof SourceError) || error.status !== 404 || !request) throw error;
      const fresh = await this.post<Run>("/api/runs", request);
      this.renamed.set(run, fresh.id);
      return ask(fresh.id);
    }
  }

  private keepJson<T>(path: string): Promise<T> {
    return this.keep(path, () => this.json<T>(path));
  }

  private keep<T>(key: string, make: () => Promise<T>): Promise<T> {
    const found = this.kept.get(key) as Promise<T> | undefined;
    const answer = found ?? make();
    this.kept.delete(key);
    this.kept.set(key, answer);
    if (!found) answer.catch(() => this.kept.delete(key));
    if (this.kept.size > kKeptAnswers) this.kept.delete(this.kept.keys().next().value!);
    return answer;
  }

  private async json<T>(path: string, options?: RequestInit): Promise<T> {
    return (await (await this.fetch(path, options)).json()) as T;
  }

  private post<T>(path: string, body: unknown): Promise<T> {
    return this.json(path, postOf(body));
  }

  private async fetch(path: string, options?: RequestInit): Promise<Response> {
    const response = await fetch(path, options).catch((error: unknown) => {
      throw error instanceof TypeError ? new Unreachable("the server does not respond") : error;
    });
    if (response.ok) return response;
    const answer = (await response.json().catch(() => ({}))) as { error?: string | { message: string } };
    const message = typeof answer.error === "object" ? answer.error.message : answer.error;
    throw new SourceError(message ?? `${response.status} ${response.statusText}`, response.status);
  }
}

function postOf(body: unknown): RequestInit {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
}

function toolKey(name: ToolName, request: ToolRequest): string {
  return `${name} ${JSON.stringify(request)}`;
}

/** Calls back for each line of a stream. */
async function readLines(response: Response, line: (text: string) => void): Promise<void> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop()!;
    for (const text of lines) if (text.trim()) line(text);
    if (done) return;
  }
}

function checked<T extends { error?: string }>(line: T): T {
  if (line.error) throw new SourceError(line.error, 500);
  return line;
}

async function readGrid(response: Response): Promise<Grid> {
  const shape = (response.headers.get("X-Shape") ?? "").split(",").map(Number);
  return new Grid(new Float32Array(await response.arrayBuffer()), shape);
}
