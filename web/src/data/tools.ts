// Requests and results of the tools of interpretability, /api/tools/NAME. docs/inspect-format.md explains each field.
import type { Candidate, RunRequest, Side } from "./types";

export type ToolName = "lens" | "attribute" | "patch" | "detect" | "probe";

export interface ToolRequest extends RunRequest {
  other?: string;
  otherPicture?: string;
  wanted?: string;
  contrast?: string;
  output?: number;
  kinds?: string[];
  top?: number;
  first?: number;
  places?: number;
  baseline?: "mean" | "zero";
  module?: string;
  head?: number;
  words?: string[];
}

export interface ClassName {
  id: number;
  text: string;
}

export interface LensCell {
  top: Candidate[];
  p: number; // of the reference
  rank: number; // of the reference; 0: the best
  entropy: number; // nats
}

export interface Lens {
  sides: Side[];
  side: number;
  points: string[];
  places: { index: number; reference: ClassName; isTrue: boolean; cells: LensCell[] }[];
}

export interface Goal {
  output: number;
  wanted: ClassName;
  contrast: ClassName | null;
}

export interface LogitPart {
  kind: "token" | "position" | "head" | "feed_forward" | "bias";
  module: string;
  layer: number;
  head: number;
  value: number;
}

export interface Attribution {
  sides: Side[];
  goal: Goal;
  value: number;
  parts: LogitPart[]; // empty for a recurrent model
  remainder: number | null;
  baseline: number;
  gradient: number[][];
  integrated: number[][];
  error: number;
  steps: number;
}

export interface PatchMap {
  kind: "residual" | "attention" | "cross" | "feed_forward" | "head";
  stack: string;
  side: number;
  points: string[];
  columns: number;
  values: number[][]; // while the tool works, the last rows are shorter or missing
  shares: number[][];
}

export interface PatchResult {
  sides: Side[];
  other: Side[];
  goal: Goal;
  value: number;
  otherValue: number;
  maps: PatchMap[];
}

export type HeadKind = "previous" | "duplicate" | "induction" | "first" | "separator" | "positional" | "alignment";

export interface DetectedHead {
  attention: number;
  module: string;
  head: number;
  kinds: HeadKind[];
  offset: number;
  text: Record<HeadKind, number | null>;
  probe: Record<HeadKind, number | null>;
}

export interface Detection {
  threshold: number;
  probeTokens: number;
  heads: DetectedHead[];
}

export interface Word {
  id: number;
  text: string;
  value: number;
}

export interface Circuits {
  module: string;
  head: number;
  copying: number | null;
  sampled: number;
  tokens: { token: ClassName; raises: Word[]; lowers: Word[]; seeks: Word[]; avoids: Word[] }[];
}

export interface ToolResults {
  lens: Lens;
  attribute: Attribution;
  patch: PatchResult;
  detect: Detection;
  probe: Circuits;
}

/** Follows the work of a tool. */
export interface ToolWatch<N extends ToolName> {
  step: (done: number, total: number) => void;
  partial?: (result: ToolResults[N]) => void; // as much of the result as is known
}
