import type { HeadKind } from "../data/tools";

const heads: Record<HeadKind, string> = {
  previous: "previous token",
  duplicate: "duplicate token",
  induction: "induction",
  first: "first token",
  separator: "separator",
  positional: "positional",
  alignment: "alignment",
};

const logit = (wanted: string, contrast: string | null) =>
  contrast === null ? `The logit of “${wanted}”` : `The logit of “${wanted}” minus that of “${contrast}”`;

/** The texts of Lens, Attribute, Patch, Probe and Steer, and of the badges of heads. */
export const enTools = {
  computing: "Computing…",
  start: "Start",
  token: "Token",
  kind: "Kind",
  part: "Part",
  total: "Total",
  whole: "whole input",
  layerNumber: (layer: number) => `Layer ${layer}`,
  crossShort: "cross",
  points: {
    embedded: "Embedding",
    tokens: "Embedding",
    words: "Embedding",
    states: "States",
    outputs: "States",
    context: "Attended",
    final: "Output",
  },
  modules: {
    attention: "self-attention",
    cross_attention: "cross-attention",
    feed_forward: "feed-forward",
    attention_norm: "norm after self-attention",
    cross_attention_norm: "norm after cross-attention",
    feed_forward_norm: "norm after feed-forward",
    norm: "final norm",
    embedding_norm: "embedding norm",
    output_bias: "output layer",
    classifier: "classifier",
    pooler: "pooler",
    masked_bias: "output layer",
    masked_dense: "masked-word layer",
    masked_norm: "masked-word norm",
  },
  parts: { token: "Token embedding", position: "Position", head: "Head", feed_forward: "Feed-forward", bias: "Bias" },
  kinds: {
    residual: "Residual stream",
    attention: "Attention output",
    cross: "Cross-attention output",
    feed_forward: "Feed-forward output",
    head: "Heads, at all places",
  },
  allKinds: "Everything",
  heads,
  headKinds: "Kinds of heads",
  noKinds: "No head of this layer is of a known kind.",
  badgeHint: (kind: HeadKind, text: number | null, probe: number | null, offset: number) =>
    [
      kind === "positional" ? `${heads[kind]} (offset ${offset})` : heads[kind],
      text === null ? "" : `${text.toFixed(2)} on this text`,
      probe === null ? "" : `${probe.toFixed(2)} on repeated random tokens`,
    ]
      .filter(Boolean)
      .join(", "),

  bestWord: "Best word",
  bestLabel: "Best label",
  rankOfLabel: "Rank of the model’s label",
  rankOfTrue: "Rank of the correct word",
  lensLeadLabels: "What the model would say if it stopped after a layer: the most likely label, for the whole input and for each place.",
  lensHelpLabels:
    "Each cell is the label that the model would choose if it stopped after this layer: its own final norm and output layer are applied to the residual stream there. The last row of the first column is exactly the model’s output; other columns show what the model would say if it read its answer at that place. See the scale for the probabilities. Early layers need not be meant for the output layer, so their labels may make no sense.",
  lensNone: "The lens needs the residual stream of a Transformer. This model has none.",
  lensLabel: (rows: number, columns: number) =>
    `Predictions after ${rows} points of the model, at ${columns} places. Arrow keys move between cells.`,
  lensHelp:
    "Each cell is the word that the model would predict if it stopped after this layer: its own final norm and output layer are applied to the residual stream there. The last row is exactly the model’s output. See the scale for the probabilities. Early layers need not be meant for the output layer, so their words may make no sense.",
  saysAt: (layer: string, place: string) => `${layer} at “${place}”`,
  entropyOf: (entropy: number) => `Entropy: ${entropy.toFixed(2)} nats`,
  rising: (word: string, isTrue: boolean) =>
    isTrue ? `The correct word, “${word}”, through the layers` : `The model’s choice, “${word}”, through the layers`,
  rank: (rank: number) => `#${rank}`,

  wanted: "For",
  wantedHint: "the most likely word",
  wantedOther: "what the other one predicts",
  contrastOwn: "what this one predicts",
  wantedLabel: "the most likely label",
  contrast: "Against",
  contrastHint: "nothing",
  afterPlace: "After",
  atPlace: "At",
  lastPlace: "the last token",
  goal: (wanted: string, contrast: string | null, value: number) =>
    contrast === null
      ? `The logit of “${wanted}” is ${value.toFixed(3)}. Where does it come from?`
      : `The logit of “${wanted}” minus that of “${contrast}” is ${value.toFixed(3)}. Where does it come from?`,
  tokensTitle: "Input tokens",
  tokensLabel: (count: number) => `Attribution to ${count} tokens by two methods`,
  integrated: "Integrated gradients",
  gradientTimesInput: "Gradient × input",
  averageWord: "if every token had the average embedding of the vocabulary",
  averagePatch: "if every patch had the average vector of this picture",
  completeness: (value: number, baseline: number, average: string, error: number, steps: number) =>
    `Integrated gradients add up to the value minus its value ${average}: ${value.toFixed(3)} − ${baseline.toFixed(3)}. Error: ${(error * 100).toFixed(2)} % with ${steps} steps.`,
  partsTitle: "Parts of the model",
  partsLabel: (rows: number) => `Direct contributions of ${rows} parts of the model`,
  biases: "Biases",
  partsSum: (value: number, remainder: number) =>
    `The parts add up to ${value.toFixed(4)}; the difference, by rounding, is ${Math.abs(remainder).toExponential(1)}.`,
  partsNone: "This model has no residual stream, so its prediction cannot be shared out over its parts.",
  attributeHelp: (labels: boolean) =>
    `Orange parts raise the value, blue ones lower it. The parts of the model are direct contributions: what a head or a feed-forward network writes into the residual stream, read by the output layer, with the scale of every norm as it was in this run. What a part changes in later layers counts for those. Most logits share a common part; choose a ${labels ? "label" : "word"} in “Against” to cancel it.`,
  attributeContrastHelp: (labels: boolean) =>
    `Orange parts speak for the first ${labels ? "label" : "word"}, blue ones for the second. The parts of the model are direct contributions: what a head or a feed-forward network writes into the residual stream, read by the output layer, with the scale of every norm as it was in this run.`,

  otherText: "Other text",
  otherHint: "with as many tokens",
  thisPicture: "This picture",
  otherPicture: "Other picture",
  chooseOther: "Choose the other picture",
  patchExplain: "The model runs once for each layer and place, and once for each head, unless both texts have the same activation there. The maps fill while it works.",
  patchLabel: (rows: number, columns: number) =>
    `The effect of ${rows} × ${columns} patches. Arrow keys move between cells.`,
  patchTexts: {
    lead: undefined as string | undefined,
    start:
      "Enter another text that differs in one word and has as many tokens, such as “The Colosseum is in” for “The Eiffel is in”.",
    goal: (wanted: string, contrast: string | null, value: number, other: number) =>
      `${logit(wanted, contrast)} is ${value.toFixed(2)} for this text and ${other.toFixed(2)} for the other one.`,
    help: "Each cell is a run of this text in which one activation is replaced by that of the other text. 0: the patch changes nothing. 1: it moves the prediction all the way to that of the other text.",
  },
  patchPictures: {
    lead: "Activations of another picture, copied one by one into the run of this picture: which of them decide the prediction?" as string | undefined,
    start: "Choose another picture, which the model classifies differently.",
    goal: (wanted: string, contrast: string | null, value: number, other: number) =>
      `${logit(wanted, contrast)} is ${value.toFixed(2)} for this picture and ${other.toFixed(2)} for the other one.`,
    help: "Each cell is a run of this picture in which one activation is replaced by that of the other picture; r2c3 is the place in row 2, column 3. 0: the change has no effect. 1: it moves the prediction all the way to that of the other picture.",
  },

  probeNone: "Circuits in words need a Transformer that reads words.",
  words: "Words",
  wordsHint: "the tokens of the text",
  copying: (share: number, sampled: number) =>
    `For ${(share * 100).toFixed(0)} % of ${sampled} words of the vocabulary, the word itself is among the ten that this head raises most when it attends to it: ${share > 0.5 ? "it copies." : share > 0.15 ? "it copies at times." : "it does not copy."}`,
  noCopying: "The words that this head reads and those that the model writes are not the same, so copying cannot be measured.",
  ovTitle: "What the head writes (OV)",
  ovHelp: "If the head attends to a token, these words become more likely, and those less likely.",
  qkTitle: "What the head looks for (QK)",
  qkHelp: "If a token is the query, the head attends most to these words, and least to those.",
  raises: "More likely",
  lowers: "Less likely",
  seeks: "Attends to",
  avoids: "Avoids",
  probeHelp:
    "The circuits are products of the model’s matrices, with embeddings in place of the residual stream. Positions and earlier layers are left out, so the lists are most telling for the first layers. Point at a word for its number.",

  steerNone: "Steering needs a model that reads text.",
  toward: "Toward",
  towardHint: "a word or sentence",
  away: "Away from",
  awayHint: "optional",
  strength: "Strength",
  steerStart: "Enter a word or a sentence to steer toward, such as “love” and away from “hate”.",
  steerHelp:
    "The direction is the mean activation of the first text minus that of the second, at this layer. It is added to the residual stream at every place, times the strength. The views of this text show the steered run until you reset it; Generation, Chat, Lens, Attribute, Patch and Probe show the model as it is. The address of the page holds the direction, so that it can be shared.",
};

