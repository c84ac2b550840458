/** An array of float32 numbers from the server, in row-major order. */
export class Grid {
  constructor(
    readonly data: Float32Array,
    readonly shape: number[],
  ) {}

  static zeros(rows: number, columns: number): Grid {
    return new Grid(new Float32Array(rows * columns), [rows, columns]);
  }

  get rows(): number {
    return this.shape.length > 1 ? this.shape[this.shape.length - 2]! : 1;
  }

  get columns(): number {
    return this.shape[this.shape.length - 1] ?? 0;
  }

  at(row: number, column: number): number {
    return this.data[row * this.columns + column]!;
  }

  row(row: number): Float32Array {
    return this.data.subarray(row * this.columns, (row + 1) * this.columns);
  }

  /** Matrix `index` of a three-dimensional array. */
  slice(index: number): Grid {
    const size = this.rows * this.columns;
    return new Grid(this.data.subarray(index * size, (index + 1) * size), [this.rows, this.columns]);
  }

  column(column: number): Float32Array {
    return Float32Array.from({ length: this.rows }, (_, row) => this.at(row, column));
  }
}

export function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < a.length; ++i) sum += a[i]! * b[i]!;
  return sum;
}

/** The k largest entries as [index, value], largest first. */
export function largest(values: ArrayLike<number>, count: number): [number, number][] {
  return Array.from(values, (value, index): [number, number] => [index, value])
    .sort((a, b) => b[1] - a[1])
    .slice(0, count);
}

export function largestMagnitude(values: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < values.length; ++i) {
    const size = Math.abs(values[i]!);
    if (size > most && Number.isFinite(size)) most = size;
  }
  return most;
}
