// Reads a model's weights, to check the page's equations independently of the library.
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** All f32 tensors of a model folder: name → { shape, data }. */
export function weightsOf(folder) {
  const file = readFileSync(join(folder, "model.safetensors"));
  const size = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.subarray(8, 8 + size).toString("utf8"));
  const tensors = new Map();
  for (const [name, { dtype, shape, data_offsets: range }] of Object.entries(header)) {
    if (dtype !== "F32") continue;
    const bytes = Uint8Array.prototype.slice.call(file, 8 + size + range[0], 8 + size + range[1]);
    tensors.set(name, { shape, data: new Float32Array(bytes.buffer) });
  }
  return tensors;
}

/** Row `index` of a matrix. */
export function rowOf({ shape, data }, index) {
  return Array.from(data.subarray(index * shape[1], (index + 1) * shape[1]));
}

/** The matrix times a vector; `first` and `count` select rows. */
export function times(matrix, x, first = 0, count = matrix.shape[0]) {
  const [, columns] = matrix.shape;
  return Array.from({ length: count }, (_, r) => {
    let sum = 0;
    for (let c = 0; c < columns; ++c) sum += matrix.data[(first + r) * columns + c] * x[c];
    return sum;
  });
}
