import { announce } from "../a11y/announce";
import type { Table } from "../a11y/table";
import { clamp, type Context, type View } from "../context";
import { button, chips, controls, slider } from "../controls";
import { largest, type Grid } from "../data/grid";
import { grouped, labelAt } from "../data/words";
import type { Attention } from "../data/types";
import { el } from "../dom";
import { Picture } from "../draw/picture";
import { headColour } from "../draw/theme";
import type { State } from "../state";
import { attentionSelect, axes, note, percent, section, wordsToggle, type Axes } from "./common";
import { badgesOf, kindNames, whenDetected } from "./detect";
import { drawHeads, kRow, rowAt, sideAt, type Isolated, type Lines } from "./heads_drawing";
import { headsOnPicture } from "./heads_patches";
import { pairFilter, pairSelect } from "./sentences";

const kMostPairs = 1 << 20; // above this, only the selected row or column is fetched
const kMostLines = 6000;

/** Tokens on the left and right, joined by lines whose strength is the attention weight between them. */
export async function headsView(context: Context): Promise<View> {
  const { run, state, t, theme, update, selection } = context;
  const { attention } = selection;
  const on = shownHeads(attention, state);
  const whole = attention.queries * attention.keys <= kMostPairs;
  const all = axes(run, attention, state.words && whole);
  const weights = whole ? await loadAll(context, attention, on, all) : [];
  const pair = pairFilter(context, attention);
  const allowed = (q: number, k: number) => pair(all.rows[q]!.tokens[0]!, all.columns[k]!.tokens[0]!);
  const lines = {
    threshold: state.threshold,
    list: strongest(weights, on, state.threshold, allowed),
  };
  let isolated: Isolated | null = null;
  let pinned: Place | null =
    state.query >= 0
      ? [0, labelAt(all.rows, clamp(state.query, attention.queries))]
      : state.key >= 0
        ? [1, labelAt(all.columns, clamp(state.key, attention.keys))]
        : null;

  const isolate = async (side: 0 | 1, index: number): Promise<void> => {
    if (isolated?.side === side && isolated.index === index) return;
    const kept = (values: Float32Array) =>
      values.map((weight, other) => ((side === 0 ? allowed(index, other) : allowed(other, index)) ? weight : 0));
    const values = weights.map((grid) => kept(side === 0 ? grid.row(index) : grid.column(index)));
    isolated = { side, index, values };
    redraw();
    if (!whole) {
      const part =
        side === 0
          ? { rows: [index, index + 1] as [number, number] }
          : { columns: [index, index + 1] as [number, number] };
      const fetched = await Promise.all(
        on.map((head) => context.source.array(run.id, `weights/${attention.index}/${head}`, part)),
      );
      if (isolated.side === side && isolated.index === index) isolated.values = fetched.map((grid) => kept(grid.data));
      redraw();
    }
    announce(spoken(context, all, isolated));
  };

  /** Shows the pinned token again, or all lines. */
  const release = () => {
    if (pinned) return void isolate(...pinned).catch(context.fail);
    isolated = null;
    redraw();
  };
  /** Pins the token shown; the pinned one is released. A query or a key is pinned, not both. */
  const pin = (place: Place | null) => {
    pinned = place;
    const token = place && (place[0] === 0 ? all.rows : all.columns)[place[1]]!.tokens[0]!;
    context.note(token === null ? { query: -1, key: -1 } : place![0] === 0 ? { query: token, key: -1 } : { query: -1, key: token });
    if (!place) release();
  };
  const redraw = () => [picture, patches].forEach((one) => one?.redraw());
  const scaleColour = on.length === 1 ? headColour(theme, on[0]!) : theme.ink;
  const picture = new Picture({
    id: "heads-picture",
    title: t.views.heads.name,
    label: t.headsLabel(t.attention(attention), all.rows.length, all.columns.length),
    size: (available) => ({
      width: Math.min(available, 860),
      height: kRow * Math.max(all.rows.length, all.columns.length) + 40,
    }),
    tallest: 640,
    draw: (pen, sight) =>
      drawHeads(pen, sight, {
        axes: all,
        theme,
        lines: lines.list,
        on,
        isolated,
        caption: sideNames(context, attention),
        scale: { name: t.weight, colour: scaleColour },
      }),
    hover: (x, y) => {
      const side = sideAt(x, picture.size.width);
      const index = rowAt(y, (side === 0 ? all.rows : all.columns).length);
      if (index === null) release();
      else void isolate(side, index);
    },
    leave: release,
    press: () => {
      picture.canvas.focus({ preventScroll: true });
      if (isolated) pin(pinned && isolated.side === pinned[0] && isolated.index === pinned[1] ? null : [isolated.side, isolated.index]);
    },
    key: (event) => {
      const side = isolated?.side ?? 0;
      const at = isolated?.index ?? -1;
      const count = (s: 0 | 1) => (s === 0 ? all.rows : all.columns).length;
      const moves: Record<string, () => void> = {
        ArrowDown: () => void isolate(side, clamp(at + 1, count(side))),
        ArrowUp: () => void isolate(side, clamp(at - 1, count(side))),
        Home: () => void isolate(side, 0),
        End: () => void isolate(side, count(side) - 1),
        ArrowLeft: () => void isolate(0, clamp(Math.max(0, at), count(0))),
        ArrowRight: () => void isolate(1, clamp(Math.max(0, at), count(1))),
        Escape: () => pin(null),
      };
      const move = moves[event.key];
      if (!move) return false;
      move();
      if (isolated && event.key !== "Escape") pin([isolated.side, isolated.index]);
      if (isolated) picture.reveal(30 + isolated.index * kRow, kRow);
      return true;
    },
    table: () => table(context, all, on, weights),
    summary: t.asTable,
  });

  const patches = await headsOnPicture(context, {
    ...{ attention, on, weights, release },
    isolated: () => isolated,
    isolate: (side, index) => void isolate(side, index).catch(context.fail),
  });

  const chosen = chips(
    "heads",
    t.heads,
    Array.from({ length: attention.heads }, (_, i) => ({
      text: String(i),
      label: t.head(i) + (attention.off.includes(i) ? ` (${t.switchedOff})` : ""),
      colour: headColour(theme, i),
      on: on.includes(i),
    })),
    (index, only) => update(turned(on, index, only, attention.heads)),
  );
  const kinds = headKinds(context, attention, chosen);
  if (pinned) {
    const y = 30 + pinned[1] * kRow;
    void isolate(...pinned).catch(context.fail);
    requestAnimationFrame(() => requestAnimationFrame(() => picture.reveal(y, kRow))); // once the picture has its size
  }
  const threshold = slider("threshold", t.threshold, {
    min: 0,
    max: 0.5,
    step: 0.01,
    value: state.threshold,
    format: (v) => v.toFixed(2),
    input: (value) => {
      lines.list = strongest(weights, on, value, allowed);
      picture.redraw();
    },
    change: (value) => update({ threshold: value }),
  });
  const bar = controls(
    attentionSelect(context),
    chosen,
    attention.heads > 1 && button("heads-all", t.all, () => update({ heads: [], head: -1 }), "chip wide"),
    whole && threshold,
    whole && wordsToggle(context),
    pairSelect(context),
  );
  const help = note(whole ? t.headsHelp : t.headsLong);
  const element = patches
    ? el("div", {}, bar, kinds, patches.element, note(t.patchesHelp), section(t.headsAsLines, picture.element, help))
    : el("div", {}, bar, kinds, ...(whole ? [picture.element, help] : [help, picture.element]));
  const data = () => ({
    attention: attention.path,
    heads: on,
    rows: all.rows.map((l) => l.plain),
    columns: all.columns.map((l) => l.plain),
    weights: weights.map((grid) => Array.from({ length: grid.rows }, (_, r) => grid.row(r))),
  });
  return {
    ...{ element, data, pictures: patches ? [patches, picture] : [picture] },
    caption: () => [t.attentionFull(attention), ...(on.length === 1 ? [t.head(on[0]!)] : [])],
    legend: () => on.map((head): [string, string] => [t.head(head), headColour(theme, head)]),
  };
}

