// The page's whole state. It is kept in the address after '#', so that a view can be shared as a link.

export const kViews = [
  "flow",
  "heads",
  "model",
  "matrix",
  "neurons",
  "steps",
  "alignment",
  "chat",
  "generation",
  "embeddings",
  "compare",
  "training",
  "ablate",
  "lens",
  "attribute",
  "patch",
  "probe",
  "steer",
] as const;
export type ViewName = (typeof kViews)[number];

export interface State {
  view: ViewName;
  model: string; // "": the first
  text: string; // "": the model's example
  target: string; // "": the example's target, or the model's translation
  second: string; // of a sentence pair
  ids: string; // token ids "5,17,3" instead of the text or, for a translation model, of the target
  picture: string; // id of an uploaded picture; "": the model's example
  // The selection, which all views share; see selection.ts for the defaults.
  layer: number; // index of the attention; -1: the default
  head: number; // -1: the default; Heads then shows all
  query: number; // token indices; -1: the default
  key: number;
  heads: number[]; // several heads shown in Heads; empty: the selected one
  words: boolean; // sub-words grouped into words
  threshold: number; // smallest weight drawn in Heads
  pair: string; // Heads of a sentence pair: "ab" shows only lines from the first sentence to the second
  model2: string; // the second half of Compare
  text2: string;
  layer2: number;
  head2: number;
  unit: "" | "words" | "tokens"; // Alignment; "": words, unless they are too few
  align: string; // Alignment: layer and head, "all" or "1.0"; "": the selection, or all
  beam: number; // Generation, and the generated target; 0: the model's default
  length: number; // Generation; 0: 256 for a translation, 64 for a language model
  temperature: number;
  seed: number;
  kind: "tokens" | "positions"; // Embeddings
  token: number; // Embeddings: selected token
  points: number; // Embeddings: number of tokens
  step: number; // Training: step; -1: the latest
  off: string; // Ablate: heads as "attention.head", "0.1,2.3"; "none"; "": the head that matters most
  held: string; // Ablate: tokens as "side.index", "0.3"
  scale: "" | "root" | "log"; // Matrix: colours; "": by length
  zoom: string; // Matrix and Embeddings: "x,y,scale"; "": not zoomed
  heat: number; // Flow: temperature
  topK: number; // Flow; 0: all
  topP: number; // Flow; 1: all
  place: number; // Lens, Attribute, Patch: output place; -1: the last
  row: number; // Lens: layer; -1: the last
  show: string; // Lens: "rank"; Patch: a kind of activations
  wanted: string; // Attribute, Patch: the word in question; "": the most likely
  contrast: string; // Attribute, Patch: the word whose logit is subtracted
  other: string; // Patch: the other text
  otherPicture: string; // Patch of an image model: id of the other picture
  wordList: string; // Probe: words to probe; "": the text's tokens
  steer: string; // the whole page: the text to steer toward; "": no steering
  away: string;
  steerAt: string; // name of the activation
  strength: number;
  lang: "" | "en" | "zh"; // "": the browser's
  theme: "" | "light" | "dark";
}

export const kDefaults: State = {
  view: "flow",
  model: "",
  text: "",
  target: "",
  second: "",
  ids: "",
  picture: "",
  layer: -1,
  head: -1,
  query: -1,
  key: -1,
  heads: [],
  words: false,
  threshold: 0.05,
  pair: "",
  model2: "",
  text2: "",
  layer2: -1,
  head2: -1,
  unit: "",
  align: "",
  beam: 0,
  length: 0,
  temperature: 0,
  seed: 1,
  kind: "tokens",
  token: -1,
  points: 2000,
  step: -1,
  off: "",
  held: "",
  scale: "",
  zoom: "",
  heat: 1,
  topK: 0,
  topP: 1,
  place: -1,
  row: -1,
  show: "",
  wanted: "",
  contrast: "",
  other: "",
  otherPicture: "",
  wordList: "",
  steer: "",
  away: "",
  steerAt: "",
  strength: 4,
  lang: "",
  theme: "",
};

const kChoices: Partial<Record<keyof State, readonly string[]>> = {
  view: kViews,
  kind: ["tokens", "positions"],
  lang: ["en", "zh"],
  theme: ["light", "dark"],
  unit: ["words", "tokens"],
  scale: ["root", "log"],
  pair: ["aa", "ab", "ba", "bb"],
};

/** The range of each number; all but kFractions are whole numbers. */
const kRanges: Partial<Record<keyof State, [number, number]>> = {
  threshold: [0, 0.5],
  beam: [0, 8],
  length: [0, 256],
  temperature: [0, 2],
  seed: [1, 1e6],
  points: [1, 20_000],
  heat: [0, 3],
  topK: [0, 100],
  topP: [0.05, 1],
  strength: [-20, 20],
};
const kFractions: (keyof State)[] = ["threshold", "temperature", "heat", "topP", "strength"];
const kPatterns: Partial<Record<keyof State, RegExp>> = {
  ids: /^\d+(,\d+)*$/,
  align: /^(all|\d+(\.\d+)?)$/,
  off: /^(none|\d+\.\d+(,\d+\.\d+)*)$/,
  held: /^\d+\.\d+(,\d+\.\d+)*$/,
  zoom: /^-?[\d.]+,-?[\d.]+,[\d.]+$/,
};

/** What belongs to one input: another text, picture or model begins without it. */
export const kUnpinned: Partial<State> = { query: -1, key: -1, held: "", zoom: "", place: -1, row: -1 };
/** What belongs to one model. */
export const kUnselected: Partial<State> = {
  ...kUnpinned,
  ...{ text: "", target: "", second: "", ids: "", picture: "" },
  ...{ layer: -1, head: -1, heads: [], layer2: -1, head2: -1, off: "", token: -1, step: -1, align: "" },
  ...{ wanted: "", contrast: "", other: "", otherPicture: "", wordList: "", steer: "", away: "", steerAt: "", show: "" },
};
/** Changes that the back button undoes. */
export const kVisits: (keyof State)[] = ["view", "model", "text", "target", "second", "ids", "picture", "model2", "text2"];

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
  if (typeof usual === "number") return numberOf(key, value);
  const pattern = kPatterns[key];
  if (pattern && !pattern.test(value)) return undefined;
  if (Array.isArray(usual))
    return value
      .split(",")
      .map(Number)
      .filter((n) => Number.isInteger(n) && n >= 0);
  return value;
}

function numberOf(key: keyof State, value: string): number | undefined {
  const parsed = Number(value);
  if (value.trim() === "" || !Number.isFinite(parsed)) return undefined;
  const [least, most] = kRanges[key] ?? [-1, Number.MAX_SAFE_INTEGER];
  const whole = kFractions.includes(key) ? parsed : Math.round(parsed);
  return Math.min(most, Math.max(least, whole));
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
