// The page's whole state. It is kept in the address after '#', so that a view can be shared as a link.

export const kViews = [
  "heads",
  "model",
  "matrix",
  "neurons",
  "steps",
  "alignment",
  "generation",
  "embeddings",
  "compare",
  "training",
  "ablate",
] as const;
export type ViewName = (typeof kViews)[number];

export interface State {
  view: ViewName;
  model: string; // "": the first
  text: string; // "": the model's example
  target: string; // "": the example's target, or the model's translation
  second: string; // of a sentence pair
  picture: string; // id of an uploaded picture; "": the model's example
  layer: number; // index of the selected attention; -1: the default, see attentionOf
  heads: number[]; // heads shown in Heads; empty: all
  head: number; // the head of views that show one
  query: number; // token indices
  key: number;
  words: boolean; // sub-words grouped into words
  threshold: number; // smallest weight drawn in Heads
  pair: string; // Heads of a sentence pair: "ab" shows only lines from the first sentence to the second
  model2: string; // the second half of Compare
  text2: string;
  layer2: number;
  head2: number;
  unit: "" | "words" | "tokens"; // Alignment; "": words, unless they are too few
  align: string; // Alignment: layer and head, "all" or "1.0"
  beam: number;
  length: number;
  temperature: number;
  seed: number;
  kind: "tokens" | "positions"; // Embeddings
  token: number; // Embeddings: selected token
  step: number; // Training: step; -1: the latest
  off: string; // Ablate: heads as "attention.head", "0.1,2.3"
  held: string; // Ablate: tokens as "side.index", "0.3"
  zoom: string; // Matrix and Embeddings: "x,y,scale"; "": not zoomed
  lang: "" | "en" | "zh"; // "": the browser's
  theme: "" | "light" | "dark";
}

export const kDefaults: State = {
  view: "heads",
  model: "",
  text: "",
  target: "",
  second: "",
  picture: "",
  layer: -1,
  heads: [],
  head: 0,
  query: 0,
  key: 0,
  words: false,
  threshold: 0.05,
  pair: "",
  model2: "",
  text2: "",
  layer2: -1,
  head2: 0,
  unit: "",
  align: "all",
  beam: 4,
  length: 64,
  temperature: 0,
  seed: 1,
  kind: "tokens",
  token: -1,
  step: -1,
  off: "",
  held: "",
  zoom: "",
  lang: "",
  theme: "",
};

const kChoices: Partial<Record<keyof State, readonly string[]>> = {
  view: kViews,
  kind: ["tokens", "positions"],
  lang: ["en", "zh"],
  theme: ["light", "dark"],
  unit: ["words", "tokens"],
  pair: ["aa", "ab", "ba", "bb"],
};

/** Parses the address. Missing and invalid values get their defaults. */
export function parseState(hash: string): State {
  const state: Record<string, unknown> = { ...kDefaults };
  for (const [key, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!(key in kDefaults)) continue;
    const parsed = parseValue(key as keyof State, value);
    if (parsed !== undefined) state[key] = parsed;
  }
  return state as unknown as State;
}

function parseValue(key: keyof State, value: string): unknown {
  const usual = kDefaults[key];
  const choices = kChoices[key];
  if (choices) return choices.includes(value) ? value : undefined;
  if (typeof usual === "boolean") return value === "1";
  if (typeof usual === "number") return value !== "" && Number.isFinite(Number(value)) ? Number(value) : undefined;
  if (Array.isArray(usual))
    return value
      .split(",")
      .map(Number)
      .filter((n) => Number.isInteger(n) && n >= 0);
  return value;
}

/** The address of a state: values that differ from the defaults, in a fixed order. */
export function formatState(state: State): string {
  const parts = new URLSearchParams();
  for (const key of Object.keys(kDefaults) as (keyof State)[]) {
    const value = state[key];
    const text = typeof value === "boolean" ? (value ? "1" : "0") : String(value);
    if (key === "view" || text !== String(kDefaults[key])) parts.set(key, text === "true" ? "1" : text);
  }
  return "#" + parts.toString();
}

/** Parses pairs of numbers such as "0.1,2.3", ignoring anything else. */
export function parsePairs(text: string): [number, number][] {
  return [...text.matchAll(/(\d+)\.(\d+)/g)].map((match) => [Number(match[1]), Number(match[2])]);
}

export function formatPairs(pairs: [number, number][]): string {
  return pairs.map((pair) => pair.join(".")).join(",");
}

/** Adds the pair, or removes it if it is present. */
export function togglePair(text: string, first: number, second: number): string {
  const pairs = parsePairs(text);
  const rest = pairs.filter(([a, b]) => a !== first || b !== second);
  return formatPairs(rest.length < pairs.length ? rest : [...pairs, [first, second]]);
}
