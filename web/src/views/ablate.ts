import { type Context, type View } from "../context";
import { button, controls } from "../controls";
import { Grid, largestMagnitude } from "../data/grid";
import type { Ablation, Output, Run } from "../data/types";
import { grouped, visible, labels } from "../data/words";
import { el, languageOf } from "../dom";
import { drawHeatmap, drawLegend, drawSignedLegend, heatmapLayout } from "../draw/heatmap";
import { Picture } from "../draw/picture";
import { hex, headColour, inkOn, scaleFor, weightColour } from "../draw/theme";
import { requestOf, withTarget } from "../request";
import { parsePairs, togglePair } from "../state";
import { attentionSelect, axes, headSelect, labelNumber, note, section, selectedNames } from "./common";
import { patchesPicture } from "./patches";

const kMostPairs = 1 << 20; // query-key pairs of one map

/** Ablates heads or tokens, and shows what changes. */
export async function ablateView(context: Context): Promise<View> {
  const { source, run, state, t, model, update } = context;
  if (!source.has("runs")) return { element: el("div", {}, note(t.missing("runs"))), pictures: [], data: () => null };
  const whole = withTarget(requestOf(state, model)!, run);
  const most = state.off || state.held ? null : ((await source.effects(whole))[0] ?? null);
  if (most) state.off = `${most.attention}.${most.head}`; // of this drawing only: the address stays short
  const ablation = ablationOf(run, state.off, state.held);
  const changed = ablation.heads.length + ablation.tokens.length > 0;
  const after = changed ? await source.run({ ...whole, ablate: ablation }) : run;
  const shown = context.selection.attention;
  const maps = shown.queries * shown.keys <= kMostPairs ? await mapsOf(context, after) : [];
  const changes = await changesOf(context, after);
  const patches = await patchesPicture(context, {
    id: "patches-picture",
    tiles: () => [],
    held: () => new Set(ablation.tokens.map((token) => token.index)),
    press: (token) => update({ held: togglePair(state.held, 0, token) }),
  });
  const switches = el(
    "div",
    {},
    section(t.switchHeads, ...run.attention.map((one) => headRow(context, one.index))),
    section(t.holdTokens, patches?.element ?? null, ...run.sides.map((_, side) => tokenRow(context, side))),
    button("ablate-reset", t.reset, () => update({ off: "none", held: "" })),
  );
  const element = el(
    "div",
    {},
    most ? note(t.mattersMost(t.attentionFull(run.attention[most.attention]!), t.head(most.head), most.loss)) : null,
    switches,
    section(t.outputBeforeAfter, outputTable(context, run.output, after.output)),
    section(t.changeOfMaps, changes.element),
    section(
      t.mapBeforeAfter,
      controls(attentionSelect(context), headSelect(context)),
      maps.length ? el("div", { class: "columns" }, ...maps.map((map) => map.element)) : note(t.tooLong),
    ),
    note(t.ablateHelp),
  );
  return {
    element,
    pictures: patches ? [patches, changes, ...maps] : [changes, ...maps],
    data: () => ({ ablate: ablation, before: run.output, after: after.output }),
    caption: () => selectedNames(context),
  };
}

function ablationOf(run: Run, off: string, held: string): Ablation {
  const heads = parsePairs(off)
    .filter(([a, h]) => h < (run.attention[a]?.heads ?? 0))
    .map(([attention, head]) => ({ attention, head }));
  const tokens = parsePairs(held)
    .filter(([s, i]) => i < (run.sides[s]?.tokens.length ?? 0))
    .map(([side, index]) => ({ side, index }));
  return { heads, tokens };
}

