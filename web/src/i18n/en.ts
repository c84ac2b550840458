import type { Feature } from "../data/source";
import type { Attention, Side } from "../data/types";
import type { StepName } from "../views/steps_formulas";
import type { ViewName } from "../state";
import type { StepText, ViewText } from "./index";
import { enChat } from "./en_chat";
import { enSteps } from "./en_steps";
import { enFlow, enTools } from "./en_tools";

type Place = Pick<Attention, "stack" | "kind" | "layer" | "heads">;

const stack = (name: Attention["stack"]) =>
  ({ encoder: "Encoder", decoder: "Decoder", stack: "Layers", rnn: "Recurrent network" })[name];
const attention = (one: Place) =>
  one.stack === "rnn" ? "Attention" : `Layer ${one.layer} · ${one.kind === "self" ? "self" : "cross"}`;
const views: Record<ViewName, ViewText> = {
  flow: {
    name: "Flow",
    text: "The sentence on its way through the model: tokens, vectors, each layer, and the probabilities of the next word.",
  },
  heads: {
    name: "Heads",
    text: "Which token looks at which: each line is a weight, each colour a head. Point at a token to see only its lines.",
  },
  model: {
    name: "Model",
    text: "Every head of every layer at a glance. Patterns such as a diagonal or a single column show what a head does.",
  },
  matrix: {
    name: "Matrix",
    text: "One head as a map: each row is a query, each column a key. Zoom in to see single weights.",
  },
  neurons: {
    name: "Neurons",
    text: "Where a weight comes from: the query and the key, dimension by dimension, and what each dimension adds to the score.",
  },
  steps: { name: "Steps", text: "The whole computation for one token, step by step, with the model’s own numbers." },
  alignment: {
    name: "Alignment",
    text: "Which part of the source each part of the target comes from. Frames mark the alignment derived from the weights.",
  },
  chat: {
    name: "Chat",
    text: "Talk with the model. Each of its words shows what else it could have been, and opens the moment it was chosen.",
  },
  generation: {
    name: "Generation",
    text: "The text as the model generates it: the candidates for each token, where the model looked, and the beam search as a tree.",
  },
  embeddings: {
    name: "Embeddings",
    text: "The model’s vocabulary on a plane: the two directions in which its embeddings differ most.",
  },
  compare: {
    name: "Compare",
    text: "Two models, two layers or two sentences side by side. Point at a cell to mark it in both maps.",
  },
  training: {
    name: "Training",
    text: "Loss, learning rate and speed of the training, and how the attention developed over time.",
  },
  ablate: {
    name: "Ablate",
    text: "Switch off a head or hide a token, and see what changes.",
  },
  lens: {
    name: "Lens",
    text: "What the model would say if it stopped after a layer: the most likely word at each layer and place.",
  },
  attribute: {
    name: "Attribute",
    text: "A prediction shared out: over the heads and networks of the model, and over the tokens of the input.",
  },
  patch: {
    name: "Patch",
    text: "Activations of another text, copied one by one into the run of this text: which of them decide the prediction?",
  },
  probe: {
    name: "Probe",
    text: "What a head looks for and what it writes, in words.",
  },
  steer: {
    name: "Steer",
    text: "A direction added to the residual stream of a layer, and how it changes the predictions.",
  },
};
const missing: Record<Feature, string> = {
  runs: "other texts",
  generation: "the generation of a text",
  chat: "a model to chat with",
  embeddings: "the embeddings",
  neighbours: "nearest neighbours",
  training: "a training record",
  alignment: "an alignment",
  tiles: "this matrix",
  compare: "a second model or sentence",
  array: "these numbers",
  logits: "all logits",
  tools: "this tool",
};

