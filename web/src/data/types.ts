// The types of the API between the page and src/inspect, src/serve. docs/inspect-format.md explains each field.

export interface Info {
  version: string;
  models: Model[];
  training: boolean;
}

export interface Model {
  id: string;
  name: string;
  architecture: string;
  kind: "translation" | "language" | "classification" | "image";
  vocab_size: number;
  context: number;
  parameters: number;
  beam?: number; // beam size by which the page decodes
  example: { text: string; target: string | null };
  labels?: string[];
  training?: boolean; // whether a training record exists; absent in a file
  serves?: { name: string; chat: boolean }; // name in OpenAI's API, and whether there is a chat template
}

export interface Ablation {
  heads: { attention: number; head: number }[];
  tokens: { side: number; index: number }[];
}

/** A direction that is added to an activation: toward one text, away from another. */
export interface Steering {
  point: string;
  toward: string;
  away: string;
  strength: number;
}

export interface RunRequest {
  model: string;
  text?: string;
  ids?: number[]; // token ids instead of the text
  picture?: string; // id of an uploaded picture; absent: the model's example
  target?: string;
  target_ids?: number[]; // token ids instead of the target
  second?: string;
  beam?: number; // of a target that the model generates
  length?: number;
  ablate?: Ablation;
  steer?: Steering[];
}

export interface Token {
  id: number;
  text: string; // readable text
  space: boolean; // a space precedes it
  kind: "text" | "byte" | "special";
  start: number; // UTF-8 byte offsets in the side's text
  end: number;
  word: number; // tokens of one word share it; -1 for special tokens
}

/** The image as the model saw it. Token 0 stands for the whole image; then come the patches, row by row. */
export interface Patches {
  rows: number;
  columns: number;
  data: string; // the image as a data: URL
}

export interface Side {
  name: "source" | "target" | "text" | "image";
  text: string; // for an image, its name
  tokens: Token[];
  picture?: Patches;
}

export interface Attention {
  index: number;
  path: string;
  stack: "encoder" | "decoder" | "stack" | "rnn";
  layer: number;
  kind: "self" | "cross";
  causal: boolean;
  window?: number; // 0: unlimited
  softcap?: number; // 0: off
  bias?: "none" | "relative" | "alibi"; // added to the scores
  score: "dot" | "additive";
  heads: number;
  key_heads: number;
  head_dim: number;
  value_dim: number;
  scale: number;
  querySide: number;
  keySide: number;
  queries: number;
  keys: number;
  off: number[];
}

export interface Candidate {
  id: number;
  text: string;
  p: number;
  logit?: number; // of a run's output
}

export type Output =
  // totals: log Σ e^logit of each row; masked: a row predicts the token at its place instead of the next one
  | { kind: "tokens"; side: number; rows: Candidate[][]; totals?: number[]; masked?: boolean }
  | { kind: "labels"; items: { label: string; p: number; logit?: number }[]; values?: boolean }
  | { kind: "none" };

/** How a stack of layers computes; its parameters' names begin with "<name>.layers.<i>.". */
export interface StackArithmetic {
  name: Attention["stack"];
  layers: number;
  normFirst: boolean;
  norm: "layer" | "rms";
  eps: number;
  activation: string;
  gated: boolean;
  finalNorm: boolean;
  positions: "learned" | "sinusoidal" | "rotary" | "alibi" | "relative" | "none";
  embeddingScale: number;
  embeddingNorm: string; // prefix of a norm's parameters; "": no norm
  rotary?: { frequencies: number[]; interleaved: boolean };
  queryNormEps?: number;
}

export interface Arithmetic {
  stacks: StackArithmetic[];
  outputScale: number;
  outputBias: string;
  pooling: "" | "mean" | "first";
  pooler: "" | "tanh" | "relu";
  scores: "" | "shares" | "each" | "values";
  maskedActivation: string; // "": no layer before the output layer for masked words
  cell: string;
  score: "" | "additive" | "dot" | "general";
}

export interface Run {
  id: string;
  model: string;
  sides: Side[];
  attention: Attention[];
  values: string[];
  parameters?: string[]; // biases and norms' weights
  arithmetic?: Arithmetic;
  output: Output;
  interventions: { ablate: Ablation; steer: Steering[] };
  milliseconds: number;
}

/** The logits after one place: all of them in descending order, and the words of the first ones. */
export interface Logits {
  top: { id: number; text: string }[];
  sorted: Float32Array;
}

export interface HeadSummary {
  attention: number;
  head: number;
  entropy: number; // nats, mean over rows
  distance: number; // mean |i - j|, weighted
  peak: number; // mean of the rows' largest weights
}

export interface HeadEffect {
  attention: number;
  head: number;
  loss: number; // mean decrease of the predictions' log-probability
}

export interface HeadStats {
  entropy: number[];
  rowTotals: number[];
  columnTotals: number[];
}

export interface Alignment {
  source: string[];
  target: string[];
  weights: number[][]; // [target, source]
  links: [number, number][]; // [source, target]
}

export interface GenerateRequest {
  model: string;
  text: string;
  beam: number;
  length: number;
  candidates: number;
  temperature?: number;
  seed?: number;
}

export interface BeamNode {
  id: number;
  parent: number;
  token: Token;
  p: number;
  logp: number; // of the whole hypothesis
  finished: boolean;
  kept: boolean;
  candidates: Candidate[];
  looked: { attention: number; weights: number[] }[];
}

/** One line of the generation stream: first the sides, then one line per step, then the end. */
export interface GenerateLine {
  sides?: Side[];
  attention?: Omit<Attention, "queries">[];
  step?: number;
  nodes?: BeamNode[];
  done?: boolean;
  text?: string;
  milliseconds?: number;
  error?: string;
}

export interface Embeddings {
  points: { id: number; text: string; x: number; y: number }[];
  total?: number; // number of the model's vectors
  explained: [number, number];
}

export interface Neighbour {
  id: number;
  text: string;
  value: number;
}

export interface Neighbours {
  token: { id: number; text: string };
  dot: Neighbour[];
  cosine: Neighbour[];
}

export interface TrainingStep {
  step: number;
  loss: number;
  lr: number;
  tokensPerSecond: number;
}

export interface Validation {
  step: number;
  loss: number;
  perplexity: number;
  bleu?: number;
}

export interface Training {
  running: boolean;
  steps: TrainingStep[];
  validation: Validation[];
  total: number;
  secondsLeft: number;
  snapshots: { run: string; step: number }[];
  labelSmoothing?: number; // part of the training loss, but not of the validation loss
  text: string;
  target: string;
}

export type TrainingEvent =
  | ({ type: "step" } & TrainingStep & { secondsLeft?: number })
  | ({ type: "validation" } & Validation)
  | { type: "snapshot"; run: string; step: number }
  | { type: "sentence"; text: string; target: string }
  | { type: "done" };

/** The data that `attend inspect -o page.html` embeds in the page. */
export interface InspectFile {
  format: "attend-inspect";
  version: number;
  info: Info;
  run: Run;
  heads?: { heads: HeadSummary[] };
  stats?: Record<string, HeadStats>;
  alignment?: Alignment;
  embeddings?: Embeddings;
  positions?: Embeddings;
  training?: Training;
  generation?: GenerateLine[];
  arrays: Record<string, { shape: number[]; data: string }>;
}
