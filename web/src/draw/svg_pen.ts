import { cellImage } from "./canvas_pen";
import { kFont, kMono, type Box, type Fill, type Lettering, type Pen, type Stroke } from "./pen";

const kMostCells = 4096; // a larger matrix becomes an image: viewers fail on an SVG of 100,000 rectangles

/** A pen that writes SVG. Text is escaped here and nowhere else. */
export class SvgPen implements Pen {
  private parts: string[] = [];
  private clips = 0;

  line(points: ArrayLike<number>, style: Stroke): void {
    const path = Array.from(
      { length: points.length >> 1 },
      (_, i) => `${round(points[2 * i]!)},${round(points[2 * i + 1]!)}`,
    );
    this.parts.push(`<polyline points="${path.join(" ")}" fill="none"${stroked(style)}/>`);
  }

  curves(ends: ArrayLike<number>, style: Stroke): void {
    let path = "";
    for (let i = 0; i + 3 < ends.length; i += 4) {
      const [x0, y0, x1, y1] = [ends[i]!, ends[i + 1]!, ends[i + 2]!, ends[i + 3]!];
      const bend = (x1 - x0) * 0.45;
      path += `M${round(x0)} ${round(y0)}C${round(x0 + bend)} ${round(y0)} ${round(x1 - bend)} ${round(y1)} ${round(x1)} ${round(y1)}`;
    }
    if (path) this.parts.push(`<path d="${path}" fill="none"${stroked(style)}/>`);
  }

  rect(box: Box, style: Fill): void {
    this.parts.push(`<rect ${placed(box)}${style.radius ? ` rx="${style.radius}"` : ""}${filled(style)}/>`);
  }

  circle(x: number, y: number, radius: number, style: Fill): void {
    this.parts.push(`<circle cx="${round(x)}" cy="${round(y)}" r="${round(radius)}"${filled(style)}/>`);
  }

  text(text: string, x: number, y: number, style: Lettering): void {
    const turned = style.turn ? ` transform="rotate(${style.turn} ${round(x)} ${round(y)})"` : "";
    const look =
      `${style.align && style.align !== "start" ? ` text-anchor="${style.align}"` : ""}` +
      `${style.weight ? ` font-weight="${style.weight}"` : ""}${style.italic ? ` font-style="italic"` : ""}` +
      `${style.mono ? ` font-family="${escape(kMono)}"` : ""}${style.alpha === undefined ? "" : ` opacity="${round(style.alpha)}"`}`;
    this.parts.push(
      `<text x="${round(x)}" y="${round(y)}" font-size="${style.size ?? 13}" fill="${style.colour}"${look}${turned} xml:space="preserve">${escape(text)}</text>`,
    );
  }

  cells(box: Box, rows: number, columns: number, colour: (row: number, column: number) => number): void {
    if (rows * columns > kMostCells) return this.image(cellImage(rows, columns, colour), box);
    const [width, height] = [box.width / columns, box.height / rows];
    for (let r = 0; r < rows; ++r)
      for (let c = 0; c < columns; ++c)
        this.rect(
          { x: box.x + c * width, y: box.y + r * height, width, height },
          { fill: "#" + colour(r, c).toString(16).padStart(6, "0") },
        );
  }

  image(whole: HTMLCanvasElement, box: Box, part?: Box): void {
    const source = part ? cropped(whole, part) : whole;
    this.parts.push(
      `<image ${placed(box)} preserveAspectRatio="none" image-rendering="pixelated" href="${source.toDataURL("image/png")}"/>`,
    );
  }

  photograph(source: HTMLCanvasElement, box: Box): void {
    this.parts.push(`<image ${placed(box)} preserveAspectRatio="none" href="${source.toDataURL("image/png")}"/>`);
  }

  clip(box: Box, draw: () => void): void {
    const id = `clip${this.clips++}`;
    this.parts.push(`<clipPath id="${id}"><rect ${placed(box)}/></clipPath><g clip-path="url(#${id})">`);
    draw();
    this.parts.push("</g>");
  }

  /** Translates everything that `draw` draws. */
  moved(x: number, y: number, draw: () => void): void {
    this.parts.push(`<g transform="translate(${round(x)} ${round(y)})">`);
    draw();
    this.parts.push("</g>");
  }

  finish(width: number, height: number, title: string): string {
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${round(width)}" height="${round(height)}" viewBox="0 0 ${round(width)} ${round(height)}" ` +
      `font-family="${escape(kFont)}"><title>${escape(title)}</title>${this.parts.join("\n")}</svg>\n`
    );
  }
}

function cropped(source: HTMLCanvasElement, part: Box): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.ceil(part.width));
  canvas.height = Math.max(1, Math.ceil(part.height));
  canvas.getContext("2d")!.drawImage(source, -part.x, -part.y);
  return canvas;
}

function round(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function placed(box: Box): string {
  return `x="${round(box.x)}" y="${round(box.y)}" width="${round(Math.max(0, box.width))}" height="${round(Math.max(0, box.height))}"`;
}

function stroked(style: Stroke): string {
  return (
    ` stroke="${style.colour}" stroke-width="${round(style.width ?? 1)}"` +
    `${style.alpha === undefined ? "" : ` stroke-opacity="${round(style.alpha)}"`}${style.dash ? ` stroke-dasharray="${style.dash.join(" ")}"` : ""}`
  );
}

function filled(style: Fill): string {
  return (
    ` fill="${style.fill ?? "none"}"${style.alpha === undefined ? "" : ` opacity="${round(style.alpha)}"`}` +
    `${style.stroke ? ` stroke="${style.stroke}" stroke-width="${round(style.width ?? 1)}"` : ""}`
  );
}

/** Escapes a text for XML, and removes characters that XML forbids. */
export function escape(text: string): string {
  const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "")
    .replace(/[&<>"]/g, (c) => entities[c]!);
}
