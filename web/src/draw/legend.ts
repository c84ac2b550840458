import { el } from "../dom";
import { CanvasPen } from "./canvas_pen";
import { drawLegend, drawSignedLegend } from "./heatmap";
import type { Pen } from "./pen";
import type { Theme } from "./theme";

// Legends beside HTML. Pictures draw their own, so that exported files have them too.

const [kWidth, kHeight] = [190, 24];

/** Names and colours in a row. */
export function legend(items: [string, string][]): HTMLElement {
  return el(
    "p",
    { class: "legend" },
    ...items.map(([name, colour]) => {
      const mark = el("span", { class: "mark" });
      mark.style.background = colour;
      return el("span", {}, mark, name);
    }),
  );
}

/** The colour scale of weights and probabilities. */
export function weightLegend(theme: Theme, name: string): HTMLElement {
  return scale(name, (pen) => drawLegend(pen, 5, 1, theme));
}

/** The colour scale of signed numbers, relative to the largest of each picture. */
export function signedLegend(theme: Theme, name: string): HTMLElement {
  return scale(name, (pen) => drawSignedLegend(pen, 5, 1, theme, 1));
}

function scale(name: string, draw: (pen: Pen) => void): HTMLElement {
  const dots = window.devicePixelRatio;
  const canvas = el("canvas", {
    attributes: { width: kWidth * dots, height: kHeight * dots, role: "img", "aria-label": name },
  });
  canvas.style.width = `${kWidth}px`;
  canvas.style.height = `${kHeight}px`;
  const context = canvas.getContext("2d")!;
  context.scale(dots, dots);
  draw(new CanvasPen(context));
  return el("div", { class: "scale" }, el("span", {}, name), canvas);
}
