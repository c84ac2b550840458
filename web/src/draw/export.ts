import { CanvasPen } from "./canvas_pen";
import type { Picture } from "./picture";
import { fitted, textWidth, type Pen } from "./pen";
import { SvgPen } from "./svg_pen";
import type { Theme } from "./theme";

const kMargin = 24;
const kHeading = 34;
const kLine = 18;
const kMostPixels = 60_000_000;

/** The text above the pictures: what they show, and what their colours mean. */
export interface Heading {
  title: string;
  lines: string[];
  legend: [string, string][]; // names and colours
}

/** All pictures of a view, stacked in one SVG. */
export function toSvg(pictures: Picture[], heading: Heading, theme: Theme): string {
  const { width, height } = extent(pictures, heading);
  const pen = new SvgPen();
  pen.rect({ x: 0, y: 0, width, height }, { fill: theme.paper });
  drawHeading(pen, heading, width, theme);
  let top = kMargin + headingHeight(heading, width);
  for (const picture of pictures) {
    pen.text(picture.options.title, kMargin, top + 16, { colour: theme.ink, size: 15, weight: 600 });
    pen.moved(kMargin, top + kHeading, () => picture.drawWhole(pen));
    top += kHeading + picture.size.height + kMargin;
  }
  return pen.finish(width, height, heading.title);
}

/** The same as a PNG at twice the size, or as large as a canvas can be. */
export async function toPng(pictures: Picture[], heading: Heading, theme: Theme): Promise<Blob> {
  const { width, height } = extent(pictures, heading);
  const scale = Math.min(2, Math.sqrt(kMostPixels / (width * height)), 32_000 / height, 32_000 / width);
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(height * scale);
  const context = canvas.getContext("2d")!;
  const pen = new CanvasPen(context);
  context.scale(scale, scale);
  pen.rect({ x: 0, y: 0, width, height }, { fill: theme.paper });
  drawHeading(pen, heading, width, theme);
  context.translate(kMargin, kMargin + headingHeight(heading, width));
  for (const picture of pictures) {
    pen.text(picture.options.title, 0, 16, { colour: theme.ink, size: 15, weight: 600 });
    context.translate(0, kHeading);
    picture.drawWhole(pen);
    context.translate(0, picture.size.height + kMargin);
  }
  return new Promise((done, failed) =>
    canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("no image"))), "image/png"),
  );
}

/** The places of the legend's entries, wrapped to the width. */
function legendPlaces({ legend }: Heading, width: number): [number, number][] {
  let [x, y] = [0, 0];
  return legend.map(([name]) => {
    const size = textWidth(name, { size: 12 }) + 30;
    if (x > 0 && x + size > width - 2 * kMargin) [x, y] = [0, y + kLine];
    x += size;
    return [x - size, y];
  });
}

function headingHeight(heading: Heading, width: number): number {
  const places = legendPlaces(heading, width);
  const legend = places.length ? places[places.length - 1]![1] + kLine : 0;
  return 22 + heading.lines.length * kLine + legend + 6;
}

function drawHeading(pen: Pen, heading: Heading, width: number, theme: Theme): void {
  const room = width - 2 * kMargin;
  let y = kMargin + 16;
  pen.text(fitted(heading.title, room, { size: 17, weight: 600 }), kMargin, y, {
    ...{ colour: theme.ink, size: 17, weight: 600 },
  });
  for (const line of heading.lines)
    pen.text(fitted(line, room, { size: 13 }), kMargin, (y += kLine), { colour: theme.soft, size: 13 });
  y += kLine;
  legendPlaces(heading, width).forEach(([x, down], i) => {
    const [name, colour] = heading.legend[i]!;
    pen.circle(kMargin + x + 6, y + down - 4, 5, { fill: colour });
    pen.text(name, kMargin + x + 16, y + down, { colour: theme.ink, size: 12 });
  });
}

/** Writes NaN and ∞, which JSON lacks, as text, as docs/inspect-format.md specifies. */
export function toJson(data: unknown): string {
  return JSON.stringify(
    data,
    (_key, value: unknown) => {
      if (value instanceof Float32Array) return Array.from(value);
      return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
    },
    1,
  );
}

export function save(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

function extent(pictures: Picture[], heading: Heading): { width: number; height: number } {
  const width = Math.max(420, ...pictures.map((picture) => picture.size.width)) + 2 * kMargin;
  const height = pictures.reduce((sum, picture) => sum + picture.size.height + kHeading + kMargin, kMargin);
  return { width, height: height + headingHeight(heading, width) };
}
