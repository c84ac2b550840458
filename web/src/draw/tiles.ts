import type { Grid } from "../data/grid";
import { cellImage } from "./canvas_pen";
import type { Box, Pen } from "./pen";
import { weightColour, type Theme, type WeightScale } from "./theme";

export const kTile = 256;
const kMostTiles = 600; // 256 KiB each
const kAtOnce = 4;

/** Maps a position in the matrix (row and column of weights) to a position in the picture. */
export interface Placement {
  x(column: number): number;
  y(row: number): number;
  scale: number; // pixels per weight
}

/** A matrix of any size as tiles at several levels of detail, fetched when they become visible. */
export class Tiles {
  readonly levels: number;
  private images = new Map<string, HTMLCanvasElement>();
  private grids = new Map<string, Grid>(); // tiles of level 0: the weights themselves
  private wanted: string[] = [];
  private busy = new Set<string>();

  constructor(
    readonly rows: number,
    readonly columns: number,
    private readonly theme: Theme,
    private readonly load: (level: number, row: number, column: number) => Promise<Grid>,
    private readonly arrived: () => void,
    private readonly scale: WeightScale = "root",
  ) {
    this.levels = Math.max(0, Math.ceil(Math.log2(Math.max(rows, columns, 1) / kTile)));
  }

  /** Loads the coarsest tile, which covers the whole matrix. */
  async open(): Promise<void> {
    const whole = await this.load(this.levels, 0, 0);
    this.keep(`${this.levels}/0/0`, whole);
  }

  /** The weight, if its tile is loaded. */
  weight(row: number, column: number): number | undefined {
    const grid = this.grids.get(`0/${Math.floor(row / kTile)}/${Math.floor(column / kTile)}`);
    return grid?.at(row % kTile, column % kTile);
  }

  /** Draws the part in the box, with coarser tiles where the right ones are not loaded yet. */
  draw(pen: Pen, box: Box, at: Placement): void {
    const level = Math.min(this.levels, Math.max(0, Math.floor(Math.log2(1 / at.scale))));
    const span = kTile * 2 ** level;
    const first = (offset: number) => Math.max(0, Math.floor(offset / at.scale / span));
    const rows = [first(box.y - at.y(0)), Math.ceil((box.y + box.height - at.y(0)) / at.scale / span)];
    const columns = [first(box.x - at.x(0)), Math.ceil((box.x + box.width - at.x(0)) / at.scale / span)];
    this.wanted = [];
    for (let r = rows[0]!; r < rows[1]! && r * span < this.rows; ++r)
      for (let c = columns[0]!; c < columns[1]! && c * span < this.columns; ++c) this.drawTile(pen, at, level, r, c);
    this.fetchMore();
  }

  private drawTile(pen: Pen, at: Placement, level: number, r: number, c: number): void {
    const span = kTile * 2 ** level;
    const [height, width] = [Math.min(span, this.rows - r * span), Math.min(span, this.columns - c * span)];
    const box = { x: at.x(c * span), y: at.y(r * span), width: width * at.scale, height: height * at.scale };
    if (!this.images.has(`${level}/${r}/${c}`)) this.wanted.push(`${level}/${r}/${c}`);
    for (let up = level; up <= this.levels; ++up) {
      const times = 2 ** (up - level);
      const [row, column] = [Math.floor(r / times), Math.floor(c / times)];
      const image = this.images.get(`${up}/${row}/${column}`);
      if (!image) continue;
      const cell = 2 ** up;
      const part = {
        x: (c * span) / cell - column * kTile,
        y: (r * span) / cell - row * kTile,
        width: width / cell,
        height: height / cell,
      };
      return pen.image(image, box, part);
    }
  }

  private fetchMore(): void {
    for (const key of this.wanted) {
      if (this.busy.size >= kAtOnce) return;
      if (this.busy.has(key) || this.images.has(key)) continue;
      this.busy.add(key);
      const [level, row, column] = key.split("/").map(Number) as [number, number, number];
      this.load(level, row, column)
        .then(
          (grid) => this.keep(key, grid),
          () =>
            this.images.set(
              key,
              cellImage(1, 1, () => 0x888888),
            ),
        )
        .finally(() => {
          this.busy.delete(key);
          this.arrived();
        });
    }
  }

  private keep(key: string, grid: Grid): void {
    const { theme, scale } = this;
    this.images.set(
      key,
      cellImage(grid.rows, grid.columns, (r, c) => weightColour(theme, grid.at(r, c), scale)),
    );
    if (key.startsWith("0/")) this.grids.set(key, grid);
    if (this.images.size <= kMostTiles) return;
    const oldest = [...this.images.keys()].find((name) => !name.startsWith(`${this.levels}/`))!;
    this.images.delete(oldest);
    this.grids.delete(oldest);
  }
}
