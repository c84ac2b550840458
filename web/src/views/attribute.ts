import type { Context, View } from "../context";
import { controls, select } from "../controls";
import type { Attribution, LogitPart } from "../data/tools";
import { largestMagnitude } from "../data/grid";
import { labels, visible, type Label } from "../data/words";
import { el } from "../dom";
import type { Picture } from "../draw/picture";
import { signedColour } from "../draw/theme";
import { maskedPlace } from "../selection";
import { cellMap } from "./cell_map";
import { note, section, signed } from "./common";
import { moduleName } from "./points";
import { textField, useTool } from "./tool";

const kLargest = 12;

/** A prediction shared out: over the parts of the model, and over the input tokens. */
export async function attributeView(context: Context): Promise<View> {
  const { source, state, t } = context;
  if (!source.has("tools")) return { element: note(t.missing("tools")), pictures: [], data: () => null };
  const tool = useTool(context, "attribute", goalRequest(context));
  const bar = controls(
    ...goalControls(context, {
      wanted: context.run.output.kind === "labels" ? t.tools.wantedLabel : t.tools.wantedHint,
      contrast: t.tools.contrastHint,
    }),
  );
  if (!tool.result)
    return { element: el("div", {}, bar, tool.pending), pictures: [], data: () => null, close: tool.close };
  const found = tool.result;
  const tokens = found.sides.map((_, side) => tokenMap(context, found, side));
  const parts = found.parts.length > 0 ? partsMap(context, found) : null;
  const labelled = context.run.output.kind === "labels";
  const average = context.run.sides[0]!.picture ? t.tools.averagePatch : t.tools.averageWord;
  const element = el(
    "div",
    {},
    bar,
    el("p", { class: "lead", attributes: { id: "attribute-goal" } }, goalSentence(context, found)),
    section(
      t.tools.tokensTitle,
      ...tokens.map((picture) => picture.element),
      note(t.tools.completeness(found.value, found.baseline, average, found.error, found.steps)),
    ),
    parts
      ? section(t.tools.partsTitle, parts.element, largestParts(context, found), note(t.tools.partsSum(found.value, found.remainder!)))
      : note(t.tools.partsNone),
    parts ? note((state.contrast ? t.tools.attributeContrastHelp : t.tools.attributeHelp)(labelled)) : null,
  );
  return { element, pictures: parts ? [...tokens, parts] : tokens, data: () => found };
}

/** The part of a request that selects the prediction. */
export function goalRequest(context: Context): { output?: number; wanted?: string; contrast?: string } {
  const { state, run } = context;
  const place = placeOf(context);
  const { output } = run;
  const exists = (name: string) => name !== "" && (output.kind !== "labels" || output.items.some((one) => one.label === name));
  return {
    ...(place >= 0 ? { output: place } : {}),
    ...(exists(state.wanted) ? { wanted: state.wanted } : {}),
    ...(exists(state.contrast) ? { contrast: state.contrast } : {}),
  };
}

/** The place of the prediction; -1: after the last token. */
function placeOf({ run, state }: Context): number {
  const { output } = run;
  if (output.kind !== "tokens") return -1;
  if (state.place >= 0 && state.place < run.sides[output.side]!.tokens.length) return state.place;
  return output.masked ? maskedPlace(run, output.side) : -1;
}

/** The fields that select the prediction. `hints` say what empty fields stand for. */
export function goalControls(context: Context, hints: { wanted: string; contrast: string }): HTMLElement[] {
  const { run, state, t, update } = context;
  const output = run.output;
  if (output.kind === "labels") {
    const names = output.items
      .map(({ label }) => ({ value: label, text: label }))
      .sort((a, b) => a.text.localeCompare(b.text, "en", { numeric: true }));
    return (["wanted", "contrast"] as const).map((id) =>
      select(id, t.tools[id], [{ value: "", text: hints[id] }, ...names], state[id], (label) => update({ [id]: label })),
    );
  }
  const fields = [
    textField("wanted", t.tools.wanted, state.wanted, hints.wanted, (wanted) => update({ wanted })),
    textField("contrast", t.tools.contrast, state.contrast, hints.contrast, (contrast) => update({ contrast })),
  ];
  if (output.kind !== "tokens") return fields;
  const options = [
    ...(output.masked ? [] : [{ value: "-1", text: t.tools.lastPlace }]),
    ...labels(run.sides[output.side]!, false).map((label, i) => ({ value: String(i), text: `${i} · ${label.text}` })),
  ];
  const name = output.masked ? t.tools.atPlace : t.tools.afterPlace;
  return [select("place", name, options, String(placeOf(context)), (value) => update({ place: Number(value) })), ...fields];
}

