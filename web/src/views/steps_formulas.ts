import { fraction, math, root, row, sub, sum, sup, words, type Maths } from "../draw/math";

// The formulas of the steps in the papers' notation. A term that the model does not have is left out.

export const kStepNames = [
  "embedding",
  "patch",
  "embeddingScale",
  "position",
  "types",
  "embeddingNorm",
  "steering",
  "layersBefore",
  "otherAttention",
  "normFirst",
  "query",
  "queryNorm",
  "rotation",
  "keys",
  "values",
  "products",
  "additive",
  "scale",
  "softcap",
  "relative",
  "alibi",
  "mask",
  "softmax",
  "sum",
  "concatenation",
  "projection",
  "residual",
  "norm",
  "activation",
  "feedForward",
  "layersAfter",
  "finalNorm",
  "memory",
  "nextState",
  "readout",
  "text",
  "pooler",
  "outputScale",
  "maskedLayer",
  "maskedNorm",
  "logits",
  "probability",
  "sigmoid",
] as const;
export type StepName = (typeof kStepNames)[number];

const of = (letter: Maths, index: Maths) => sub(letter, index);
const bracketed = (...inside: Maths[]) => row("(", ...inside, ")");
const number = (value: number) => String(+value.toPrecision(4)).replace("-", "−");

/** A linear map of a vector: W x + b, without the bias if the model has none. */
const linear = (name: string, x: Maths, bias: boolean): Maths[] => [
  sub("W", name),
  x,
  ...(bias ? ["+", sub("b", name)] : []),
];

