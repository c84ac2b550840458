import { tableBehind, type Table } from "../a11y/table";
import { el } from "../dom";
import { CanvasPen } from "./canvas_pen";
import type { Pen } from "./pen";

/** The visible part of a picture, in the picture's coordinates. */
export interface Sight {
  width: number; // of the whole picture
  height: number;
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export interface PictureOptions {
  id: string;
  title: string;
  label: string; // for screen readers
  /** The size of the whole picture at an available width. */
  size(available: number): { width: number; height: number };
  /** Maximum height; taller pictures scroll. */
  tallest?: number;
  draw(pen: Pen, sight: Sight): void;
  hover?(x: number, y: number): void;
  leave?(): void;
  press?(x: number, y: number, event: PointerEvent): void;
  /** Returns whether the key was handled. */
  key?(event: KeyboardEvent): boolean;
  table?: () => Table;
  summary?: string; // of the table
}

/** A figure on a canvas. Only its visible part is drawn, so it may be of any size. */
export class Picture {
  readonly element: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  private readonly scroller: HTMLElement;
  private readonly sizer: HTMLElement;
  private frame = 0;
  private whole = { width: 0, height: 0 };

  constructor(readonly options: PictureOptions) {
    const acts = options.key !== undefined;
    this.canvas = el("canvas", {
      attributes: {
        id: options.id,
        role: acts ? "application" : "img",
        "aria-label": options.label,
        ...(acts ? { tabindex: 0 } : {}),
      },
    });
    this.sizer = el("div", { class: "sizer" }, this.canvas);
    this.scroller = el("div", { class: "scroller", on: { scroll: () => this.redraw() } }, this.sizer);
    if (options.tallest) this.scroller.style.maxHeight = `${options.tallest}px`;
    this.element = el(
      "figure",
      { class: "picture" },
      this.scroller,
      options.table ? tableBehind(options.summary ?? options.title, options.title, options.table) : null,
    );
    this.listen();
    new ResizeObserver(() => this.layOut()).observe(this.element);
  }

  /** Draws again in the next frame. */
  redraw(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  /** Scrolls a position into view. */
  reveal(y: number, height: number): void {
    const { scrollTop, clientHeight } = this.scroller;
    if (y < scrollTop) this.scroller.scrollTop = y - height;
    else if (y + height > scrollTop + clientHeight) this.scroller.scrollTop = y + 2 * height - clientHeight;
  }

  /** Scrolls sideways to a position that lies outside the visible part. */
  revealAcross(x: number, width: number): void {
    const { scrollLeft, clientWidth } = this.scroller;
    if (x < scrollLeft || x + width > scrollLeft + clientWidth) this.scroller.scrollLeft = x + width / 2 - clientWidth / 2;
  }

  /** Draws the whole picture with another pen, for export. */
  drawWhole(pen: Pen): void {
    const { width, height } = this.whole;
    this.options.draw(pen, { width, height, left: 0, top: 0, right: width, bottom: height });
  }

  get size(): { width: number; height: number } {
    return this.whole;
  }

  layOut(): void {
    const available = this.element.clientWidth;
    if (available === 0) return;
    this.whole = this.options.size(available);
    this.sizer.style.width = `${this.whole.width}px`;
    this.sizer.style.height = `${this.whole.height}px`;
    const width = Math.min(this.whole.width, this.scroller.clientWidth);
    const height = Math.min(this.whole.height, this.options.tallest ?? Infinity);
    const scale = window.devicePixelRatio;
    const [columns, rows] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
    if (this.canvas.width !== columns) this.canvas.width = columns;
    if (this.canvas.height !== rows) this.canvas.height = rows;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.draw();
  }

  private draw(): void {
    this.frame = 0;
    const started = performance.now();
    const context = this.canvas.getContext("2d")!;
    const scale = window.devicePixelRatio;
    const { scrollLeft: left, scrollTop: top } = this.scroller;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(scale, 0, 0, scale, -left * scale, -top * scale);
    const [right, bottom] = [left + this.canvas.width / scale, top + this.canvas.height / scale];
    this.options.draw(new CanvasPen(context), { ...this.whole, left, top, right, bottom });
    this.canvas.dataset.drawn = (performance.now() - started).toFixed(2); // read by the performance test
  }

  private listen(): void {
    const { hover, leave, press, key } = this.options;
    const place = (event: PointerEvent): [number, number] => {
      const box = this.canvas.getBoundingClientRect();
      return [event.clientX - box.left + this.scroller.scrollLeft, event.clientY - box.top + this.scroller.scrollTop];
    };
    if (hover) this.canvas.addEventListener("pointermove", (event) => hover(...place(event)));
    if (leave) {
      // A finger leaves the picture with every tap: what it touched stays shown.
      this.canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
      this.canvas.addEventListener("blur", () => leave());
    }
    if (press || hover)
      this.canvas.addEventListener("click", (event) => {
        const at = place(event as PointerEvent);
        hover?.(...at); // a tap points and presses at once
        press?.(...at, event as PointerEvent);
      });
    if (key)
      this.canvas.addEventListener("keydown", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.altKey && key(event)) event.preventDefault();
      });
  }
}
