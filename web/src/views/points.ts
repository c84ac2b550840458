import type { Messages } from "../i18n";

/** A short name of an activation such as "stack.layers.3:output". */
export function pointName(t: Messages, point: string): string {
  const layer = /layers\.(\d+)/.exec(point)?.[1];
  const part = /layers\.\d+\.(\w+):/.exec(point)?.[1];
  const what = point.split(":")[1] ?? "";
  if (layer === undefined) return t.tools.points[what as keyof typeof t.tools.points] ?? what;
  const name = part === "cross_attention" ? ` · ${t.tools.crossShort}` : "";
  return t.tools.layerNumber(Number(layer)) + name;
}

/** The short name of a module such as "decoder.layers.0.cross_attention". */
export function moduleName(t: Messages, module: string): string {
  const layer = /layers\.(\d+)/.exec(module)?.[1];
  const part = module.split(".").pop() ?? module;
  const name = t.tools.modules[part as keyof typeof t.tools.modules] ?? part;
  return layer === undefined ? name : `${t.tools.layerNumber(Number(layer))} · ${name}`;
}
