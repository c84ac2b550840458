import { attentionOf, clamp, type Context, type View } from "../context";
import { controls, select } from "../controls";
import { Grid, largestMagnitude } from "../data/grid";
import { grouped, labelAt, type Label } from "../data/words";
import type { Attention, Info, Model, Run, RunRequest } from "../data/types";
import { el } from "../dom";
import { cellAt, drawHeatmap, drawLegend, drawSignedLegend, heatmapLayout } from "../draw/heatmap";
import { Picture } from "../draw/picture";
import { scaleFor, type WeightScale } from "../draw/theme";
import { requestOf } from "../request";
import { sharpestHead } from "../selection";
import { kUnselected } from "../state";
import { attentionOptions, axes, note, section, wordsToggle } from "./common";
import { patchesPicture } from "./patches";

interface Half {
  run: Run;
  attention: Attention;
  head: number;
  rows: Label[];
  columns: Label[];
  weights: Grid;
}

const kMostPairs = 1 << 20;

/** Two models, two layers or two sentences side by side. */
export async function compareView(context: Context): Promise<View> {
  const { run, state, t, source, selection } = context;
  const first = await half(context, run, selection.attention, selection.head);
  const other = await secondRun(context);
  const attention2 = attentionOf(other, state.layer2 >= 0 ? state.layer2 : matching(first.attention, other));
  const head2 = state.head2 >= 0 ? clamp(state.head2, attention2.heads) : await otherHead(context, first, other, attention2);
  const second = await half(context, other, attention2, head2);
  let pinned: [number, number] | null =
    state.query >= 0 && state.key >= 0 ? [labelAt(first.rows, state.query), labelAt(first.columns, state.key)] : null;
  let focus = pinned;
  const show = (place: [number, number] | null) => {
    focus = place;
    readout.textContent = place
      ? t.compareReadout(
          first.rows[place[0]]?.plain ?? "—",
          first.columns[place[1]]?.plain ?? "—",
          valueAt(first, place),
          valueAt(second, place),
        )
      : t.compareHint;
    [...pictures, patches].forEach((picture) => picture?.redraw());
  };
  const readout = el("output", { class: "readout", attributes: { id: "readout" } }, t.compareHint);
  const pin = (place: [number, number]) => {
    pinned = place;
    const [query, key] = [first.rows[place[0]]?.tokens[0], first.columns[place[1]]?.tokens[0]];
    if (query !== undefined && key !== undefined) context.note({ query, key });
    show(place);
  };
  const scale = scaleFor(first.columns.length, second.columns.length);
  const at: Focus = { scale, now: () => focus, show, leave: () => show(pinned), pin };
  const pictures = [mapOf(context, "compare-a", first, at), mapOf(context, "compare-b", second, at)];
  const query = () => focus?.[0] ?? labelAt(first.rows, selection.query);
  const looked = (one: Half) => (query() < one.weights.rows ? one.weights.row(query()) : null);
  const choose = (token: number) => {
    context.note({ query: (selection.query = token) });
    pinned = null;
    show(null);
  };
  const patches = await patchesPicture(context, {
    id: "patches-picture",
    tiles: () => [
      { caption: "A", weights: looked(first) },
      { caption: "B", weights: looked(second) },
    ],
    query,
    press: choose,
    move: choose,
  });
  const alike = sameTexts(first.rows, second.rows) && sameTexts(first.columns, second.columns);
  const difference = alike
    ? new Grid(
        first.weights.data.map((w, i) => second.weights.data[i]! - w),
        first.weights.shape,
      )
    : null;
  const third = difference ? differenceOf(context, first, difference, at) : null;
  const element = el(
    "div",
    {},
    sharedControls(context, wordsToggle(context)),
    patches?.element,
    readout,
    el(
      "div",
      { class: "columns" },
      section("A", halfControls(context, "a", first), pictures[0]!.element),
      section("B", halfControls(context, "b", second), pictures[1]!.element),
    ),
    third ? section(t.difference, third.element) : note(t.compareUnlike),
    source.kind === "file" ? note(t.missing("compare")) : null,
    note(t.compareHelp),
  );
  if (third) pictures.push(third);
  if (patches) pictures.unshift(patches);
  const data = () =>
    [first, second].map((one) => ({
      model: one.run.model,
      attention: one.attention.path,
      head: one.head,
      rows: one.rows.map((l) => l.plain),
      columns: one.columns.map((l) => l.plain),
      weights: Array.from({ length: one.weights.rows }, (_, r) => one.weights.row(r)),
    }));
  const names = (one: Half) => `${t.attentionFull(one.attention)} ${t.head(one.head)}`;
  return { element, pictures, data, caption: () => [names(first), names(second)] };
}