export const enFlow = {
  play: "Play",
  start: "Point at a part, or press Play, to read what happens there. Click its name to open it.",
  opens: (view: string) => `Open ${view}`,
  weightScale: "Maps: attention weight",
  vectorScale: "Vectors: relative to the largest number",
  help: "All numbers are the model’s own, for this input. Click a token to follow another place.",
  leads: {
    labels: "The text on its way through the model: tokens, vectors, each layer, and the scores of the labels.",
    image: "The picture on its way through the model: patches, vectors, each layer, and the scores of the labels.",
    masked: "The text on its way through the model: tokens, vectors, each layer, and the probabilities of the word at the selected place.",
    none: "The text on its way through the model: tokens, vectors, and each layer.",
  },
  tokens: {
    title: "Tokens",
    text: "The text is cut into tokens, each with a number in the vocabulary. The model reads only these numbers.",
  },
  patches: {
    title: "Patches",
    text: "The picture is cut into square patches, which the model reads as other models read words. [CLS] is one more place, which stands for the whole picture.",
  },
  vectors: {
    title: "Vectors",
    patches: "The colours of a patch become a vector by a learned matrix; the position is added to it. From here on, each place is a vector.",
    embedding: "Each token’s number selects a learned vector, its embedding. From here on, each place is a vector.",
    positions: {
      learned: "A learned vector for its position is added.",
      sinusoidal: "A vector of sines and cosines for its position is added.",
      rotary: "The position enters later: the layers rotate queries and keys.",
      alibi: "The position enters later: the layers lower the scores of distant tokens.",
      relative: "The position enters later: the layers add a learned number for each distance to the scores.",
      none: "This model adds no positions.",
    },
  },
  shownOf: (shown: number, all: number) => `${shown} of ${all.toLocaleString("en")} places are drawn.`,
  vectorsLabel: (rows: number, width: number) => `${rows} vectors of ${width} numbers as colours`,
  vectorOf: (token: string, width: number) => `The vector of “${token}”: ${width} numbers. Orange is positive, blue is negative.`,
  layer:
    "In each layer, every place first gathers information from other places: each head has its own map of who looks at whom. Then the feed-forward network transforms each place for itself. Both results are added to the place’s vector.",
  crossLayer:
    "A decoder layer looks at the words written so far, then at the source by cross-attention, and then each place passes the feed-forward network. All results are added to the place’s vector.",
  maps: "Who looks at whom, one map for each head",
  cross: "Who looks at which source token",
  mapsLabel: (name: string, heads: number) => `${name}: the maps of ${heads} heads. Arrow keys move, Enter opens.`,
  headOf: (name: string, head: number, badges: string[]) =>
    `${name}, head ${head}${badges.length ? ` (${badges.join(", ")})` : ""}: rows look at columns, and colours show the weights. Click to open it.`,
  neurons: "neurons",
  residual: "after layer",
  output: {
    title: "Probabilities",
    text: "The last vector is compared with the vector of each word of the vocabulary; softmax turns the results into probabilities. Temperature, top-k and top-p decide which words can be drawn.",
    masked: "This model predicts the word at each place, also where it is not masked. The vector of the place passes one more layer and is compared with the vector of each word of the vocabulary; softmax turns the results into probabilities.",
  },
  recurrent: {
    encoder: {
      title: "Encoder",
      text: "A recurrent network reads the source token by token. Its state at each token is a vector that knows the tokens before it, and those after it if the network reads both ways.",
    },
    attention:
      "At each step, the decoder compares its state with the encoder’s states and attends to those that fit: the map shows who looks at which source token. State, attended vector and last token give the read-out, from which the probabilities follow.",
    state: "state",
    readout: "read-out",
  },
  labels: "Labels",
  labelsText: "The last vectors are turned into one score for each label.",
  noOutput: "This model has no output layer: the vectors themselves are its result.",
  fileOnly: "The sliders need “attend view”: this file holds only the most likely words.",
  topK: "Top-k",
  topP: "Top-p",
  off: "off",
  possible: (count: number, words: number) =>
    `${count.toLocaleString("en")} of ${words.toLocaleString("en")} words can be drawn.`,
};
