import type { Pen } from "./pen";
import { inkOn, signedColour, type Theme } from "./theme";
import { largestMagnitude } from "../data/grid";

/** A vector as a row of coloured cells, with its name on the left. */
export interface Strip {
  name: string;
  values: ArrayLike<number>;
  most?: number;
  segments?: { size: number; colours: string[] }; // equal parts, each underlined in its colour
}

export const kStripHeight = 34;

export function stripsHeight(count: number): number {
  return count * kStripHeight + 4;
}

export function drawStrips(pen: Pen, strips: Strip[], width: number, theme: Theme): void {
  const left = Math.min(130, width * 0.3);
  strips.forEach((strip, n) => {
    const y = n * kStripHeight + 4;
    pen.text(strip.name, left - 8, y + 11, { colour: theme.ink, size: 13, align: "end" });
    const most = strip.most ?? largestMagnitude(strip.values); // the strongest colour
    pen.text(`±${most.toPrecision(3)}`, left - 8, y + 24, { colour: theme.soft, size: 10, align: "end" });
    drawVector(pen, strip, { x: left, y, width: width - left - 2, height: 24 }, theme);
  });
}

function drawVector(
  pen: Pen,
  strip: Strip,
  box: { x: number; y: number; width: number; height: number },
  theme: Theme,
): void {
  const count = strip.values.length;
  const cell = Math.min(44, box.width / Math.max(1, count));
  const most = strip.most ?? largestMagnitude(strip.values);
  const whole = { ...box, width: cell * count };
  pen.cells(whole, 1, count, (_, c) => signedColour(theme, strip.values[c]!, most));
  pen.rect(whole, { stroke: theme.faint });
  if (cell >= 30) {
    for (let i = 0; i < count; ++i) {
      const colour = signedColour(theme, strip.values[i]!, most);
      const text = strip.values[i]!.toFixed(2);
      pen.text(Number(text) === 0 ? "0.00" : text.replace("-", "−"), box.x + (i + 0.5) * cell, box.y + 16, {
        colour: inkOn(colour),
        size: 10,
        align: "middle",
      });
    }
  }
  if (strip.segments) {
    const size = strip.segments.size * cell;
    strip.segments.colours.forEach((colour, i) =>
      pen.rect({ x: box.x + i * size + 1, y: box.y + box.height + 2, width: size - 2, height: 3 }, { fill: colour }),
    );
  }
}