function sharedControls({ t, source, state, model, update }: Context, words: HTMLElement | null): HTMLElement | null {
  const text = el("input", {
    attributes: { id: "text-b", type: "text", value: state.text2, placeholder: t.sameSentence, size: 40 },
    on: { change: () => update({ text2: text.value }) },
  });
  const field = source.kind === "server" && model.kind !== "image" ? el("label", { class: "control" }, el("span", {}, t.textOfB), text) : null;
  return words || field ? controls(field, words) : null;
}

/** The second run: another model on the same sentence (and, for translation, the same target), or another sentence. */
async function secondRun({ source, state, run, model, info }: Context): Promise<Run> {
  if (source.kind === "file") return run;
  const other = info.models.find((one) => one.id === state.model2) ?? otherModel(info, model) ?? model;
  if (other === model && !state.text2) return run;
  if (other.kind === "image") return source.run(requestOf(state, other) ?? { model: other.id });
  const request: RunRequest = { model: other.id, text: state.text2 || run.sides[0]!.text };
  const target = run.sides.find((side) => side.name === "target");
  if (!state.text2 && other.kind === "translation" && target) request.target = target.text;
  return source.run(request);
}

/** The default model of B: another model of the same kind, if the page has one. */
function otherModel(info: Info, model: Model): Model | undefined {
  const offered = (one: Model) => one.kind === model.kind && one.architecture !== "rnn";
  return info.models.find((one) => one.id !== model.id && offered(one));
}

/** The attention of the second run that corresponds to this one: of the same kind, counted from the last layer. */
function matching(attention: Attention, run: Run): number {
  const kind = run.attention.filter((one) => one.kind === attention.kind);
  return (
    kind.find((one) => one.stack === attention.stack && one.layer === attention.layer) ??
    kind[kind.length - 1] ??
    run.attention[0]!
  ).index;
}

/** The default head of B: the sharpest one that differs from A. */
function otherHead({ source, run, selection }: Context, first: Half, other: Run, attention: Attention): Promise<number> {
  const same = other === run && attention.index === selection.attention.index;
  return sharpestHead(source, other, attention, same ? first.head : -1);
}

async function half({ source, state }: Context, run: Run, attention: Attention, head: number): Promise<Half> {
  const { rows, columns } = axes(run, attention, state.words);
  if (attention.queries * attention.keys > kMostPairs) throw new RangeError("long");
  const weights = grouped(await source.array(run.id, `weights/${attention.index}/${head}`), rows, columns);
  return { run, attention, head, rows, columns, weights };
}

function halfControls({ info, model, t, source, update }: Context, side: "a" | "b", one: Half): HTMLElement {
  const set = (a: object, b: object) => update(side === "a" ? a : b);
  const heads = Array.from({ length: one.attention.heads }, (_, i) => ({ value: String(i), text: t.head(i) }));
  const reads = (task: Model["kind"]) => (task === "image" ? "pictures" : "text");
  const models = info.models
    .filter((one) => reads(one.kind) === reads(model.kind))
    .map((one) => ({ value: one.id, text: one.name }));
  return controls(
    source.kind === "server" && models.length > 1
      ? select(`model-${side}`, t.model, models, one.run.model, (id) =>
          set({ ...kUnselected, model: id }, { model2: id, layer2: -1, head2: -1 }),
        )
      : null,
    select(`layer-${side}`, t.layer, attentionOptions(one.run, t), String(one.attention.index), (value) =>
      set({ layer: Number(value) }, { layer2: Number(value) }),
    ),
    select(`head-${side}`, t.headLabel, heads, String(one.head), (value) =>
      set({ head: Number(value), heads: [] }, { head2: Number(value) }),
    ),
  );
}

