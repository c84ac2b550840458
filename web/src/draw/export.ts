import { CanvasPen } from "./canvas_pen";
import type { Picture } from "./picture";
import { SvgPen } from "./svg_pen";
import type { Theme } from "./theme";

const kMargin = 24;
const kHeading = 34;
const kMostPixels = 60_000_000;

/** All pictures of a view, stacked in one SVG. */
export function toSvg(pictures: Picture[], title: string, theme: Theme): string {
  const { width, height } = extent(pictures);
  const pen = new SvgPen();
  pen.rect({ x: 0, y: 0, width, height }, { fill: theme.paper });
  let top = kMargin;
  for (const picture of pictures) {
    pen.text(picture.options.title, kMargin, top + 16, { colour: theme.ink, size: 15, weight: 600 });
    pen.moved(kMargin, top + kHeading, () => picture.drawWhole(pen));
    top += kHeading + picture.size.height + kMargin;
  }
  return pen.finish(width, height, title);
}

/** The same as a PNG at twice the size, or as large as a canvas can be. */
export async function toPng(pictures: Picture[], theme: Theme): Promise<Blob> {
  const { width, height } = extent(pictures);
  const scale = Math.min(2, Math.sqrt(kMostPixels / (width * height)), 32_000 / height, 32_000 / width);
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(height * scale);
  const context = canvas.getContext("2d")!;
  const pen = new CanvasPen(context);
  context.scale(scale, scale);
  pen.rect({ x: 0, y: 0, width, height }, { fill: theme.paper });
  context.translate(kMargin, kMargin);
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

function extent(pictures: Picture[]): { width: number; height: number } {
  const width = Math.max(320, ...pictures.map((picture) => picture.size.width)) + 2 * kMargin;
  const height = pictures.reduce((sum, picture) => sum + picture.size.height + kHeading + kMargin, kMargin);
  return { width, height };
}