export const formulas = {
  embedding: (id: number) => math(of("e", "i"), "=", "E", "[", of("t", "i"), "]", "=", "E", "[", String(id), "]"),
  patch: (whole: boolean) =>
    whole ? math(of("e", "0"), "=", sub("e", words("CLS"))) : math(of("e", "i"), "=", ...linear("P", sub("a", "i"), true)),
  embeddingScale: (factor: number) =>
    math(of("x", "i"), "=", root("d"), "·", of("e", "i"), "=", number(factor), "·", of("e", "i")),
  position: (scale: number, position: boolean, types: boolean) =>
    math(
      of("x", "i"),
      "=",
      ...(scale === 1 ? [] : [number(scale), "·"]),
      of("e", "i"),
      ...(position ? ["+", of("p", "i")] : []),
      ...(types ? ["+", of("u", "i")] : []),
    ),
  norm: (rms: boolean, eps: number, gamma: boolean, beta: boolean) => {
    const middle = rms ? "x" : row("x", "−", "μ");
    const below = root(row(rms ? row("mean", bracketed(sup("x", "2"))) : sup("σ", "2"), "+", number(eps)));
    return math(
      ...["norm", bracketed("x"), "="],
      ...(gamma ? ["γ", "⊙"] : []),
      fraction(middle, below),
      ...(beta ? ["+", "β"] : []),
    );
  },
  layersBefore: (layer: number) =>
    math(
      sup(of("x", "i"), bracketed(String(layer))),
      "=",
      ...(layer > 1 ? [sub("layer", String(layer - 1)), bracketed("…", sub("layer", "0"), bracketed("x"))] : [sub("layer", "0"), bracketed("x")]),
    ),
  steering: () => math(sup("x", "′"), "=", "x", "+", "δ"),
  layersAfter: (layer: number, last: number) =>
    math(
      "x",
      "=",
      sub("layer", String(last)),
      bracketed(...(last > layer + 1 ? ["…", sub("layer", String(layer + 1)), bracketed("x")] : ["x"])),
    ),
  otherAttention: (normFirst: boolean) =>
    normFirst
      ? math("y", "=", "x", "+", "attention", bracketed("norm", bracketed("x")))
      : math("y", "=", "norm", bracketed("x", "+", "attention", bracketed("x"))),
  query: (x: Maths, bias: boolean) => math(of("q", "i"), "=", ...linear("Q", x, bias)),
  same: (name: string, x: Maths) => math(name, "=", x),
  queryNorm: (eps: number) =>
    math(
      sup(of("q", "i"), "′"),
      "=",
      "γ",
      "⊙",
      fraction(of("q", "i"), root(row("mean", bracketed(sup("q", "2")), "+", number(eps)))),
    ),
  rotation: (first: number) =>
    math(
      ...[sup(of("q", "i"), "′"), "=", of("R", "i"), of("q", "i"), ",", words(""), of("R", "i"), ":"],
      ...[bracketed("a", ",", "b"), "→", bracketed("a", "cos", "θ", "−", "b", "sin", "θ", ",", "a", "sin", "θ", "+", "b", "cos", "θ")],
      ...[",", words(""), "θ", "=", "i", "·", of("f", "d"), ",", words(""), of("f", "0"), "=", number(first)],
    ),
  keys: (memory: Maths, bias: boolean, norm: boolean, rotary: boolean) => {
    const plain = row(...linear("K", memory, bias));
    const normed = norm ? row("norm", bracketed(plain)) : rotary ? bracketed(plain) : plain;
    return math(of("k", "j"), "=", ...(rotary ? [of("R", "j")] : []), normed);
  },
  values: (memory: Maths, bias: boolean) => math(of("v", "j"), "=", ...linear("V", memory, bias)),
  products: () =>
    math(of("q", "i"), "·", of("k", "j"), "=", sum("d"), sub("q", row("i", "d")), sub("k", row("j", "d"))),
  additive: () =>
    math(
      ...[of("s", "j"), "=", sum("d"), of("a", "d"), "tanh"],
      bracketed(sub("q", row("i", "d")), "+", sub("k", row("j", "d"))),
    ),
  scale: (scale: number, dims: number) => {
    const usual = Math.abs(scale - 1 / Math.sqrt(dims)) < 1e-6;
    const dot = row(of("q", "i"), "·", of("k", "j"));
    return math(
      ...[of("s", "j"), "="],
      ...(usual ? [fraction(dot, root(String(dims))), "="] : []),
      ...[number(scale), "·", bracketed(dot)],
    );
  },
  softcap: (cap: number) =>
    math(sup(of("s", "j"), "′"), "=", number(cap), "·", "tanh", bracketed(of("s", "j"), "/", number(cap))),
  relative: () => math(sup(of("s", "j"), "′"), "=", of("s", "j"), "+", sub("b", row("j", "−", "i"))),
  alibi: (slope: number) =>
    math(sup(of("s", "j"), "′"), "=", of("s", "j"), "−", number(slope), "·", "|", "i", "−", "j", "|"),
  mask: (causal: boolean, window: number, ifWord: string, orWord: string, masked: string) => {
    const near: Maths[] = causal ? ["j", "≤", "i", "−", String(window)] : ["|", "i", "−", "j", "|", "≥", String(window)];
    const conditions: Maths[] = causal
      ? ["j", ">", "i", ...(window > 0 ? [words(orWord), ...near] : [])]
      : window > 0
        ? near
        : ["j", words(masked)];
    return math(of("s", "j"), "=", "−", "∞", words(ifWord), ...conditions);
  },
  softmax: () => {
    const exponent = (index: string) => sup("e", of("s", index));
    return math(of("w", "j"), "=", fraction(exponent("j"), row(sum("m"), exponent("m"))));
  },
  sum: () => math(of("c", "i"), "=", sum("j"), of("w", "j"), of("v", "j")),
  concatenation: (heads: number) =>
    math(
      ...["c", "=", "["],
      ...Array.from({ length: Math.min(heads, 3) }, (_, h) => [...(h ? [";"] : []), of("c", String(h))]).flat(),
      ...(heads > 4 ? [";", "…"] : []),
      ...(heads > 3 ? [";", of("c", String(heads - 1))] : []),
      "]",
    ),
  projection: (bias: boolean) => math("o", "=", ...linear("O", "c", bias)),
  residual: (branch: Maths) => math("y", "=", "x", "+", branch),
  activation: (name: string, gated: boolean, bias: boolean) =>
    gated
      ? math("h", "=", name, bracketed(...linear("G", "x", bias)), "⊙", bracketed(...linear("1", "x", bias)))
      : math("h", "=", name, bracketed(...linear("1", "x", bias))),
  feedForward: (bias: boolean) => math("f", "=", ...linear("2", "h", bias)),
  memory: () => math(of("m", "j"), "=", "x"),
  nextState: (cell: string, additive: boolean) =>
    additive
      ? math(sup("s", "′"), "=", cell, bracketed("[", of("e", "i"), ";", of("c", "i"), "]", ",", "s"))
      : math(sup("s", "′"), "=", cell, bracketed(of("e", "i"), ",", "s")),
  readout: (attends: boolean) =>
    math(
      ...["r", "=", "tanh"],
      bracketed(
        ...linear("R", row("[", sup("s", "′"), ";", ...(attends ? [of("c", "i"), ";"] : []), of("e", "i"), "]"), true),
      ),
    ),
  text: (mean: boolean) =>
    mean ? math("t", "=", fraction("1", "n"), sum("i"), of("x", "i")) : math("t", "=", of("x", "0")),
  pooler: (activation: string) => math("r", "=", activation, bracketed(...linear("T", "t", true))),
  maskedLayer: (activation: string) => math("h", "=", activation, bracketed(...linear("M", "x", true))),
  outputScale: (scale: number) => math("h", "=", fraction("x", root("d")), "=", number(scale), "·", "x"),
  logits: (x: Maths, bias: boolean) => math(of("z", "v"), "=", of("w", "v"), "·", x, ...(bias ? ["+", of("b", "v")] : [])),
  probability: (total: number | null) => {
    const exponent = (index: string) => sup("e", of("z", index));
    return math(
      ...[of("p", "v"), "=", fraction(exponent("v"), row(sum("u"), exponent("u")))],
      ...(total === null ? [] : ["=", sup("e", row(of("z", "v"), total < 0 ? "+" : "−", number(Math.abs(total))))]),
    );
  },
  sigmoid: () => math(of("p", "v"), "=", fraction("1", row("1", "+", sup("e", row("−", of("z", "v")))))),
};