function headRow({ run, state, t, theme, update }: Context, index: number): HTMLElement {
  const attention = run.attention[index]!;
  const off = parsePairs(state.off);
  const chips = Array.from({ length: attention.heads }, (_, head) => {
    const isOff = off.some(([a, h]) => a === index && h === head);
    const one = el(
      "button",
      {
        class: "chip",
        attributes: {
          id: `off-${index}-${head}`,
          type: "button",
          "aria-pressed": String(!isOff),
          "aria-label": `${t.attentionFull(attention)}, ${t.head(head)}`,
        },
        on: { click: () => update({ off: togglePair(state.off, index, head) || "none" }) },
      },
      String(head),
    );
    one.style.setProperty("--chip", headColour(theme, head));
    return one;
  });
  return el(
    "div",
    { class: "row" },
    el("span", {}, t.attentionFull(attention)),
    el("div", { class: "chips" }, ...chips),
  );
}

function tokenRow({ run, state, t, update }: Context, side: number): HTMLElement {
  const held = parsePairs(state.held);
  const tokens = labels(run.sides[side]!, false).map((label, index) => {
    const isHeld = held.some(([s, i]) => s === side && i === index);
    return el(
      "button",
      {
        class: isHeld ? "token held" : "token",
        attributes: {
          id: `held-${side}-${index}`,
          type: "button",
          "aria-pressed": String(isHeld),
          lang: languageOf(label.text),
        },
        on: { click: () => update({ held: togglePair(state.held, side, index) }) },
      },
      (label.space ? "␣" : "") + label.text,
    );
  });
  return el(
    "div",
    { class: "row" },
    el("span", {}, t.side(run.sides[side]!.name)),
    el("div", { class: "tokens" }, ...tokens),
  );
}

/** The most likely outputs before and after the ablation, with their probabilities. */
export function outputTable(context: Context, before: Output, after: Output): HTMLElement {
  const { t, run } = context;
  if (before.kind === "labels" && after.kind === "labels") {
    const now = new Map(after.items.map((item) => [item.label, item.p]));
    return comparison(
      context,
      [t.label, t.before, t.after],
      before.items.map((item) => ({
        name: item.label,
        before: [item.label, item.p],
        after: [item.label, now.get(item.label) ?? 0],
      })),
      before.values,
    );
  }
  if (before.kind !== "tokens" || after.kind !== "tokens") return note(t.noOutput);
  const tokens = labels(run.sides[before.side]!, false);
  const first = (list: Output & { kind: "tokens" }, i: number): [string, number] => [
    list.rows[i]?.[0]?.text ?? "—",
    list.rows[i]?.[0]?.p ?? 0,
  ];
  return comparison(
    context,
    [before.masked ? t.atToken : t.afterToken, t.before, t.after],
    before.rows.flatMap((row, i) =>
      row.length === 0 // long texts have candidates only at the end
        ? []
        : [{ name: tokens[i]?.text ?? String(i), before: first(before, i), after: first(after, i) }],
    ),
  );
}

interface Compared {
  name: string;
  before: [string, number];
  after: [string, number];
}

function comparison({ theme }: Context, columns: string[], rows: Compared[], values = false): HTMLElement {
  const cell = ([text, p]: [string, number], different: boolean) => {
    const box = el(
      "td",
      { class: different ? "different" : "" },
      el("span", { class: "word", attributes: { lang: languageOf(text) } }, visible(text) || "∅"),
      " ",
    );
    const colour = weightColour(theme, values ? 0 : p);
    const number = el("span", { class: "share" }, labelNumber({ values }, p));
    number.style.background = hex(colour);
    number.style.color = inkOn(colour);
    box.append(number);
    return box;
  };
  const body = rows
    .slice(-400)
    .map((row) =>
      el(
        "tr",
        {},
        el("th", { attributes: { scope: "row", lang: languageOf(row.name) } }, row.name),
        cell(row.before, false),
        cell(row.after, row.before[0] !== row.after[0]),
      ),
    );
  return el(
    "div",
    { class: "table", attributes: { tabindex: 0, role: "region", "aria-label": columns.join(", ") } },
    el(
      "table",
      { attributes: { id: "output-table" } },
      el("thead", {}, el("tr", {}, ...columns.map((name) => el("th", { attributes: { scope: "col" } }, name)))),
      el("tbody", {}, ...body),
    ),
  );
}

