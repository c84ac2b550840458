// Formulas as MathML, which current browsers render and screen readers read aloud.

const kNamespace = "http://www.w3.org/1998/Math/MathML";

export type Maths = Element | string;

function node(tag: string, ...children: Maths[]): Element {
  const element = document.createElementNS(kNamespace, tag);
  for (const child of children) element.append(typeof child === "string" ? token(child) : child);
  return element;
}

/** The MathML element of a number, an operator or a name. */
function token(text: string): Element {
  const tag = /^−?\d[\d.]*(e−?\d+)?$/.test(text) ? "mn" : /^[=+·×∑√()[\],;:−/→∈<>≤≥⊙|′…]$/.test(text) ? "mo" : "mi";
  const element = document.createElementNS(kNamespace, tag);
  element.textContent = text;
  if (tag === "mi" && text.length > 1) element.setAttribute("mathvariant", "normal");
  return element;
}

export const row = (...parts: Maths[]): Element => node("mrow", ...parts);
export const sub = (base: Maths, index: Maths): Element => node("msub", base, index);
export const sup = (base: Maths, index: Maths): Element => node("msup", base, index);
export const fraction = (above: Maths, below: Maths): Element => node("mfrac", above, below);

/** A square root, drawn as the character √ and a line over the radicand: msqrt stretches a glyph that many installed
 * fonts lack, and then shows no sign at all. */
export function root(inside: Maths): Element {
  const sign = document.createElementNS(kNamespace, "mo");
  sign.textContent = "√";
  sign.setAttribute("class", "radical");
  for (const space of ["lspace", "rspace"]) sign.setAttribute(space, "0");
  sign.setAttribute("stretchy", "false");
  const radicand = node("mrow", inside);
  radicand.setAttribute("class", "radicand");
  return node("mrow", sign, radicand);
}

/** Plain words within a formula. */
export function words(text: string): Element {
  const element = document.createElementNS(kNamespace, "mtext");
  element.textContent = `\u00a0${text}\u00a0`;
  return element;
}

export function sum(index: Maths): Element {
  const sign = document.createElementNS(kNamespace, "mo");
  sign.textContent = "∑";
  sign.setAttribute("movablelimits", "false");
  return node("munder", sign, index);
}

export function math(...parts: Maths[]): Element {
  const element = node("math", row(...parts));
  element.setAttribute("display", "block");
  return element;
}