type Place = [side: 0 | 1, index: number];

/** The layer's heads of a known kind, each with its badges. Their buttons in `chosen` get the kinds as a hint. */
function headKinds(context: Context, attention: Attention, chosen: HTMLElement): HTMLElement {
  const { t, theme } = context;
  const list = el("ul", { class: "head-kinds", attributes: { id: "head-kinds", "aria-label": t.tools.headKinds } });
  const hint = el("p", { class: "note", attributes: { id: "head-kinds-hint", role: "status" } });
  whenDetected(context, (found) => {
    for (let head = 0; head < attention.heads; ++head) {
      const badges = badgesOf(context, found, attention.index, head, (text) => (hint.textContent = text));
      if (badges.length === 0) continue;
      const mark = el("span", { class: "dot" });
      mark.style.background = headColour(theme, head);
      list.append(el("li", {}, mark, t.head(head), ...badges));
      const button = chosen.querySelector(`#heads-${head}`)!;
      const label = `${button.getAttribute("aria-label")}: ${kindNames(context, found, attention.index, head).join(", ")}`;
      button.setAttribute("aria-label", label);
      button.setAttribute("title", label);
    }
    if (list.childElementCount === 0) hint.textContent = t.tools.noKinds;
  });
  return el("div", {}, list, hint);
}