/** The largest change of a weight in each head's map. */
async function changesOf({ source, run, t, theme }: Context, after: Run): Promise<Picture> {
  const blocks = (one: Run) => Promise.all(one.attention.map((a) => source.array(one.id, `thumbnails/48/${a.index}`)));
  const [was, is] = await Promise.all([blocks(run), blocks(after)]);
  const most = Math.max(...run.attention.map((one) => one.heads));
  const change = run.attention.map((one, a) =>
    Array.from({ length: one.heads }, (_, h) => {
      const [x, y] = [was[a]!.slice(h).data, is[a]!.slice(h).data];
      return x.length === y.length
        ? x.reduce((largest, value, i) => Math.max(largest, Math.abs(value - y[i]!)), 0)
        : NaN;
    }),
  );
  const row = 30;
  return new Picture({
    id: "changes-picture",
    title: t.changeOfMaps,
    label: t.changeOfMaps,
    size: (available) => ({ width: Math.min(available, 170 + most * 64), height: run.attention.length * row + 44 }),
    draw: (pen, sight) => {
      const left = Math.min(164, sight.width * 0.4);
      const cell = (sight.width - left) / most;
      change.forEach((heads, a) => {
        pen.text(t.attentionFull(run.attention[a]!), left - 10, a * row + 20, {
          colour: theme.ink,
          size: 13,
          align: "end",
        });
        heads.forEach((value, h) => {
          const colour = weightColour(theme, value);
          pen.rect(
            { x: left + h * cell + 2, y: a * row + 3, width: cell - 4, height: row - 6 },
            { fill: hex(colour), stroke: theme.faint, radius: 4 },
          );
          pen.text(value.toFixed(2), left + (h + 0.5) * cell, a * row + 20, {
            colour: inkOn(colour),
            size: 11,
            align: "middle",
          });
        });
      });
      drawLegend(pen, Math.max(6, Math.min(left, sight.width - 196)), run.attention.length * row + 14, theme);
    },
    table: () => ({
      columns: [t.layer, ...Array.from({ length: most }, (_, h) => t.head(h))],
      rows: change.map((heads, a) => [t.attentionFull(run.attention[a]!), ...heads]),
    }),
    summary: t.asTable,
  });
}

/** The chosen head's map before, after, and the difference. */
async function mapsOf(context: Context, after: Run): Promise<Picture[]> {
  const { source, run, state, t, theme } = context;
  const { attention, head } = context.selection;
  const { rows, columns } = axes(run, attention, state.words);
  const name = `weights/${attention.index}/${head}`;
  const [was, is] = (await Promise.all([source.array(run.id, name), source.array(after.id, name)])).map((grid) =>
    grouped(grid, rows, columns),
  ) as [Grid, Grid];
  const difference = new Grid(
    is.data.map((w, i) => w - was.data[i]!),
    was.shape,
  );
  const most = largestMagnitude(difference.data) || 1;
  return (
    [
      ["before", t.before, was, false],
      ["after", t.after, is, false],
      ["difference", t.afterLessBefore, difference, true],
    ] as const
  ).map(([id, title, grid, signed]) => {
    const options = { theme, rows, columns, signed, most, scale: scaleFor(columns.length), cell: 22 };
    const picture: Picture = new Picture({
      id: `ablate-${id}`,
      title,
      label: `${title}: ${t.matrixLabel(rows.length, columns.length)}`,
      size: (available) => {
        const at = heatmapLayout(available, options);
        return { width: at.width, height: at.height + 56 };
      },
      draw: (pen, sight) => {
        const at = heatmapLayout(picture.element.clientWidth || sight.width, options);
        pen.text(title, at.left, at.height + 16, { colour: theme.ink, size: 13, weight: 600 });
        drawHeatmap(pen, at, grid, options);
        if (signed) drawSignedLegend(pen, at.left, at.height + 26, theme, most);
        else drawLegend(pen, at.left, at.height + 26, theme, options.scale);
      },
      table: () => ({
        columns: [t.query, ...columns.map((l) => l.text)],
        rows: rows.map((label, r) => [label.text, ...grid.row(r)]),
      }),
      summary: t.asTable,
    });
    return picture;
  });
}
