import type { Attention } from "../data/types";
import { fraction, math, root, row, sub, sum, sup, words, type Maths } from "../draw/math";

export type StepName =
  | "embedding"
  | "position"
  | "normFirst"
  | "query"
  | "keys"
  | "values"
  | "products"
  | "additive"
  | "scale"
  | "mask"
  | "softmax"
  | "sum"
  | "concatenation"
  | "projection"
  | "residual"
  | "norm";

const of = (letter: string, index: string) => sub(letter, index);

/** The formula of each step in the papers' notation, with this attention's sizes. */
export function formulas(attention: Attention, ifWord: string, masked: string): Record<StepName, Element> {
  const additive = attention.score === "additive";
  const memory = (): Maths => (attention.kind === "cross" ? of("h", "j") : of("x", "j"));
  const exponent = (index: string) => sup("e", of("s", index));
  return {
    embedding: math(of("e", "i"), "=", "E", "[", of("t", "i"), "]"),
    position: math(of("x", "i"), "=", of("e", "i"), "+", of("p", "i")),
    normFirst: math(of("x", "i"), "→", "norm", "(", of("x", "i"), ")"),
    query: math(of("q", "i"), "=", sub("W", "Q"), additive ? of("s", "i") : of("x", "i")),
    keys: math(of("k", "j"), "=", sub("W", "K"), memory()),
    values: additive ? math(of("v", "j"), "=", of("h", "j")) : math(of("v", "j"), "=", sub("W", "V"), memory()),
    products: math(of("q", "i"), "·", of("k", "j"), "=", sum("d"), sub("q", row("i", "d")), sub("k", row("j", "d"))),
    additive: math(
      of("s", "j"),
      "=",
      sum("d"),
      of("v", "d"),
      "tanh",
      "(",
      sub("q", row("i", "d")),
      "+",
      sub("k", row("j", "d")),
      ")",
    ),
    scale: math(
      of("s", "j"),
      "=",
      fraction(row(of("q", "i"), "·", of("k", "j")), root("d")),
      "=",
      attention.scale.toFixed(4),
      "·",
      row("(", of("q", "i"), "·", of("k", "j"), ")"),
    ),
    mask: attention.causal
      ? math(of("s", "j"), "=", "−", "∞", words(ifWord), "j", ">", "i")
      : math(of("s", "j"), "=", "−", "∞", words(ifWord), "j", words(masked)),
    softmax: math(of("w", "j"), "=", fraction(exponent("j"), row(sum("m"), exponent("m")))),
    sum: math(of("c", "i"), "=", sum("j"), of("w", "j"), of("v", "j")),
    concatenation: math(
      "c",
      "=",
      "[",
      of("c", "1"),
      ";",
      of("c", "2"),
      ";",
      "…",
      ";",
      of("c", String(attention.heads)),
      "]",
    ),
    projection: math("o", "=", sub("W", "O"), "c"),
    residual: math("y", "=", of("x", "i"), "+", "o"),
    norm: math("norm", "(", "y", ")", "=", "γ", "·", fraction(row("y", "−", "μ"), "σ"), "+", "β"),
  };
}
