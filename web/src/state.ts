// Everything that decides what is on the screen, kept in the address after '#', so that a view can be shared.

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
  target: string; // "": the example's, or the model's own translation
  second: string; // of a sentence pair
  picture: string; // an uploaded one's id; "": the model's example
  layer: number; // index of the attention looked at; -1: the one that tells most
  heads: number[]; // shown in Heads; empty: all
  head: number; // looked at where one is shown
  query: number; // token indices
  key: number;
  words: boolean; // sub-words grouped into words
  threshold: number; // smallest weight drawn in Heads
  pair: string; // Heads of a sentence pair: "ab" shows only lines from the first to the second
  model2: string; // the other half of Compare
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
  token: number; // chosen there
  step: number; // of training; -1: the latest
  off: string; // Ablate: heads "0.1,2.3", attention and head
  held: string; // Ablate: tokens "0.3", side and index
  zoom: string; // Matrix and Embeddings: "x,y,scale"; "": all of it
  lang: "" | "en" | "zh"; // "": as the browser says
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

/** Reads what the address says; what it does not say, or says wrongly, is the default. */
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

/** The address of a state: only what differs from the defaults, in a fixed order. */
export function formatState(state: State): string {
  const parts = new URLSearchParams();
  for (const key of Object.keys(kDefaults) as (keyof State)[]) {
    const value = state[key];
    const text = typeof value === "boolean" ? (value ? "1" : "0") : String(value);
    if (key === "view" || text !== String(kDefaults[key])) parts.set(key, text === "true" ? "1" : text);
  }
  return "#" + parts.toString();
}

/** "0.1,2.3" as pairs of numbers; anything else in it is left out. */
export function parsePairs(text: string): [number, number][] {
  return [...text.matchAll(/(\d+)\.(\d+)/g)].map((match) => [Number(match[1]), Number(match[2])]);
}

export function formatPairs(pairs: [number, number][]): string {
  return pairs.map((pair) => pair.join(".")).join(",");
}

/** Puts the pair in, or takes it out. */
export function togglePair(text: string, first: number, second: number): string {
  const pairs = parsePairs(text);
  const rest = pairs.filter(([a, b]) => a !== first || b !== second);
  return formatPairs(rest.length < pairs.length ? rest : [...pairs, [first, second]]);
}
