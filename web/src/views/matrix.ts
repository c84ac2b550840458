import { select as selection } from "d3-selection";
import { zoom, zoomIdentity, type ZoomTransform } from "d3-zoom";
import { announce } from "../a11y/announce";
import type { Table } from "../a11y/table";
import { clamp, type Context, type View } from "../context";
import { button, controls, select } from "../controls";
import { largest } from "../data/grid";
import { pooled } from "../data/offline";
import type { Attention, HeadStats } from "../data/types";
import { grouped, labelAt } from "../data/words";
import { el } from "../dom";
import { Picture } from "../draw/picture";
import { scaleFor, type WeightScale } from "../draw/theme";
import { Tiles } from "../draw/tiles";
import { zoomFilter } from "../draw/zoom";
import type { Messages } from "../i18n";
import { keyOf } from "../selection";
import { attentionSelect, axes, headSelect, note, selectedNames, wordsToggle, type Axes } from "./common";
import { drawMatrix, matrixFrame, placeIn, type Frame } from "./matrix_drawing";
import { patchesPicture } from "./patches";

const kMostGrouped = 1 << 20;

const scales = (t: Messages) => [
  { value: "root", text: t.rootScale },
  { value: "log", text: t.logScale },
];

/** One head as a heat map, from four tokens to tens of thousands. */
export async function matrixView(context: Context): Promise<View> {
  const { run, source, state, t, theme, selection: chosen } = context;
  const { attention, head } = chosen;
  const name = `weights/${attention.index}/${head}`;
  let lit: Float32Array | null = null; // the selected row, shown on the image
  const words = state.words && attention.queries * attention.keys <= kMostGrouped;
  const all = axes(run, attention, words);
  const scale = state.scale || scaleFor(attention.keys);
  const strongest = keyOf(source, run, chosen, state.key);
  const tiles = await openTiles(context, all, words, scale, () => picture.redraw());
  const stats = await statsOf(context, attention, head, all, words); // after the tiles: both use one summary of the head
  let frame: Frame = matrixFrame(600, all);
  let transform: ZoomTransform = zoomIdentity;
  const key = await strongest;
  let pinned: [number, number] = [labelAt(all.rows, chosen.query), labelAt(all.columns, key)];
  let focus = pinned; // the cell under the pointer, else the pinned one
  const readout = el("output", { class: "readout", attributes: { id: "readout" } });

  const show = async (row: number, column: number, speak: boolean) => {
    focus = [row, column];
    picture.redraw();
    const weight =
      tiles.weight(row, column) ??
      (
        await source.array(run.id, name, {
          rows: [row, row + 1],
          columns: [column, column + 1],
        })
      ).data[0]!;
    if (patches) lit = (await source.array(run.id, name, { rows: [row, row + 1] })).data;
    if (focus[0] !== row || focus[1] !== column) return;
    patches?.redraw();
    readout.textContent = t.readout(all.rows[row]!.plain, all.columns[column]!.plain, weight);
    readout.dataset.weight = String(weight);
    if (speak) announce(readout.textContent);
  };
  const pin = () => {
    pinned = focus;
    context.note({ query: all.rows[focus[0]]!.tokens[0]!, key: all.columns[focus[1]]!.tokens[0]! });
  };
  const behaviour = zoom<HTMLCanvasElement, unknown>()
    .filter(zoomFilter(() => transform.k > 1))
    .on("zoom", (event: { transform: ZoomTransform }) => {
      transform = event.transform;
      picture.canvas.classList.toggle("zoomed", transform.k > 1); // before that, a finger scrolls the page
      picture.redraw();
    })
    .on("end", (event: { sourceEvent: unknown }) => {
      if (event.sourceEvent)
        context.note({
          zoom:
            transform.k === 1
              ? ""
              : [transform.x, transform.y, transform.k].map((v) => Math.round(v * 100) / 100).join(","),
        });
    });
  const picture: Picture = new Picture({
    id: "matrix-picture",
    title: `${t.attentionFull(attention)} · ${t.head(head)}`,
    label: t.matrixLabel(all.rows.length, all.columns.length),
    size: (available) => {
      frame = matrixFrame(available, all);
      const { x, y, width, height } = frame.plot;
      behaviour
        .extent([
          [x, y],
          [x + width, y + height],
        ])
        .translateExtent([
          [x, y],
          [x + width, y + height],
        ])
        .scaleExtent([1, Math.max(1, 44 / frame.base)]);
      return { width: frame.width, height: frame.height };
    },
    draw: (pen) => drawMatrix(pen, { frame, transform, tiles, all, stats, focus, scale, theme, t }),
    hover: (x, y) => {
      const place = placeIn(frame, transform, x, y, all);
      if (place && (place[0] !== focus[0] || place[1] !== focus[1]))
        void show(place[0], place[1], false).catch(context.fail);
    },
    leave: () => void show(...pinned, false).catch(context.fail),
    press: (x, y) => {
      picture.canvas.focus({ preventScroll: true });
      if (placeIn(frame, transform, x, y, all)) pin();
    },
    key: (event) => {
      const canvas = selection(picture.canvas);
      const page = Math.max(1, Math.floor(frame.plot.height / (frame.base * transform.k) / 2));
      const moves: Record<string, [number, number]> = {
        ArrowUp: [-1, 0],
        ArrowDown: [1, 0],
        ArrowLeft: [0, -1],
        ArrowRight: [0, 1],
        PageUp: [-page, 0],
        PageDown: [page, 0],
        Home: [0, -all.columns.length],
        End: [0, all.columns.length],
      };
      const move = moves[event.key];
      if (event.key === "+" || event.key === "=") behaviour.scaleBy(canvas, 1.5, onScreen(focus));
      else if (event.key === "-") behaviour.scaleBy(canvas, 1 / 1.5, onScreen(focus));
      else if (event.key === "0") behaviour.transform(canvas, zoomIdentity);
      else if (move) {
        void show(
          clamp(focus[0] + move[0], all.rows.length),
          clamp(focus[1] + move[1], all.columns.length),
          true,
        ).catch(context.fail);
        pin();
        behaviour.translateBy(canvas, ...intoSight());
      } else return false;
      return true;
    },
    table: () => table(context, all, stats, tiles),
    summary: t.asTable,
  });
  const onScreen = ([row, column]: [number, number]): [number, number] => [
    transform.applyX(frame.plot.x + (column + 0.5) * frame.base),
    transform.applyY(frame.plot.y + (row + 0.5) * frame.base),
  ];
  const intoSight = (): [number, number] => {
    const [x, y] = onScreen(focus);
    const { plot } = frame;
    const inward = (place: number, from: number, size: number) =>
      (place < from ? from - place + 20 : place > from + size ? from + size - place - 20 : 0) / transform.k;
    return [inward(x, plot.x, plot.width), inward(y, plot.y, plot.height)];
  };
  selection(picture.canvas).call(behaviour);
  restore(state.zoom, (saved) => behaviour.transform(selection(picture.canvas), saved));
  const choosePatch = (token: number) => {
    void show(token, focus[1], true).catch(context.fail);
    pin();
  };
  const patches = await patchesPicture(context, {
    id: "patches-picture",
    tiles: () => [{ caption: t.head(head), weights: lit }],
    query: () => focus[0],
    key: () => focus[1],
    press: choosePatch,
    move: choosePatch,
  });
  void show(focus[0], focus[1], false).catch(context.fail);

  const step = (factor: number) => behaviour.scaleBy(selection(picture.canvas), factor, onScreen(focus));
  const buttons = el(
    "div",
    { class: "control", attributes: { role: "group", "aria-label": t.zoom } },
    el("span", {}, t.zoom),
    el(
      "div",
      { class: "chips" },
      button("zoom-in", "+", () => step(2), "chip"),
      button("zoom-out", "−", () => step(0.5), "chip"),
      button("zoom-all", t.all, () => behaviour.transform(selection(picture.canvas), zoomIdentity), "chip wide"),
    ),
  );
  buttons.querySelector("#zoom-in")!.setAttribute("aria-label", t.zoomIn);
  buttons.querySelector("#zoom-out")!.setAttribute("aria-label", t.zoomOut);
  const bar = controls(
    attentionSelect(context),
    headSelect(context),
    select("scale", t.colourScale, scales(t), scale, (value) => context.update({ scale: value as WeightScale })),
    wordsToggle(context),
    buttons,
  );
  const element = el("div", {}, bar, patches?.element, readout, picture.element, note(t.matrixHelp));
  const data = () => ({
    attention: attention.path,
    head,
    rows: all.rows.map((l) => l.plain),
    columns: all.columns.map((l) => l.plain),
    ...stats,
    weights: weightsIn(tiles),
  });
  return {
    ...{ element, data, pictures: patches ? [patches, picture] : [picture] },
    caption: () => selectedNames(context),
  };
}

