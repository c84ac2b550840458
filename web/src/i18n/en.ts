import type { Feature } from "../data/source";
import type { Attention, Side } from "../data/types";
import type { StepName } from "../views/steps_formulas";
import type { ViewName } from "../state";
import type { StepText, ViewText } from "./index";
import { enSteps } from "./en_steps";

type Place = Pick<Attention, "stack" | "kind" | "layer" | "heads">;

const stack = (name: Attention["stack"]) =>
  ({ encoder: "Encoder", decoder: "Decoder", stack: "Layers", rnn: "Recurrent network" })[name];
const attention = (one: Place) =>
  one.stack === "rnn" ? "Attention" : `Layer ${one.layer} · ${one.kind === "self" ? "self" : "cross"}`;
const views: Record<ViewName, ViewText> = {
  heads: {
    name: "Heads",
    text: "Who looks at whom: each line is a weight, each colour a head. Point at a token to see only what it gives or gets.",
  },
  model: {
    name: "Model",
    text: "Every head of every layer at a glance. Patterns such as a diagonal or a single bright column say what a head is for.",
  },
  matrix: {
    name: "Matrix",
    text: "One head as a map: a row for each token that asks, a column for each that answers. Zoom in as far as single weights.",
  },
  neurons: {
    name: "Neurons",
    text: "Why a weight is what it is: the query and the key, dimension by dimension, and what each adds to their score.",
  },
  steps: { name: "Steps", text: "The whole arithmetic for one token, in order, with this model’s own numbers." },
  alignment: {
    name: "Alignment",
    text: "Which part of the source each part of the target came from. Framed cells are the alignment read from the weights.",
  },
  generation: {
    name: "Generation",
    text: "The text as the model writes it: what else it considered, where it looked, and the beam as a tree.",
  },
  embeddings: {
    name: "Embeddings",
    text: "The model’s vocabulary on a plane. Tokens that are used alike lie close together.",
  },
  compare: {
    name: "Compare",
    text: "Two models, two layers or two sentences side by side; pointing at one cell marks it in the other.",
  },
  training: { name: "Training", text: "How the model learned, or is learning now, and how its attention took shape." },
  ablate: {
    name: "Ablate",
    text: "Take something away and see what changes: a head that is switched off, or a token no one may look at.",
  },
};
const missing: Record<Feature, string> = {
  runs: "Other texts",
  generation: "A generation",
  embeddings: "The embeddings",
  neighbours: "Nearest neighbours",
  training: "A record of training",
  alignment: "An alignment",
  tiles: "This matrix",
  compare: "Another model or sentence",
  array: "These numbers",
};