export function goalSentence({ t }: Context, found: { goal: Attribution["goal"]; value: number; sides: Attribution["sides"] }): string {
  const { wanted, contrast } = found.goal;
  return t.tools.goal(visible(wanted.text), contrast ? visible(contrast.text) : null, found.value);
}

function tokenMap({ t, theme }: Context, found: Attribution, side: number): Picture {
  const columns = labels(found.sides[side]!, false);
  const lists = [found.integrated[side]!, found.gradient[side]!];
  const most = largestMagnitude(lists.flat()) || 1;
  const names = [t.tools.integrated, t.tools.gradientTimesInput];
  return cellMap({
    id: `attribute-tokens-${side}`,
    title: t.side(found.sides[side]!.name),
    label: t.tools.tokensLabel(columns.length),
    heading: found.sides.length > 1 ? t.side(found.sides[side]!.name) : "",
    theme,
    rows: names,
    columns,
    width: 46,
    colour: (r, c) => signedColour(theme, lists[r]![c]!, most),
    text: (r, c) => signed(lists[r]![c]!),
    signedScale: most,
    table: () => ({
      columns: [t.key, ...names],
      rows: columns.map((label, c) => [label.text, lists[0]![c]!, lists[1]![c]!]),
    }),
    summary: t.asTable,
  });
}

/** A row for each module, a column for each head. */
function partsMap({ t, theme }: Context, found: Attribution): Picture {
  const rows: { name: string; all: number; heads: number[] }[] = [];
  const biases = { name: t.tools.biases, all: 0, heads: [] as number[] };
  for (const part of found.parts) {
    if (part.kind === "bias") {
      biases.all += part.value;
      continue;
    }
    const name = part.module ? moduleName(t, part.module) : t.tools.parts[part.kind];
    let row = rows.find((one) => one.name === name);
    if (!row) rows.push((row = { name, all: 0, heads: [] }));
    row.all += part.value;
    if (part.head >= 0) row.heads[part.head] = part.value;
  }
  rows.push(biases);
  const heads = Math.max(0, ...rows.map((row) => row.heads.length));
  const plain = (text: string): Label => ({ text, plain: text, kind: "text", space: false, tokens: [] });
  const columns = [plain(t.tools.total), ...Array.from({ length: heads }, (_, h) => plain(t.head(h)))];
  const value = (r: number, c: number) => (c === 0 ? rows[r]!.all : (rows[r]!.heads[c - 1] ?? NaN));
  const most = largestMagnitude(rows.flatMap((row) => [row.all, ...row.heads])) || 1;
  return cellMap({
    id: "attribute-parts",
    title: t.tools.partsTitle,
    label: t.tools.partsLabel(rows.length),
    theme,
    rows: rows.map((row) => row.name),
    columns,
    width: 58,
    height: 24,
    colour: (r, c) => signedColour(theme, value(r, c), most),
    text: (r, c) => (Number.isFinite(value(r, c)) ? signed(value(r, c)) : ""),
    signedScale: most,
    table: () => ({
      columns: [t.tools.part, ...columns.map((one) => one.text)],
      rows: rows.map((row, r) => [row.name, ...columns.map((_, c) => (Number.isFinite(value(r, c)) ? value(r, c) : ""))]),
    }),
    summary: t.asTable,
  });
}

function largestParts({ t, theme }: Context, found: Attribution): HTMLElement {
  const named = (part: LogitPart) =>
    part.head >= 0
      ? `${moduleName(t, part.module)} · ${t.head(part.head)}`
      : part.kind === "bias"
        ? `${t.tools.biases}: ${moduleName(t, part.module)}`
        : part.module
          ? moduleName(t, part.module)
          : t.tools.parts[part.kind as "token" | "position"];
  const list = [...found.parts].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, kLargest);
  const most = Math.abs(list[0]?.value ?? 1) || 1;
  return el(
    "div",
    { class: "parts-list" },
    ...list.map((part) => {
      const bar = el("span", { class: "bar" });
      bar.style.width = `${(Math.abs(part.value) / most) * 100}%`;
      bar.style.background = part.value > 0 ? theme.warm : theme.accent;
      bar.style.opacity = "1";
      return el(
        "div",
        { class: "candidate wide" },
        el("span", { class: "word" }, named(part)),
        el("span", { class: "track" }, bar),
        el("span", { class: "number" }, (part.value > 0 ? "+" : "") + signed(part.value)),
      );
    }),
  );
}
