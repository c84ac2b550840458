import { Unreachable, SourceError } from "./source";

export interface ChatMessage {
  role: "system" | "user" | "assistant";
  content: string;
}

/** A text to write: the answer to messages, or else the continuation or translation of a prompt. */
export interface WriteRequest {
  model: string; // name in OpenAI's API
  messages?: ChatMessage[];
  prompt?: string;
  maxTokens: number;
  temperature: number;
  topP: number;
  topK: number; // 0: all
  seed: number | null; // null: random
  stop: string;
  beam: number; // above 1: beam search, which has no candidates
  looks: boolean; // where each token looked
}

export interface WordCandidate {
  text: string;
  logp: number;
}

/** The attention weights of a token, averaged over heads: positions of the prompt and the text, or of the source. */
export type Looks = [position: number, weight: number][];

export interface WrittenToken {
  id: number;
  text: string;
  logp: number | null; // null: unknown, after beam search
  candidates: WordCandidate[]; // best first
  looks?: Looks;
}

export interface WrittenPiece {
  text: string;
  tokens: WrittenToken[];
  prompt?: number[]; // token ids that the model read; only in the first piece
  finish?: string;
}

const kCandidates = 8;
const kLooks = 4; // largest weights of each head

export function pathOf(request: WriteRequest): string {
  return request.messages ? "/v1/chat/completions" : "/v1/completions";
}

export function bodyOf(request: WriteRequest): Record<string, unknown> {
  const searches = request.beam > 1;
  return {
    model: request.model,
    ...(request.messages ? { messages: request.messages } : { prompt: request.prompt }),
    max_tokens: request.maxTokens,
    stream: true,
    return_token_ids: true,
    ...(request.stop ? { stop: request.stop } : {}),
    ...(searches ? { beam: request.beam } : sampling(request)),
  };
}

function sampling(request: WriteRequest): Record<string, unknown> {
  return {
    temperature: request.temperature,
    top_p: request.topP,
    top_k: request.topK,
    ...(request.seed === null ? {} : { seed: request.seed }),
    ...(request.messages ? { logprobs: true, top_logprobs: kCandidates } : { logprobs: kCandidates }),
    ...(request.looks ? { attend: { top: kLooks } } : {}),
  };
}

interface ChatLogprob {
  token: string;
  logprob: number;
  bytes: number[];
  top_logprobs: Omit<ChatLogprob, "top_logprobs">[];
}

interface TextLogprobs {
  tokens: string[];
  token_logprobs: number[];
  top_logprobs: Record<string, number>[];
}

interface Look {
  module: string;
  positions: number[];
  weights: number[];
}

interface Choice {
  text?: string;
  delta?: { content?: string };
  logprobs: { content: ChatLogprob[] } | TextLogprobs | null;
  attend?: { looked: Look[] }[];
  token_ids?: number[];
  prompt_token_ids?: number[];
  finish_reason: string | null;
}

/** Reads a stream of server-sent events up to its end mark. */
export async function readEvents(
  response: Response,
  piece: (piece: WrittenPiece) => void,
  signal: AbortSignal,
): Promise<void> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error: unknown) => {
      throw signal.aborted ? error : new Unreachable("the server does not respond");
    });
    const events = (rest + (value ?? "")).split("\n\n");
    rest = events.pop()!;
    for (const event of events) {
      if (!event.startsWith("data: ")) continue;
      if (event === "data: [DONE]") return;
      const chunk = JSON.parse(event.slice(6)) as { choices?: Choice[]; error?: { message: string } };
      if (chunk.error) throw new SourceError(chunk.error.message, 500);
      if (chunk.choices?.[0]) piece(pieceOf(chunk.choices[0]));
    }
    if (done) throw new Unreachable("the server does not respond");
  }
}

function pieceOf(choice: Choice): WrittenPiece {
  return {
    text: choice.delta?.content ?? choice.text ?? "",
    tokens: tokensOf(choice),
    ...(choice.prompt_token_ids ? { prompt: choice.prompt_token_ids } : {}),
    ...(choice.finish_reason ? { finish: choice.finish_reason } : {}),
  };
}

function tokensOf(choice: Choice): WrittenToken[] {
  const known = wordsOf(choice.logprobs);
  return (choice.token_ids ?? []).map((id, i) => {
    const looked = choice.attend?.[i]?.looked;
    return {
      ...(known[i] ?? { text: "", logp: null, candidates: [] }),
      id,
      ...(looked ? { looks: meanOf(looked) } : {}),
    };
  });
}

function wordsOf(logprobs: Choice["logprobs"]): Omit<WrittenToken, "id">[] {
  if (!logprobs) return [];
  if ("content" in logprobs)
    return logprobs.content.map((one) => ({
      text: textOf(one),
      logp: one.logprob,
      candidates: one.top_logprobs.map((other) => ({ text: textOf(other), logp: other.logprob })),
    }));
  return logprobs.tokens.map((name, i) => ({
    text: textOfName(name),
    logp: logprobs.token_logprobs[i]!,
    candidates: Object.entries(logprobs.top_logprobs[i]!)
      .map(([other, logp]) => ({ text: textOfName(other), logp }))
      .sort((a, b) => b.logp - a.logp),
  }));
}

/** The text of a token; the bytes of a part of a character in hexadecimal digits. */
function textOf({ token, bytes }: { token: string; bytes: number[] }): string {
  if (!token.includes("\ufffd") || bytes.length > 4) return token;
  return `<${bytes.map((byte) => byte.toString(16).padStart(2, "0")).join(" ")}>`;
}

/** The same for the names of completions: a part of a character is "bytes:\\xe5\\xae". */
function textOfName(name: string): string {
  const spelled = /^bytes:((?:\\x[0-9a-f]{2}|[ -~])+)$/.exec(name);
  if (!spelled || !name.includes("\\x")) return name;
  const bytes = spelled[1]!.replace(/\\x([0-9a-f]{2})|(.)/g, (_, hex?: string, plain?: string) =>
    `${hex ?? plain!.charCodeAt(0).toString(16)} `,
  );
  return `<${bytes.trim()}>`;
}

/** The mean over layers and heads; of a translation model, only of the layers that read the source. */
function meanOf(looked: Look[]): Looks {
  const cross = looked.filter((one) => one.module.includes("cross"));
  const counted = cross.length > 0 ? cross : looked;
  const sums = new Map<number, number>();
  for (const { positions, weights } of counted)
    positions.forEach((position, i) =>
      sums.set(position, (sums.get(position) ?? 0) + weights[i]! / counted.length),
    );
  return [...sums].sort((a, b) => b[1] - a[1]).slice(0, 5);
}
