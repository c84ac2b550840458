import { fontOf, type Box, type Fill, type Lettering, type Pen, type Stroke } from "./pen";

export class CanvasPen implements Pen {
  constructor(private readonly to: CanvasRenderingContext2D) {}

  line(points: ArrayLike<number>, style: Stroke): void {
    this.stroke(style, () => {
      for (let i = 0; i + 1 < points.length; i += 2) this.to.lineTo(points[i]!, points[i + 1]!);
    });
  }

  curves(ends: ArrayLike<number>, style: Stroke): void {
    this.stroke(style, () => {
      for (let i = 0; i + 3 < ends.length; i += 4) {
        const [x0, y0, x1, y1] = [ends[i]!, ends[i + 1]!, ends[i + 2]!, ends[i + 3]!];
        const bend = (x1 - x0) * 0.45;
        this.to.moveTo(x0, y0);
        this.to.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
      }
    });
  }

  rect(box: Box, style: Fill): void {
    this.fill(style, () => {
      if (style.radius) this.to.roundRect(box.x, box.y, box.width, box.height, style.radius);
      else this.to.rect(box.x, box.y, box.width, box.height);
    });
  }

  circle(x: number, y: number, radius: number, style: Fill): void {
    this.fill(style, () => this.to.arc(x, y, radius, 0, 2 * Math.PI));
  }

  text(text: string, x: number, y: number, style: Lettering): void {
    const to = this.to;
    to.font = fontOf(style);
    to.fillStyle = style.colour;
    to.globalAlpha = style.alpha ?? 1;
    to.textAlign = style.align === "middle" ? "center" : (style.align ?? "start");
    to.textBaseline = "alphabetic";
    if (style.turn) {
      to.save();
      to.translate(x, y);
      to.rotate((style.turn * Math.PI) / 180);
      to.fillText(text, 0, 0);
      to.restore();
    } else {
      to.fillText(text, x, y);
    }
    to.globalAlpha = 1;
  }

  cells(box: Box, rows: number, columns: number, colour: (row: number, column: number) => number): void {
    if (rows > 0 && columns > 0) this.image(cellImage(rows, columns, colour), box);
  }

  image(source: HTMLCanvasElement, box: Box, part?: Box): void {
    const { x, y, width, height } = part ?? { x: 0, y: 0, width: source.width, height: source.height };
    this.to.imageSmoothingEnabled = false;
    this.to.drawImage(source, x, y, width, height, box.x, box.y, box.width, box.height);
  }

  photograph(source: HTMLCanvasElement, box: Box): void {
    this.to.imageSmoothingEnabled = true;
    this.to.drawImage(source, box.x, box.y, box.width, box.height);
  }

  clip(box: Box, draw: () => void): void {
    this.to.save();
    this.to.beginPath();
    this.to.rect(box.x, box.y, box.width, box.height);
    this.to.clip();
    draw();
    this.to.restore();
  }

  private stroke(style: Stroke, path: () => void): void {
    const to = this.to;
    to.beginPath();
    path();
    to.strokeStyle = style.colour;
    to.lineWidth = style.width ?? 1;
    to.globalAlpha = style.alpha ?? 1;
    to.lineJoin = "round";
    to.setLineDash(style.dash ?? []);
    to.stroke();
    to.globalAlpha = 1;
  }

  private fill(style: Fill, path: () => void): void {
    const to = this.to;
    to.beginPath();
    path();
    to.globalAlpha = style.alpha ?? 1;
    if (style.fill) {
      to.fillStyle = style.fill;
      to.fill();
    }
    if (style.stroke) {
      to.strokeStyle = style.stroke;
      to.lineWidth = style.width ?? 1;
      to.setLineDash([]);
      to.stroke();
    }
    to.globalAlpha = 1;
  }
}

/** An image with one pixel per cell. */
export function cellImage(
  rows: number,
  columns: number,
  colour: (row: number, column: number) => number,
): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const to = canvas.getContext("2d")!;
  const pixels = to.createImageData(columns, rows);
  const words = new Uint32Array(pixels.data.buffer);
  for (let r = 0; r < rows; ++r)
    for (let c = 0; c < columns; ++c) {
      const rgb = colour(r, c);
      // Little-endian: alpha, blue, green, red.
      words[r * columns + c] = (0xff000000 | ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
    }
  to.putImageData(pixels, 0, 0);
  return canvas;
}