/** The cell under the pointer or the pinned one, which all maps frame. */
interface Focus {
  scale: WeightScale; // of both maps
  now(): [number, number] | null;
  show(place: [number, number] | null): void;
  leave(): void;
  pin(place: [number, number]): void;
}

function mapOf({ t, theme }: Context, id: string, one: Half, at: Focus): Picture {
  const options = { theme, rows: one.rows, columns: one.columns, scale: at.scale, cell: 26 };
  const layout = (available: number) => heatmapLayout(available, options);
  const picture: Picture = new Picture({
    id,
    title: `${id.slice(-1).toUpperCase()}: ${t.attentionFull(one.attention)} · ${t.head(one.head)}`,
    label: t.matrixLabel(one.rows.length, one.columns.length),
    size: (available) => ({ width: layout(available).width, height: layout(available).height + 36 }),
    draw: (pen, sight) => {
      const place = layout(picture.element.clientWidth || sight.width);
      drawHeatmap(pen, place, one.weights, { ...options, focus: within(at.now(), one) });
      drawLegend(pen, place.left, place.height + 8, theme, at.scale);
    },
    ...pointing(() => layout(picture.element.clientWidth), one, at),
    table: () => ({
      columns: [t.query, ...one.columns.map((l) => l.text)],
      rows: one.rows.map((label, r) => [label.text, ...one.weights.row(r)]),
    }),
    summary: t.asTable,
  });
  return picture;
}

function differenceOf({ t, theme }: Context, one: Half, difference: Grid, focus: Focus): Picture {
  const most = largestMagnitude(difference.data) || 1;
  const options = {
    theme,
    rows: one.rows,
    columns: one.columns,
    signed: true,
    most,
    cell: 26,
  };
  const layout = (available: number) => heatmapLayout(Math.min(available, 620), options);
  const picture: Picture = new Picture({
    id: "compare-difference",
    title: t.difference,
    label: t.differenceLabel,
    size: (available) => ({ width: layout(available).width, height: layout(available).height + 36 }),
    draw: (pen, sight) => {
      const at = layout(picture.element.clientWidth || sight.width);
      drawHeatmap(pen, at, difference, { ...options, focus: within(focus.now(), one) });
      drawSignedLegend(pen, at.left, at.height + 8, theme, most);
    },
    ...pointing(() => layout(picture.element.clientWidth), one, focus),
    table: () => ({
      columns: [t.query, ...one.columns.map((l) => l.text)],
      rows: one.rows.map((label, r) => [label.text, ...difference.row(r)]),
    }),
    summary: t.asTable,
  });
  return picture;
}

/** Mouse and keyboard handlers of a map that shares its focus with the others. */
function pointing(layout: () => ReturnType<typeof heatmapLayout>, one: Half, focus: Focus) {
  const cell = (x: number, y: number) => cellAt(layout(), x, y, one.rows.length, one.columns.length);
  return {
    hover: (x: number, y: number) => focus.show(cell(x, y)),
    leave: focus.leave,
    press: (x: number, y: number) => {
      const place = cell(x, y);
      if (place) focus.pin(place);
    },
    key: (event: KeyboardEvent) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!move) return false;
      const [r, c] = focus.now() ?? [0, 0];
      focus.pin([clamp(r + move[0]!, one.rows.length), clamp(c + move[1]!, one.columns.length)]);
      return true;
    },
  };
}

function within(place: [number, number] | null, one: Half): [number, number] | null {
  return place && place[0] < one.rows.length && place[1] < one.columns.length ? place : null;
}

function valueAt(one: Half, place: [number, number]): number {
  return within(place, one) ? one.weights.at(...place) : NaN;
}

function sameTexts(a: Label[], b: Label[]): boolean {
  return a.length === b.length && a.every((label, i) => label.text === b[i]!.text);
}