async function openTiles(
  context: Context,
  all: Axes,
  words: boolean,
  scale: WeightScale,
  arrived: () => void,
): Promise<Tiles> {
  const { source, run, theme } = context;
  const { attention, head } = context.selection;
  const whole = words
    ? grouped(await source.array(run.id, `weights/${attention.index}/${head}`), all.rows, all.columns)
    : null;
  const load = (level: number, row: number, column: number) =>
    whole
      ? Promise.resolve(pooled(whole, 2 ** level, row * 256, column * 256))
      : source.array(run.id, `tile/${attention.index}/${head}/${level}/${row}/${column}`);
  const tiles = new Tiles(all.rows.length, all.columns.length, theme, load, arrived, scale);
  await tiles.open();
  return tiles;
}

/** Row and column statistics. A word's entropy is the mean over its rows; its column total the sum over its columns. */
async function statsOf(
  { source, run }: Context,
  attention: Attention,
  head: number,
  all: Axes,
  words: boolean,
): Promise<HeadStats> {
  const stats = await source.stats(run.id, attention.index, head);
  if (!words) return stats;
  const sum = (values: number[], tokens: number[]) => tokens.reduce((total, i) => total + values[i]!, 0);
  const mean = (values: number[]) => all.rows.map((label) => sum(values, label.tokens) / label.tokens.length);
  return {
    entropy: mean(stats.entropy),
    rowTotals: mean(stats.rowTotals),
    columnTotals: all.columns.map((label) => sum(stats.columnTotals, label.tokens)),
  };
}