/** The heads that are switched on, else the selected head, else all. */
function shownHeads(attention: Attention, { heads, head }: State): number[] {
  const valid = heads.filter((one) => one < attention.heads);
  if (valid.length) return valid;
  return head >= 0 ? [clamp(head, attention.heads)] : Array.from({ length: attention.heads }, (_, i) => i);
}

/** The heads shown after a click: toggles one head, but never turns the last one off. A single head is the page's
 * selected head. */
function turned(on: number[], index: number, only: boolean, count: number): Partial<State> {
  const toggled = on.includes(index) ? on.filter((head) => head !== index) : [...on, index].sort((a, b) => a - b);
  const next = only ? [index] : toggled.length ? toggled : on;
  if (next.length === 1) return { head: next[0]!, heads: [] };
  return next.length === count ? { head: -1, heads: [] } : { heads: next };
}

function loadAll({ source, run }: Context, attention: Attention, heads: number[], all: Axes): Promise<Grid[]> {
  return Promise.all(
    heads.map(async (head) =>
      grouped(await source.array(run.id, `weights/${attention.index}/${head}`), all.rows, all.columns),
    ),
  );
}

/** The lines to draw: weights at or above the threshold, at most kMostLines of them. */
function strongest(
  weights: Grid[],
  heads: number[],
  threshold: number,
  allowed: (q: number, k: number) => boolean,
): Lines[] {
  const found: [number, number, number, number][] = []; // weight, query, key, index of the head
  weights.forEach((grid, n) => {
    for (let q = 0; q < grid.rows; ++q)
      for (let k = 0; k < grid.columns; ++k) {
        const weight = grid.at(q, k);
        if (weight >= threshold && weight > 0.001 && allowed(q, k)) found.push([weight, q, k, n]);
      }
  });
  if (found.length > kMostLines) {
    found.sort((a, b) => b[0] - a[0]);
    found.length = kMostLines;
  }
  const lines: Lines[] = heads.map((head) => ({ head, weights: [], queries: [], keys: [] }));
  for (const [weight, q, k, n] of found) {
    lines[n]!.weights.push(weight);
    lines[n]!.queries.push(q);
    lines[n]!.keys.push(k);
  }
  return lines;
}

function sideNames({ run, t }: Context, attention: Attention): [string, string] {
  return [
    `${t.side(run.sides[attention.querySide]!.name)} · ${t.asks}`,
    `${t.side(run.sides[attention.keySide]!.name)} · ${t.answers}`,
  ];
}

function spoken({ t }: Context, all: Axes, { side, index, values }: Isolated): string {
  const [own, other] = side === 0 ? [all.rows, all.columns] : [all.columns, all.rows];
  const mean = other.map((_, i) => values.reduce((sum, head) => sum + head[i]!, 0) / Math.max(1, values.length));
  const best = largest(mean, 3).map(([i, weight]) => `${other[i]!.plain} ${percent(weight)}`);
  return t.spokenToken(own[index]!.plain, side === 0, best.join(", "));
}

function table({ t }: Context, all: Axes, on: number[], weights: Grid[]): Table {
  const rows = weights.flatMap((grid, n) =>
    all.rows.map((label, q) => [
      label.text,
      t.head(on[n]!),
      ...largest(grid.row(q), 3).flatMap(([k, weight]) => [all.columns[k]!.text, weight]),
    ]),
  );
  return {
    columns: [t.query, t.headLabel, ...[1, 2, 3].flatMap((n) => [t.rankedKey(n), t.weight])],
    rows,
    note: t.topThree,
  };
}