export const en = {
  name: "English",
  views,
  steps: enSteps as Record<StepName, StepText>,
  chat: enChat,
  tools: enTools,
  flow: enFlow,
  skip: "Skip to content",
  viewsLabel: "Views",
  language: "Language",
  theme: "Theme",
  themes: { "": "System", light: "Light", dark: "Dark" } as Record<string, string>,
  model: "Model",
  text: "Text",
  target: "Target",
  targetHint: "leave empty to let the model translate",
  second: "Second sentence",
  secondHint: "optional, for a sentence pair",
  picture: "Picture",
  choosePicture: "Choose a picture",
  pictureHint: "PNG or JPEG; or drop one anywhere on this page",
  named: (name: string, value: string) => `${name}: ${value}`,
  prediction: (labels: string) => `Prediction: ${labels}`,
  run: "Show",
  busy: "Computing…",
  facts: (parameters: string, words: string, architecture: string) =>
    `${architecture} · ${parameters} parameters · vocabulary of ${words}`,
  factsOfPictures: (parameters: string, patches: number, architecture: string) =>
    `${architecture} · ${parameters} parameters · ${patches} patches`,
  timing: (milliseconds: number, tokens: number) =>
    `${tokens} tokens in ${milliseconds < 10 ? milliseconds.toFixed(1) : milliseconds.toFixed(0)} ms`,
  fileNote: "This file contains one run. Use “attend view MODEL” to try other texts.",
  save: "Save this view as",
  asTable: "Show the numbers as a table",
  missing: (feature: Feature) =>
    `This file does not contain ${missing[feature]}. Open the model with “attend view MODEL”.`,
  unreachable: "The server does not respond; it may have been stopped. Start it again and reload this page.",
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
  threshold: "Minimum weight",
  groupWords: "Group by word",
  sentences: "Sentences",
  pair: (which: "" | "aa" | "ab" | "ba" | "bb") =>
    ({ "": "All", aa: "First → first", ab: "First → second", ba: "Second → first", bb: "Second → second" })[which],
  asks: "queries",
  answers: "keys",
  query: "Query",
  key: "Key",
  weight: "Weight",
  score: "Score",
  token: "Token",
  tokens: "Tokens",
  positions: "Positions",
  rankedKey: (n: number) => `Top key ${n}`,
  topThree: "The three keys with the largest weights, for each query and head.",
  headsLabel: (layer: string, rows: number, columns: number) =>
    `Attention of ${layer}: ${rows} tokens on the left look at ${columns} on the right. Arrow keys move between tokens.`,
  headsHelp:
    "Click a token to keep its lines, in this view and in the others. Up and down arrow keys move between tokens, left and right change sides, Escape shows all lines. Shift-click or double-click a head to show it alone. At most the 6,000 strongest lines are drawn.",
  headsLong: "This text is long. Point at a token, or move with the arrow keys, to load and draw its lines.",
  patch: "Patch",
  patchesCaption: (token: string) => `attention from ${token}`,
  patchesLabel: (rows: number, columns: number) =>
    `The picture as the model sees it, ${rows} by ${columns} patches, and copies lit where the selected patch looks. Arrow keys move between patches.`,
  patchesHelp:
    "Point at a patch, or move with the arrow keys, to see where it looks. Click to pin it. Home returns to [CLS], which stands for the whole picture. In each copy, the brightest patch has the largest weight.",
  mostWeight: "max",
  meanOfHeads: "Mean of heads",
  rollout: "Rollout, all layers",
  headsAsLines: "The same weights as lines",
  spokenToken: (token: string, gives: boolean, best: string) =>
    `${token} ${gives ? "looks at" : "is looked at by"} ${best}`,
  modelLabel: (layers: number, heads: number) =>
    `${layers} attention layers, ${heads} heads. Arrow keys move, Enter opens.`,
  modelHelp:
    "Click a head or press Enter to open it, M to open it as a matrix. Below each map: the number of the head and the largest weight of a row, averaged over all rows.",
  openHead: "Open",
  entropy: "Entropy",
  distance: "Distance",
  peak: "Largest weight",
  peakShort: "max",
  received: "received",
  matrixLabel: (rows: number, columns: number) =>
    `Attention weights, ${rows} rows by ${columns} columns. Arrow keys move, plus and minus zoom.`,
  matrixHelp:
    "Click a cell to select its query and key for all views. Drag to move, scroll or pinch to zoom; arrow keys move between cells, + and − zoom, 0 shows all. Blue bars: the entropy of each row. Green bars: the total weight that each token receives.",
  readout: (query: string, key: string, weight: number) => `Weight from “${query}” to “${key}”: ${weight.toFixed(6)}`,
  colourScale: "Colours",
  rootScale: "by square root",
  logScale: "by logarithm",
  zoom: "Zoom",
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  all: "All",
  neuronsLabel: (query: string) =>
    `The query of “${query}” with each key, dimension by dimension. Arrow keys select the key.`,
  neuronsHelp:
    "Orange is positive, blue is negative; a stronger colour means a larger number. Select a key with the mouse or the arrow keys.",
  pairTitle: "The selected pair",
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
  stepsSteered: (points: string) =>
    `This run is steered at: ${points}. The step “Steering” shows the added direction where this computation passes that point; steps that stand for whole layers include it.`,
  recurrentSteps: {
    projectedQuery: "A learned matrix turns the decoder’s state into a query: what the decoder is looking for in the source.",
    plainQuery: "The decoder’s state itself is the query: what the decoder is looking for in the source.",
    projectedKeys: "A learned matrix turns the encoder’s state of each source token into a key, which the query is compared with.",
    plainKeys: "The encoder’s state of each source token is its key, which the query is compared with.",
    values: "The encoder’s state of each source token is also its value: what the token passes on when the query looks at it.",
  },
  stepsHelp: "The table below each picture lists its numbers. Save this view as JSON to get all of them.",
  ifWord: "if",
  orWord: "or",
  isMasked: "is masked",
  vectorLabel: (name: string, size: number) => `${name}: ${size} numbers as colours`,
  barsLabel: (count: number) => `${count} numbers, one for each key`,
  maskCheck: (masked: number, keys: number) =>
    masked === 0
      ? `Nothing is masked here: all ${keys} keys are visible.`
      : `${masked} of ${keys} keys are masked.`,
  normCheck: (rms: boolean, mean: number, deviation: number) =>
    rms ? `The root is ${deviation.toFixed(4)}.` : `μ = ${mean.toFixed(4)}, the root is ${deviation.toFixed(4)}.`,
  bestOf: (count: number) => `The ${count} largest are shown.`,
  headIsOff: "This head is switched off: the next step has zeros in its place.",
  sumCheck: (sum: number) => `The weights add up to ${sum.toFixed(6)}.`,
  equalCheck: (difference: number) =>
    `Computed again by this page from the numbers shown: the largest difference from the model’s own result is ${difference.toExponential(1)}.`,
  alignmentNone:
    "This model reads one text, so there is nothing to align. Alignment works with translation models: transformer and rnn-attention.",
  unit: "Unit",
  byWord: "Words",
  byToken: "Tokens",
  alignmentLabel: (source: number, target: number) =>
    `${source} source words across, ${target} target words down. Arrow keys move between cells.`,
  alignmentHelp:
    "Rows are the target, columns the source. A row adds up to at most 1, because tokens that are not part of words are left out. Frames mark the alignment.",
  alignmentHelpTokens:
    "Rows are the target, columns the source. A row shows where the model looked when it chose that token; the last row, when it chose the end. Frames mark the largest weight of each row.",
  endOfTarget: "(end)",
  alignedWith: "Aligned with",
  links: (count: number) => `Aligned pairs: ${count}`,
  allLayers: "All layers, all heads",
  allHeads: "All heads",
  generationNone: "This model does not generate text: it classifies.",
  generated: "Generated tokens",
  generating: "Generating…",
  generationDone: (tokens: number, milliseconds: number) => `${tokens} tokens in ${milliseconds.toFixed(0)} ms`,
  stopped: "Stopped.",
  stop: "Stop",
  beam: "Beam",
  length: "Length",
  temperature: "Temperature",
  seed: "Seed",
  candidates: "Candidates",
  whereLooked: "Where the model looked",
  beamTree: "Beam search tree",
  bestPath: "the generated text",
  otherPaths: "other hypotheses",
  beamLabel: (beam: number) =>
    `Hypotheses of beam search, ${beam} kept at each step. Arrow keys move between them.`,
  givenTarget: "given, not generated",
  decodedBy: (beam: number) => (beam > 1 ? `beam search, ${beam} hypotheses` : "greedy search"),
  sampledAt: (temperature: number) => `sampled at temperature ${temperature}`,
  generationHelp:
    "Select a token to see its candidates and where the model looked. A temperature above 0 samples instead of searching. A circle’s size is the token’s probability; hollow circles were dropped.",
  step: "Step",
  stepNumber: (step: number) => `Step ${step.toLocaleString("en")}`,
  probability: "Probability",
  logProbability: "Log probability",
  kept: "Kept",
  show: "Show",
  search: "Search",
  searchHint: "a token",
  explained: (x: number, y: number) =>
    `The plane shows the first two principal components, ${(x * 100).toFixed(1)} % and ${(y * 100).toFixed(1)} % of the variance. ` +
    (x + y > 0.5
      ? "Points that are close together are similar in most respects."
      : "Most of what distinguishes the vectors is not visible: points that are close together need not be similar. The lists of neighbours use all dimensions."),
  shownOf: (shown: number, total: number) =>
    `${shown.toLocaleString("en")} of ${total.toLocaleString("en")} tokens are shown: the first ones of the vocabulary. Search finds all of them.`,
  positionsLead: "The position vectors on a plane: the two directions in which they differ most.",
  picturePositionsLead: "The position vectors of the picture’s patches on a plane: the two directions in which they differ most.",
  notFound: (text: string) => `No token of the vocabulary contains “${text}”.`,
  allTokens: (count: number) => `All ${count.toLocaleString("en")} tokens`,
  embeddingsLabel: (count: number) =>
    `${count} embeddings on a plane. Arrow keys move between them, plus and minus zoom.`,
  embeddingsHelp:
    "Drag to move, scroll to zoom; click a token, search for it, or move with the arrow keys to see its nearest neighbours.",
  nearestDot: (token: string) => `Nearest to “${token}” by dot product`,
  nearestCosine: (token: string) => `Nearest to “${token}” by cosine`,
  compareReadout: (query: string, key: string, a: number, b: number) =>
    `“${query}” → “${key}”:  A ${Number.isFinite(a) ? a.toFixed(6) : "—"}   B ${Number.isFinite(b) ? b.toFixed(6) : "—"}`,
  compareHint: "Point at a cell to read both weights.",
  compareUnlike: "The two sides have different tokens, so there is no difference to draw.",
  compareHelp:
    "Choose a model, layer and head for each side. Both sides use the same sentence unless B has its own.",
  textOfB: "Text of B",
  sameSentence: "the same sentence",
  difference: "Difference, B − A",
  differenceLabel: "The difference between the two maps",
  trainingNone: "There is no training record for this model. Use “attend train … --watch” to follow a training as it runs.",
  trainingHelp: "Move the slider to see the attention of an earlier step on the same sentence.",
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
  speed: "Tokens per second",
  throughTime: "Attention over time",
  noSnapshots: "There are no snapshots. Use “attend train … --watch” to keep them.",
  smoothed: (smoothing: number) =>
    `The training loss includes label smoothing of ${smoothing}, and dropout if the model has any; the validation loss includes neither. It can therefore be lower than the training loss.`,
  noSnapshotYet: "The next step of the training will show this sentence.",
  followSentence: "Sentence to follow",
  follow: "Follow",
  chartLabel: (name: string) => `${name} over steps. Arrow keys move along it.`,
  mattersMost: (layer: string, head: string, loss: number) =>
    `${layer}, ${head} matters most here and is switched off to begin with: without it, the log-probability of what the model predicts falls by ${loss.toFixed(3)} on average.`,
  switchHeads: "Heads",
  holdTokens: "Hidden tokens",
  reset: "Reset",
  outputBeforeAfter: "Output",
  changeOfMaps: "How much each map changed",
  afterLessBefore: "After − before",
  mapBeforeAfter: "One head before and after",
  before: "Before",
  after: "After",
  label: "Label",
  afterToken: "After token",
  atToken: "At token",
  noOutput: "This model has no output to compare.",
  ablateHelp:
    "Click a head to switch it off: its output becomes 0. Click a token to hide it: no token can look at it.",
};
