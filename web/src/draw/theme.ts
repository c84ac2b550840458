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
  "#c8553d",
  "#2b8a5a",
  "#a5761b",
  "#8a4fa3",
  "#1693a5",
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
  warm: "#c8553d",
  good: "#2b8a5a",
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

/** The colour of a weight, by its square root, so that small weights stay visible. */
export function weightColour(theme: Theme, weight: number): number {
  const step = Math.sqrt(Math.min(1, Math.max(0, weight))) * 255;
  return theme.sequential[Math.round(step)] ?? 0;
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

/** A text colour that is readable on a background colour. */
export function inkOn(colour: number): string {
  const brightness = 0.299 * (colour >> 16) + 0.587 * ((colour >> 8) & 255) + 0.114 * (colour & 255);
  return brightness > 140 ? "#1c2430" : "#ffffff";
}
