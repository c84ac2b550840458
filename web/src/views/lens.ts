import type { Context, View } from "../context";
import { clamp } from "../context";
import { controls, select } from "../controls";
import type { Lens, LensCell } from "../data/tools";
import { labels, visible, type Label } from "../data/words";
import { el, languageOf, replaceChildren } from "../dom";
import { weightColour } from "../draw/theme";
import { cellMap } from "./cell_map";
import { note, percent, section } from "./common";
import { pointName } from "./points";
import { useTool } from "./tool";

/** What each layer would say at each place: the model's own final norm and output layer after every layer. */
export async function lensView(context: Context): Promise<View> {
  const { source, run, state, t, theme, note: remember } = context;
  if (!source.has("tools")) return { element: note(t.missing("tools")), pictures: [], data: () => null };
  if (run.attention.some((one) => one.stack === "rnn") || run.attention.length === 0)
    return { element: note(t.tools.lensNone), pictures: [], data: () => null };
  const tool = useTool(context, "lens", { top: 6, places: 96 });
  if (!tool.result) return { element: tool.pending, pictures: [], data: () => null, close: tool.close };
  const lens = tool.result;
  const columns = columnsOf(context, lens);
  const rows = lens.points.map((point) => pointName(t, point));
  const byLabel = lens.places[0]!.index < 0; // its first column is the whole input
  let place = clamp(state.place >= 0 ? state.place : byLabel ? 0 : lens.places.length - 1, lens.places.length);
  let row = clamp(state.row < 0 ? rows.length - 1 : state.row, rows.length);
  const cell = (r: number, c: number) => lens.places[c]!.cells[r]!;
  const byRank = state.show === "rank";
  const details = el("div", { attributes: { id: "lens-details" } });
  const show = () => replaceChildren(details, detailsOf(context, lens, columns, rows, row, place));
  const picture = cellMap({
    id: "lens-picture",
    title: t.views.lens.name,
    label: t.tools.lensLabel(rows.length, columns.length),
    theme,
    rows,
    columns,
    width: byRank ? 54 : 76,
    colour: (r, c) => weightColour(theme, byRank ? 1 / (1 + cell(r, c).rank) : cell(r, c).top[0]!.p),
    text: (r, c) => (byRank ? String(cell(r, c).rank + 1) : visible(cell(r, c).top[0]!.text) || "∅"),
    selected: [row, place],
    select: (r, c) => {
      [row, place] = [r, c];
      remember({ row: r, place: c });
      show();
    },
    speak: (r, c) => `${rows[r]}, ${columns[c]!.plain}: ${sentence(cell(r, c))}`,
    table: () => ({
      columns: [t.layer, ...columns.map((one) => one.text)],
      rows: rows.map((name, r) => [name, ...columns.map((_, c) => sentence(cell(r, c)))]),
    }),
    summary: t.asTable,
  });
  show();
  const element = el(
    "div",
    {},
    controls(
      select(
        "lens-show",
        t.show,
        [
          { value: "", text: byLabel ? t.tools.bestLabel : t.tools.bestWord },
          { value: "rank", text: byLabel ? t.tools.rankOfLabel : t.tools.rankOfTrue },
        ],
        byRank ? "rank" : "",
        (value) => context.update({ show: value }),
      ),
    ),
    picture.element,
    details,
    note(byLabel ? t.tools.lensHelpLabels : t.tools.lensHelp),
  );
  return { element, pictures: [picture], data: () => lens, ...(byLabel ? { lead: t.tools.lensLeadLabels } : {}) };
}

function sentence(cell: LensCell): string {
  return cell.top
    .slice(0, 3)
    .map((one) => `${visible(one.text)} ${percent(one.p)}`)
    .join(", ");
}

function columnsOf({ t }: Context, lens: Lens): Label[] {
  const all = labels(lens.sides[lens.side]!, false);
  const whole: Label = { text: t.tools.whole, plain: t.tools.whole, kind: "special", space: false, tokens: [] };
  return lens.places.map((place) => (place.index < 0 ? whole : all[place.index]!));
}

/** The selected cell: its words, and how the reference rises through the layers. */
function detailsOf(
  { t }: Context,
  lens: Lens,
  columns: Label[],
  rows: string[],
  row: number,
  place: number,
): HTMLElement {
  const { reference, isTrue, cells } = lens.places[place]!;
  const cell = cells[row]!;
  const bars = cell.top.map((one) =>
    el(
      "div",
      { class: one.id === reference.id ? "candidate chosen" : "candidate" },
      el("span", { class: "word", attributes: { lang: languageOf(one.text) } }, visible(one.text) || "∅"),
      track(one.p),
      el("span", { class: "number" }, percent(one.p)),
    ),
  );
  const rise = cells.map((one, r) =>
    el(
      "div",
      { class: r === row ? "candidate chosen" : "candidate" },
      el("span", { class: "word" }, rows[r]!),
      track(one.p),
      el("span", { class: "number" }, t.tools.rank(one.rank + 1)),
    ),
  );
  return el(
    "div",
    { class: "columns" },
    section(t.tools.saysAt(rows[row]!, columns[place]!.plain), ...bars, note(t.tools.entropyOf(cell.entropy))),
    section(t.tools.rising(visible(reference.text) || "∅", isTrue), ...rise),
  );
}

function track(share: number): HTMLElement {
  const bar = el("span", { class: "bar" });
  bar.style.width = `${Math.min(100, share * 100)}%`;
  return el("span", { class: "track" }, bar);
}
