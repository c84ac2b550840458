// PNG files: a test picture of a tree and the sun over a hill, and compression of other PNGs.
import { deflateSync, inflateSync } from "node:zlib";

const kWidth = 320;
const kHeight = 240;

/** `light`: 1 by day; less is darker. */
export function scene(light = 1) {
  const rows = Buffer.alloc(kHeight * (1 + 3 * kWidth)); // each row begins with its filter, 0
  for (let y = 0; y < kHeight; ++y)
    for (let x = 0; x < kWidth; ++x) rows.set(colourAt(x / kWidth, y / kHeight).map((part) => part * light), y * (1 + 3 * kWidth) + 1 + 3 * x);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(kWidth, 0);
  header.writeUInt32BE(kHeight, 4);
  header.set([8, 2, 0, 0, 0], 8);
  return written(header, rows);
}

/** The same picture with the best compression: browsers use a fast one. */
export function repacked(png) {
  const parts = { IHDR: [], IDAT: [] };
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at))
    parts[png.toString("latin1", at + 4, at + 8)]?.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  return written(parts.IHDR[0], inflateSync(Buffer.concat(parts.IDAT)));
}

function written(header, rows) {
  const packed = deflateSync(rows, { level: 9, memLevel: 9 });
  const parts = [chunk("IHDR", header), chunk("IDAT", packed), chunk("IEND", Buffer.alloc(0))];
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), ...parts]);
}

function colourAt(u, v) {
  const far = (x, y) => Math.hypot((u - x) * (kWidth / kHeight), v - y);
  const hill = 0.62 + 0.1 * Math.sin(u * 5);
  if (far(0.3, 0.4) < 0.13) return [40, 110, 60];
  if (Math.abs(u - 0.3) < 0.02 && v > 0.45 && v < 0.74) return [96, 66, 40];
  if (v > hill) return [70 + 50 * (1 - v), 130 - 90 * (v - hill), 70];
  if (far(0.72, 0.26) < 0.11) return [255, 214, 90];
  return [120 + 90 * v, 170 + 50 * v, 235];
}

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name, "latin1"), data]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length, 0);
  out.set(body, 4);
  out.writeUInt32BE(checksum(body), body.length + 4);
  return out;
}

/** CRC-32, which Node itself has only since 22. */
function checksum(bytes) {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; ++bit) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return (crc ^ -1) >>> 0;
}
