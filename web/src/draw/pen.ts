/** The drawing interface. The same code draws to the screen and to a PNG (canvas), and to an SVG. */
export interface Pen {
  line(points: ArrayLike<number>, style: Stroke): void; // x0, y0, x1, y1, …
  /** Many S-curves of one style, horizontal at both ends. Each is x0, y0, x1, y1. */
  curves(ends: ArrayLike<number>, style: Stroke): void;
  rect(box: Box, style: Fill): void;
  circle(x: number, y: number, radius: number, style: Fill): void;
  text(text: string, x: number, y: number, style: Lettering): void;
  /** A matrix as coloured cells that fill the box. `colour` returns 0xRRGGBB. */
  cells(box: Box, rows: number, columns: number, colour: (row: number, column: number) => number): void;
  /** An image, or a part of it, stretched over the box without smoothing. */
  image(source: HTMLCanvasElement, box: Box, part?: Box): void;
  /** An image stretched over the box with smoothing. */
  photograph(source: HTMLCanvasElement, box: Box): void;
  clip(box: Box, draw: () => void): void;
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Stroke {
  colour: string;
  width?: number;
  alpha?: number;
  dash?: number[];
}

export interface Fill {
  fill?: string;
  stroke?: string;
  width?: number;
  radius?: number;
  alpha?: number;
}

export interface Lettering {
  colour: string;
  size?: number;
  align?: "start" | "middle" | "end";
  weight?: number;
  italic?: boolean;
  mono?: boolean;
  alpha?: number;
  turn?: number; // rotation about the point, in degrees
}

export const kFont = `"Latin marks", -apple-system, "Segoe UI", Inter, "Helvetica Neue", Arial, "Noto Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "Noto Sans SC", sans-serif`;
export const kMono = `ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", "Noto Sans Mono CJK SC", monospace`;

export function fontOf(style: Lettering): string {
  return `${style.italic ? "italic " : ""}${style.weight ?? 400} ${style.size ?? 13}px ${style.mono ? kMono : kFont}`;
}

let ruler: CanvasRenderingContext2D | null = null;

export function textWidth(text: string, style: Omit<Lettering, "colour">): number {
  ruler ??= document.createElement("canvas").getContext("2d")!;
  ruler.font = fontOf({ colour: "", ...style });
  return ruler.measureText(text).width;
}

/** The text, shortened with an ellipsis if it does not fit. */
export function fitted(text: string, width: number, style: Omit<Lettering, "colour">): string {
  if (textWidth(text, style) <= width) return text;
  const characters = [...text];
  while (characters.length > 0 && textWidth(characters.join("") + "…", style) > width) characters.pop();
  return characters.join("") + "…";
}
