import { Grid } from "./grid";
import { Unavailable, type Feature, type Part, type Source } from "./source";
import type {
  Alignment,
  Embeddings,
  GenerateLine,
  GenerateRequest,
  HeadEffect,
  HeadStats,
  HeadSummary,
  Info,
  InspectFile,
  Logits,
  Neighbours,
  Run,
  Training,
} from "./types";

/** Reads the data that `attend inspect -o page.html` embeds in the page: one complete run, without a server. */
export class OfflineSource implements Source {
  readonly kind = "file";
  changed = () => {};
  private grids = new Map<string, Grid>();

  constructor(private readonly file: InspectFile) {}

  has(feature: Feature): boolean {
    switch (feature) {
      case "embeddings":
        return this.file.embeddings !== undefined || this.file.positions !== undefined;
      case "training":
        return this.file.training !== undefined;
      case "generation":
        return this.file.generation !== undefined;
      case "alignment":
        return this.file.alignment !== undefined;
      case "compare":
        return true;
      default:
        return false;
    }
  }

  async info(): Promise<Info> {
    return this.file.info;
  }

  async run(): Promise<Run> {
    return this.file.run;
  }

  async upload(): Promise<string> {
    throw new Unavailable("runs");
  }

  async runById(id: string): Promise<Run> {
    if (id !== this.file.run.id) throw new Unavailable("runs");
    return this.file.run;
  }

  async array(_run: string, name: string, part: Part = {}): Promise<Grid> {
    return cut(this.grid(name), part);
  }

  async heads(): Promise<HeadSummary[]> {
    return this.file.heads?.heads ?? [];
  }

  async effects(): Promise<HeadEffect[]> {
    return [];
  }

  async stats(_run: string, attention: number, head: number): Promise<HeadStats> {
    return this.file.stats?.[`${attention}/${head}`] ?? totals(this.grid(`weights/${attention}/${head}`));
  }

  async alignment(): Promise<Alignment> {
    if (!this.file.alignment) throw new Unavailable("alignment");
    return this.file.alignment;
  }

  async logits(): Promise<Logits> {
    throw new Unavailable("logits");
  }

  async tool(): Promise<never> {
    throw new Unavailable("tools");
  }

  toolResult(): null {
    return null;
  }

  async generate(_request: GenerateRequest, line: (line: GenerateLine) => void): Promise<void> {
    if (!this.file.generation) throw new Unavailable("generation");
    this.file.generation.forEach(line);
  }

  async write(): Promise<void> {
    throw new Unavailable("chat");
  }

  async tokenTexts(): Promise<string[]> {
    throw new Unavailable("chat");
  }

  async embeddings(_model: string, kind: "tokens" | "positions"): Promise<Embeddings> {
    const found = kind === "tokens" ? this.file.embeddings : this.file.positions;
    if (!found) throw new Unavailable("embeddings");
    return found;
  }

  async tokens(): Promise<{ id: number; text: string }[]> {
    throw new Unavailable("neighbours");
  }

  async neighbours(): Promise<Neighbours> {
    throw new Unavailable("neighbours");
  }

  async training(): Promise<Training> {
    if (!this.file.training) throw new Unavailable("training");
    return this.file.training;
  }

  follow(): () => void {
    return () => {};
  }

  async followSentence(): Promise<void> {
    throw new Unavailable("training");
  }

  private grid(name: string): Grid {
    const known = this.grids.get(name) ?? this.stored(name) ?? this.derived(name);
    if (!known) throw new Unavailable("array");
    this.grids.set(name, known);
    return known;
  }

  private stored(name: string): Grid | undefined {
    const array = this.file.arrays[name];
    if (!array) return undefined;
    const bytes = Uint8Array.from(atob(array.data), (character) => character.charCodeAt(0));
    return new Grid(new Float32Array(bytes.buffer), array.shape);
  }

  /** Arrays that are computed from the weights instead of being stored in the file. */
  private derived(name: string): Grid | undefined {
    const [what, first, second, level, row, column] = name.split("/");
    if (what === "thumbnails") return this.thumbnails(Number(first), Number(second));
    if (what === "average") return this.average(Number(first));
    if (what === "tile") {
      const size = 2 ** Number(level);
      return pooled(this.grid(`weights/${first}/${second}`), size, Number(row) * 256, Number(column) * 256);
    }
    return undefined;
  }

  private average(attention: number): Grid {
    const { heads } = this.file.run.attention[attention]!;
    const first = this.grid(`weights/${attention}/0`);
    const sum = Grid.zeros(first.rows, first.columns);
    for (let head = 0; head < heads; ++head)
      this.grid(`weights/${attention}/${head}`).data.forEach((weight, i) => (sum.data[i]! += weight / heads));
    return sum;
  }

  private thumbnails(size: number, attention: number): Grid {
    const { heads, queries, keys } = this.file.run.attention[attention]!;
    const [rows, columns] = [Math.min(size, queries), Math.min(size, keys)];
    const all = new Float32Array(heads * rows * columns);
    for (let head = 0; head < heads; ++head) {
      const weights = this.grid(`weights/${attention}/${head}`);
      for (let r = 0; r < queries; ++r)
        for (let c = 0; c < keys; ++c) {
          const at = (head * rows + Math.floor((r * rows) / queries)) * columns + Math.floor((c * columns) / keys);
          all[at] = Math.max(all[at]!, weights.at(r, c));
        }
    }
    return new Grid(all, [heads, rows, columns]);
  }
}

function cut(grid: Grid, { rows = [0, grid.rows], columns = [0, grid.columns] }: Part): Grid {
  if (rows[0] === 0 && columns[0] === 0 && rows[1] === grid.rows && columns[1] === grid.columns) return grid;
  const part = Grid.zeros(rows[1] - rows[0], columns[1] - columns[0]);
  for (let r = 0; r < part.rows; ++r)
    part.data.set(grid.row(rows[0] + r).subarray(columns[0], columns[1]), r * part.columns);
  return part;
}

/** Max-pools a matrix to at most 256 × 256 cells, each the largest of size × size weights. */
export function pooled(grid: Grid, size: number, firstRow: number, firstColumn: number): Grid {
  const cells = (length: number, first: number) => Math.max(0, Math.min(256, Math.ceil(length / size) - first));
  const tile = Grid.zeros(cells(grid.rows, firstRow), cells(grid.columns, firstColumn));
  for (let r = 0; r < tile.rows * size; ++r) {
    const row = firstRow * size + r;
    if (row >= grid.rows) break;
    for (let c = 0; c < tile.columns * size; ++c) {
      const column = firstColumn * size + c;
      if (column >= grid.columns) break;
      const at = Math.floor(r / size) * tile.columns + Math.floor(c / size);
      tile.data[at] = Math.max(tile.data[at]!, grid.at(row, column));
    }
  }
  return tile;
}

function totals(weights: Grid): HeadStats {
  const stats: HeadStats = { entropy: [], rowTotals: [], columnTotals: Array<number>(weights.columns).fill(0) };
  for (let r = 0; r < weights.rows; ++r) {
    let [entropy, total] = [0, 0];
    weights.row(r).forEach((w, c) => {
      total += w;
      stats.columnTotals[c]! += w;
      if (w > 0) entropy -= w * Math.log(w);
    });
    stats.entropy.push(entropy);
    stats.rowTotals.push(total);
  }
  return stats;
}