function restore(saved: string, apply: (transform: ZoomTransform) => void): void {
  const [x, y, k] = saved.split(",").map(Number);
  if (saved && [x, y, k].every(Number.isFinite)) apply(zoomIdentity.translate(x!, y!).scale(Math.max(1, k!)));
}

/** All weights if level 0 is a single tile; null for a larger matrix. */
function weightsIn(tiles: Tiles): number[][] | null {
  if (tiles.levels > 0) return null;
  return Array.from({ length: tiles.rows }, (_, r) =>
    Array.from({ length: tiles.columns }, (_, c) => tiles.weight(r, c)!),
  );
}

function table({ t }: Context, all: Axes, stats: HeadStats, tiles: Tiles): Table {
  const weights = weightsIn(tiles);
  if (weights && all.columns.length <= 40) {
    return {
      columns: [t.query, ...all.columns.map((l) => l.text), t.entropy],
      rows: all.rows.map((label, r) => [label.text, ...weights[r]!, stats.entropy[r]!]),
    };
  }
  const top = (r: number) => (weights ? largest(weights[r]!, 3).flatMap(([c, w]) => [all.columns[c]!.text, w]) : []);
  const ranked = weights ? [1, 2, 3].flatMap((n) => [t.rankedKey(n), t.weight]) : [];
  return {
    columns: [t.query, t.entropy, ...ranked],
    rows: all.rows.map((label, r) => [label.text, stats.entropy[r]!, ...top(r)]),
  };
}