export const en = {
  name: "English",
  views,
  steps: enSteps as Record<StepName, StepText>,
  skip: "Skip to the picture",
  viewsLabel: "Views",
  language: "Language",
  theme: "Colours",
  themes: { "": "As the system", light: "Light", dark: "Dark" } as Record<string, string>,
  model: "Model",
  text: "Text",
  target: "Target",
  targetHint: "empty: the model’s own translation",
  second: "Second sentence",
  secondHint: "optional, for a sentence pair",
  picture: "Picture",
  choosePicture: "Choose a picture",
  pictureHint: "PNG or JPEG; or drop one anywhere on this page",
  prediction: (labels: string) => `The model says: ${labels}`,
  run: "Show",
  busy: "Computing…",
  facts: (parameters: string, words: string, architecture: string) =>
    `${architecture} · ${parameters} parameters · vocabulary of ${words}`,
  factsOfPictures: (parameters: string, patches: number, architecture: string) =>
    `${architecture} · ${parameters} parameters · ${patches} patches`,
  timing: (milliseconds: number, tokens: number) =>
    `${tokens} tokens in ${milliseconds < 10 ? milliseconds.toFixed(1) : milliseconds.toFixed(0)} ms`,
  fileNote: "This page is a file that holds one run. “attend view MODEL” shows the model with any text.",
  save: "Save this view as",
  asTable: "The numbers as a table",
  missing: (feature: Feature) =>
    `${missing[feature]} cannot be had from this file; open the model with “attend view MODEL”.`,
  tooLong: "This view draws texts of up to about 1,000 tokens; Matrix shows longer ones.",
  stack,
  attention,
  attentionFull: (one: Place) =>
    one.stack === "rnn"
      ? "Attention"
      : `${one.stack === "stack" ? "Layer" : stack(one.stack)} ${one.layer}${one.stack === "stack" ? "" : ` · ${one.kind}`}`,
  side: (name: Side["name"]) => ({ source: "Source", target: "Target", text: "Text", image: "Image" })[name],
  layer: "Layer",
  heads: "Heads",
  headLabel: "Head",
  head: (index: number) => `Head ${index}`,
  switchedOff: "switched off",
  threshold: "Weights from",
  groupWords: "Whole words",
  sentences: "Sentences",
  pair: (which: "" | "aa" | "ab" | "ba" | "bb") =>
    ({ "": "All", aa: "First → first", ab: "First → second", ba: "Second → first", bb: "Second → second" })[which],
  asks: "asks",
  answers: "is looked at",
  query: "Query",
  key: "Key",
  weight: "Weight",
  score: "Score",
  token: "Token",
  tokens: "Tokens",
  positions: "Positions",
  rankedKey: (n: number) => `${n}. key`,
  topThree: "For each query and head, the three keys with the largest weights.",
  headsLabel: (layer: string, rows: number, columns: number) =>
    `Attention of ${layer}: ${rows} tokens on the left look at ${columns} on the right. Arrow keys move between tokens.`,
  headsHelp:
    "Arrow keys move between tokens, left and right change sides, Escape shows all. Shift-click or double-click a head to see it alone. At most the 6,000 strongest lines are drawn.",
  headsLong: "This text is long: point at a token, or move with the arrow keys, to fetch and draw its lines.",
  patch: "Patch",
  patchesCaption: (token: string) => `looking from ${token}`,
  patchesLabel: (rows: number, columns: number) =>
    `The picture as the model sees it, ${rows} by ${columns} patches, and copies lit where the chosen one looks. Arrow keys move between patches.`,
  patchesHelp:
    "Point at a patch, or move with the arrow keys, to see where it looks; click to keep it; Home goes back to [CLS], which stands for the whole picture. The brightest patch of each copy gets the largest weight.",
  meanOfHeads: "Mean of heads",
  rollout: "Rollout, all layers",
  headsAsLines: "The same as lines",
  spokenToken: (token: string, gives: boolean, best: string) =>
    `${token} ${gives ? "looks at" : "is looked at by"} ${best}`,
  modelLabel: (layers: number, heads: number) =>
    `${layers} attention layers, ${heads} heads. Arrow keys move, Enter opens.`,
  modelHelp:
    "A click or Enter opens a head, M opens it as a matrix. Under each map: the head’s number and the mean of its rows’ largest weights.",
  openHead: "Open",
  entropy: "Entropy",
  distance: "Distance",
  peak: "Largest weight",
  peakShort: "max",
  received: "received",
  matrixLabel: (rows: number, columns: number) =>
    `Attention weights, ${rows} rows by ${columns} columns. Arrow keys move, plus and minus zoom.`,
  matrixHelp:
    "Drag to move, scroll or pinch to zoom; arrow keys move the cell, + and − zoom, 0 shows all. Blue bars: how spread out a row is. Green bars: how much a token receives.",
  readout: (query: string, key: string, weight: number) => `“${query}” gives “${key}” ${weight.toFixed(6)}`,
  zoom: "Zoom",
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  all: "All",
  neuronsLabel: (query: string) =>
    `The query of “${query}” with each key, dimension by dimension. Arrow keys choose the key.`,
  neuronsHelp:
    "Orange is positive, blue negative; the stronger, the larger. Choose a key with the mouse or the arrow keys.",
  pairTitle: "The chosen pair",
  sumOfProducts: "Sum",
  dimension: "Dimension",
  maskedShort: "masked",
  sumSentence: (n: { sum: number; scale: number; score: number; weight: number; additive: boolean }) => {
    const bias = n.additive || n.score === -Infinity ? 0 : n.score - n.sum * n.scale;
    const scaled = n.additive
      ? ""
      : ` × ${n.scale.toFixed(4)}${Math.abs(bias) > 1e-3 ? ` ${bias < 0 ? "−" : "+"} bias ${Math.abs(bias).toFixed(3)}` : ""}`;
    return n.score === -Infinity
      ? `Sum ${n.sum.toFixed(4)}, but masked: the weight is 0.`
      : `Sum ${n.sum.toFixed(4)}${scaled} = score ${n.score.toFixed(4)}; after the softmax the weight is ${n.weight.toFixed(4)}.`;
  },
  stepsHelp: "Each picture has its numbers behind it. Save as JSON for all of them.",
  ifWord: "if",
  isMasked: "is masked",
  stripToken: "token",
  stripPosition: "with position",
  stripInput: "before",
  stripNormed: "normed",
  stripContext: (head: number) => `head ${head}`,
  stripJoined: "all heads",
  stripProjected: "projected",
  stripResidual: "sum",
  vectorLabel: (name: string, size: number) => `${name}: ${size} numbers as colours`,
  barsLabel: (count: number) => `${count} numbers, one for each key`,
  maskCheck: (masked: number, keys: number) =>
    masked === 0
      ? `Nothing is masked here: all ${keys} keys may be looked at.`
      : `${masked} of ${keys} keys are masked.`,
  sumCheck: (sum: number) => `The weights add up to ${sum.toFixed(6)}.`,
  equalCheck: (difference: number) =>
    `Computed here from the weights shown; it differs from what the model computed by at most ${difference.toExponential(1)}.`,
  alignmentNone:
    "This model reads one text, so there is nothing to align. Alignment shows translators: transformer and rnn-attention.",
  unit: "By",
  byWord: "Words",
  byToken: "Tokens",
  alignmentLabel: (source: number, target: number) =>
    `${source} source words across, ${target} target words down. Arrow keys move between cells.`,
  alignmentHelp:
    "Each row is what is being written, each column what was read; a row adds up to at most 1, since marks that are not words are left out. Frames mark the alignment: by tokens, the largest weight of the row.",
  alignedWith: "Aligned with",
  links: (count: number) => `Framed pairs: ${count}`,
  allLayers: "All layers, all heads",
  allHeads: "All heads",
  generationNone: "This model does not write text: it classifies.",
  generated: "Generated tokens",
  generating: "Writing…",
  generationDone: (tokens: number, milliseconds: number) => `${tokens} tokens in ${milliseconds.toFixed(0)} ms`,
  stopped: "Stopped.",
  stop: "Stop",
  beam: "Beam",
  length: "Length",
  temperature: "Temperature",
  seed: "Seed",
  candidates: "What it considered",
  whereLooked: "Where it looked",
  beamTree: "The beam as a tree",
  beamLabel: (beam: number) =>
    `Hypotheses of beam search with ${beam} kept at each step. Arrow keys move between them.`,
  generationHelp:
    "Choose a token to see its candidates and where it looked. A temperature above 0 samples instead of searching.",
  step: "Step",
  stepNumber: (step: number) => `Step ${step.toLocaleString("en")}`,
  probability: "Probability",
  logProbability: "Log probability",
  kept: "Kept",
  show: "Show",
  search: "Search",
  searchHint: "a token",
  explained: (x: number, y: number) =>
    `Two principal components, which explain ${(x * 100).toFixed(1)} % and ${(y * 100).toFixed(1)} % of the variance.`,
  embeddingsLabel: (count: number) =>
    `${count} embeddings on a plane. Arrow keys move between them, plus and minus zoom.`,
  embeddingsHelp:
    "Drag to move, scroll to zoom; click a token, search for it, or move with the arrow keys to see its nearest neighbours.",
  nearestDot: (token: string) => `Nearest to “${token}” by dot product`,
  nearestCosine: (token: string) => `Nearest to “${token}” by cosine`,
  compareReadout: (query: string, key: string, a: number, b: number) =>
    `“${query}” → “${key}”:  A ${Number.isFinite(a) ? a.toFixed(6) : "—"}   B ${Number.isFinite(b) ? b.toFixed(6) : "—"}`,
  compareHint: "Point at a cell to read both weights.",
  compareUnlike: "The two have different tokens, so there is no difference to draw.",
  compareHelp:
    "Choose a model, layer and head for each half. The same sentence goes to both unless B is given one of its own.",
  textOfB: "Text of B",
  sameSentence: "the same sentence",
  difference: "Difference, B − A",
  differenceLabel: "The difference between the two maps",
  trainingNone: "There is no record of training for this model. “attend train … --watch” shows a training as it runs.",
  trainingHelp: "The slider goes back in time: the same sentence, seen by the model as it was at that step.",
  trainingStatus: (s: {
    running: boolean;
    step: number;
    total: number;
    loss: number;
    secondsLeft: number;
    bleu?: number;
  }) =>
    `${s.running ? "Running" : "Finished"}: step ${s.step.toLocaleString("en")}${s.total ? ` of ${s.total.toLocaleString("en")}` : ""}, loss ${s.loss.toFixed(4)}${s.bleu === undefined ? "" : `, BLEU ${s.bleu.toFixed(1)}`}${s.running ? `, about ${Math.ceil(s.secondsLeft)} s left` : ""}`,
  trainingAt: (step: number, loss: number, validation?: number) =>
    `Step ${step.toLocaleString("en")}: loss ${loss.toFixed(4)}${validation === undefined ? "" : `, validation ${validation.toFixed(4)}`}`,
  loss: "Loss",
  trainingLoss: "training",
  validationLoss: "validation",
  learningRate: "Learning rate",
  speed: "Tokens a second",
  throughTime: "Attention through time",
  noSnapshots: "No snapshots were kept; “attend train … --watch” keeps them.",
  followSentence: "Sentence to follow",
  follow: "Follow",
  chartLabel: (name: string) => `${name} over steps. Arrow keys move along it.`,
  switchHeads: "Heads",
  holdTokens: "Tokens held out",
  reset: "Everything back",
  outputBeforeAfter: "The output",
  changeOfMaps: "How much each map changed",
  afterLessBefore: "After − before",
  mapBeforeAfter: "One map",
  before: "Before",
  after: "After",
  label: "Label",
  afterToken: "After token",
  noOutput: "This model has no output to compare.",
  ablateHelp:
    "Click a head to switch it off: its part of the result becomes 0. Click a token to hold it out: nothing may look at it.",
};
