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
import type { Grid } from "./grid";
import type { WriteRequest, WrittenPiece } from "./write";
import type { ToolName, ToolRequest, ToolResults, ToolWatch } from "./tools";

/** Features a source may lack: a file written by `attend inspect` holds one run and little else. */
export type Feature =
  | "runs"
  | "generation"
  | "chat"
  | "embeddings"
  | "neighbours"
  | "training"
  | "alignment"
  | "tiles"
  | "compare"
  | "array"
  | "logits"
  | "tools";

/** A part of a matrix: half-open ranges. */
export interface Part {
  rows?: [number, number];
  columns?: [number, number];
}

/** The source of the page's data: a server, or the page's own file. */
export interface Source {
  readonly kind: "server" | "file";
  /** Called when answers have changed: the model was trained further. */
  changed: () => void;
  has(feature: Feature): boolean;
  info(): Promise<Info>;
  run(request: RunRequest): Promise<Run>;
  /** Uploads a PNG or JPEG and returns its id. */
  upload(picture: Blob, name: string): Promise<string>;
  /** A run that this page did not request: a training snapshot. */
  runById(id: string): Promise<Run>;
  /** An array by its name in docs/inspect-format.md, such as "weights/0/1". */
  array(run: string, name: string, part?: Part): Promise<Grid>;
  heads(run: string): Promise<HeadSummary[]>;
  /** What switching off each head does to the predictions, largest effect first; empty if that would take long. */
  effects(request: RunRequest): Promise<HeadEffect[]>;
  stats(run: string, attention: number, head: number): Promise<HeadStats>;
  alignment(run: string, layer: string, head: string): Promise<Alignment>;
  /** All logits after a place. */
  logits(run: string, place: number): Promise<Logits>;
  /** Runs a tool of interpretability. The result is kept: toolResult() then returns it. */
  tool<N extends ToolName>(
    name: N,
    request: ToolRequest,
    watch: ToolWatch<N>,
    signal: AbortSignal,
  ): Promise<ToolResults[N]>;
  toolResult<N extends ToolName>(name: N, request: ToolRequest): ToolResults[N] | null;
  generate(request: GenerateRequest, line: (line: GenerateLine) => void, signal: AbortSignal): Promise<void>;
  /** Writes an answer, a continuation or a translation. Calls `piece` for each new part of the text. */
  write(request: WriteRequest, piece: (piece: WrittenPiece) => void, signal: AbortSignal): Promise<void>;
  /** The texts of single tokens. */
  tokenTexts(model: string, ids: number[]): Promise<string[]>;
  /** `also`: a token that is projected in addition to the first `limit` ones. */
  embeddings(model: string, kind: "tokens" | "positions", limit: number, also?: number): Promise<Embeddings>;
  /** The first few tokens of the vocabulary whose text contains a text. */
  tokens(model: string, text: string): Promise<{ id: number; text: string }[]>;
  neighbours(model: string, token: number, count: number): Promise<Neighbours>;
  training(model: string): Promise<Training>;
  /** Calls back for each event until the returned function is called. */
  follow(event: (event: TrainingEvent) => void): () => void;
  followSentence(text: string, target: string): Promise<void>;
}

/** An error response of the server, with its one-line message. */
export class SourceError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** The server does not respond: it has ended, or the network is down. */
export class Unreachable extends Error {}

/** The source does not have the requested data. */
export class Unavailable extends Error {
  constructor(readonly feature: Feature) {
    super(feature);
  }
}
