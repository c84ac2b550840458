import { announce } from "../a11y/announce";
import { clamp, type Context, type View } from "../context";
import { controls, select, type Option } from "../controls";
import { Grid } from "../data/grid";
import type { Alignment } from "../data/types";
import type { Label } from "../data/words";
import { visible } from "../data/words";
import { el } from "../dom";
import { cellAt, drawHeatmap, drawLegend, heatmapLayout } from "../draw/heatmap";
import { Picture } from "../draw/picture";
import { scaleFor } from "../draw/theme";
import type { State } from "../state";
import { alignOf, loadAlignment } from "./alignment_data";
import { note, selectedNames } from "./common";

/** Source against target, as in Bahdanau et al. 2015, with the word alignment framed. */
export async function alignmentView(context: Context): Promise<View> {
  const { run, source, t, theme, update } = context;
  if (!run.attention.some((one) => one.kind === "cross"))
    return { element: el("div", {}, note(t.alignmentNone)), pictures: [], data: () => null };
  const { found, byWord } = await loadAlignment(context);
  const [rows, columns] = [wordLabels(found.target), wordLabels(found.source)];
  const weights = new Grid(Float32Array.from(found.weights.flat()), [rows.length, columns.length]);
  const marks = found.links.map(([s, target]): [number, number] => [target, s]);
  let focus: [number, number] | null = null;
  const options = { theme, rows, columns, marks, scale: scaleFor(columns.length), cell: 34 };
  const readout = el("output", { class: "readout", attributes: { id: "readout" } }, t.links(found.links.length));
  const show = (place: [number, number] | null, speak: boolean) => {
    focus = place;
    readout.textContent = place
      ? t.readout(rows[place[0]]!.plain, columns[place[1]]!.plain, weights.at(...place))
      : t.links(found.links.length);
    if (speak && place) announce(readout.textContent);
    picture.redraw();
  };
  const layout = (available: number) => heatmapLayout(Math.min(available, 900), options);
  const picture: Picture = new Picture({
    id: "alignment-picture",
    title: t.views.alignment.name,
    label: t.alignmentLabel(columns.length, rows.length),
    size: (available) => ({ width: layout(available).width, height: layout(available).height + 40 }),
    draw: (pen, sight) => {
      const at = layout(picture.element.clientWidth || sight.width);
      drawHeatmap(pen, at, weights, { ...options, focus });
      drawLegend(pen, at.left, at.height + 12, theme, options.scale);
    },
    hover: (x, y) => show(cellAt(layout(picture.element.clientWidth), x, y, rows.length, columns.length), false),
    leave: () => show(null, false),
    key: (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!move) return false;
      const [r, c] = focus ?? [0, 0];
      show([clamp(r + move[0]!, rows.length), clamp(c + move[1]!, columns.length)], true);
      return true;
    },
    table: () => ({
      columns: [t.side("target"), ...columns.map((l) => l.text), t.alignedWith],
      rows: rows.map((label, r) => [label.text, ...weights.row(r), alignedWith(found, r)]),
    }),
    summary: t.asTable,
  });
  const units = [
    { value: "words", text: t.byWord },
    { value: "tokens", text: t.byToken },
  ];
  const bar = controls(
    source.kind === "server" && select("align", t.layer, choices(context), alignOf(context), (align) => update(chosenBy(context, align))),
    select("unit", t.unit, units, byWord ? "words" : "tokens", (unit) => update({ unit: unit as "words" | "tokens" })),
  );
  return {
    element: el("div", {}, bar, readout, picture.element, note(byWord ? t.alignmentHelp : t.alignmentHelpTokens)),
    pictures: [picture],
    data: () => found,
    caption: () => (alignOf(context) === "all" ? [t.allLayers] : selectedNames(context)),
  };
}

function wordLabels(words: string[]): Label[] {
  return words.map((word, i) => ({ text: visible(word), plain: word, kind: "text", space: false, tokens: [i] }));
}

function choices({ run, t }: Context): Option[] {
  const cross = run.attention.filter((one) => one.kind === "cross");
  return [
    { value: "all", text: t.allLayers },
    ...cross.flatMap((one) => [
      { value: String(one.layer), text: t.allHeads, group: t.attentionFull(one) },
      ...(one.heads > 1
        ? Array.from({ length: one.heads }, (_, h) => ({
            value: `${one.layer}.${h}`,
            text: t.head(h),
            group: t.attentionFull(one),
          }))
        : []),
    ]),
  ];
}

/** The change of the state: a single head also becomes the page's selection. */
function chosenBy({ run }: Context, align: string): Partial<State> {
  const [layer, head] = align.split(".");
  const one = run.attention.find((found) => found.kind === "cross" && String(found.layer) === layer);
  if (!one) return { align };
  return { align: "", layer: one.index, head: head === undefined ? -1 : Number(head), heads: [] };
}

function alignedWith(found: Alignment, target: number): string {
  return (
    found.links
      .filter((link) => link[1] === target)
      .map((link) => found.source[link[0]])
      .join(" ") || "—"
  );
}
