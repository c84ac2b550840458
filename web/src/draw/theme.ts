import { rgb } from "d3-color";
import { interpolateRgbBasis } from "d3-interpolate";

/** The colours of pictures. The page's own colours, in styles/page.css, must match them. */
export interface Theme {
  dark: boolean;
  paper: string;
  ink: string;
  soft: string; // secondary text
  faint: string; // rules and frames
  accent: string;
  warm: string; // the opposite of the accent
  good: string;
  heads: string[];
  sequential: Uint32Array; // 256 steps from 0 to 1
  diverging: Uint32Array; // 256 steps from -1 to 1
}

// The colours differ in lightness as well as hue, so that they can be told apart with every common colour blindness.
// Heads are numbered too.
const kLightHeads = [
  "#2f6db0",
  "#c2523b",
  "#298456",
  "#996d19",
  "#8a4fa3",
  "#137f8f",
  "#b03a6f",
  "#5c6672",
  "#5a7d1e",
  "#4d4fb8",
  "#a34b1f",
  "#3b7a78",
];
const kDarkHeads = [
  "#6fb0f0",
  "#f2907a",
  "#62c793",
  "#dfb04e",
  "#c593dd",
  "#58cbdc",
  "#ec82b2",
  "#a9b4c0",
  "#a8cc62",
  "#9c9ef5",
  "#e39a6d",
  "#7fc4c1",
];

function ramp(colours: string[]): Uint32Array {
  const at = interpolateRgbBasis(colours);
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const { r, g, b } = rgb(at(i / 255));
    return (Math.round(r) << 16) | (Math.round(g) << 8) | Math.round(b);
  });
}

const kLight: Theme = {
  dark: false,
  paper: "#ffffff",
  ink: "#1c2430",
  soft: "#5b6675",
  faint: "#d9dee6",
  accent: "#2f6db0",
  warm: "#c2523b",
  good: "#298456",
  heads: kLightHeads,
  sequential: ramp(["#f6f8fb", "#dbe8f4", "#a9cbe6", "#64a1d0", "#2f6db0", "#123f75", "#0a2447"]),
  diverging: ramp(["#0f4c8a", "#4e93cc", "#bcd7ec", "#fafbfc", "#fafbfc", "#fafbfc", "#f6cdb2", "#d9773f", "#8f3a0c"]),
};

const kDark: Theme = {
  dark: true,
  paper: "#14181f",
  ink: "#e6eaf0",
  soft: "#9aa6b5",
  faint: "#313a47",
  accent: "#6fb0f0",
  warm: "#f2907a",
  good: "#62c793",
  heads: kDarkHeads,
  sequential: ramp(["#1a2029", "#1d3450", "#23588a", "#3a87c0", "#7fbbe2", "#c5e2f4", "#ffffff"]),
  diverging: ramp(["#9fd0ff", "#3f8fd6", "#1f4468", "#1a2029", "#1a2029", "#1a2029", "#6a3a22", "#e0813f", "#ffd2b0"]),
};

export function themeOf(dark: boolean): Theme {
  return dark ? kDark : kLight;
}

export function headColour(theme: Theme, head: number): string {
  return theme.heads[head % theme.heads.length]!;
}

/** Where a weight lies on the colour scale, from 0 to 1. "root": by its square root, so that small weights stay visible;
 * "log": by its logarithm from 0.0001 on, for long texts, in which most weights are small. */
export type WeightScale = "root" | "log";
export function onScale(weight: number, scale: WeightScale = "root"): number {
  const inside = Math.min(1, Math.max(0, weight));
  return scale === "root" ? Math.sqrt(inside) : inside <= 0 ? 0 : Math.max(0, 1 + Math.log10(inside) / 4);
}

/** The scale for maps with this many keys: in a longer text, most weights are too small for the scale by roots. */
export function scaleFor(...keys: number[]): WeightScale {
  return Math.max(...keys) > 96 ? "log" : "root";
}

/** The colour of a weight: the same in every picture. */
export function weightColour(theme: Theme, weight: number, scale: WeightScale = "root"): number {
  return theme.sequential[Math.round(onScale(weight, scale) * 255)] ?? 0;
}

/** The colour of a signed value relative to the largest magnitude. */
export function signedColour(theme: Theme, value: number, most: number): number {
  if (!Number.isFinite(value)) return theme.dark ? 0x262d37 : 0xe8ebef;
  const step = most > 0 ? (value / most + 1) * 127.5 : 127.5;
  return theme.diverging[Math.round(Math.min(255, Math.max(0, step)))]!;
}

export function hex(colour: number): string {
  return "#" + colour.toString(16).padStart(6, "0");
}

/** Black or white, whichever has the greater contrast with a background colour: at least 4.58 to 1 (WCAG 2.1). */
export function inkOn(colour: number): string {
  const linear = (byte: number) => {
    const part = (byte & 255) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  };
  const luminance = 0.2126 * linear(colour >> 16) + 0.7152 * linear(colour >> 8) + 0.0722 * linear(colour);
  return luminance + 0.05 > Math.sqrt(1.05 * 0.05) ? "#000000" : "#ffffff";
}
