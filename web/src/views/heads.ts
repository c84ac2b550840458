import { announce } from "../a11y/announce";
import type { Table } from "../a11y/table";
import { attentionOf, clamp, type Context, type View } from "../context";
import { chips, controls, slider } from "../controls";
import { largest, type Grid } from "../data/grid";
import { grouped } from "../data/words";
import type { Attention } from "../data/types";
import { el } from "../dom";
import { Picture } from "../draw/picture";
import { headColour } from "../draw/theme";
import { attentionSelect, axes, note, percent, section, wordsToggle, type Axes } from "./common";
import { drawHeads, kRow, rowAt, sideAt, type Isolated, type Lines } from "./heads_drawing";
import { headsOnPicture } from "./heads_patches";
import { pairFilter, pairSelect } from "./sentences";

const kMostPairs = 1 << 20; // above this, only the selected row or column is fetched
const kMostLines = 6000;

/** Tokens on the left and right, joined by lines whose strength is the attention weight between them. */
export async function headsView(context: Context): Promise<View> {
  const { run, state, t, theme, update } = context;
  const attention = attentionOf(run, state.layer);
  const on = shownHeads(attention, state.heads);
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

  const release = () => {
    isolated = null;
    redraw();
  };
  const redraw = () => [picture, patches].forEach((one) => one?.redraw());
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
      }),
    hover: (x, y) => {
      const side = sideAt(x, picture.size.width);
      const index = rowAt(y, (side === 0 ? all.rows : all.columns).length);
      if (index === null) release();
      else void isolate(side, index);
    },
    leave: release,
    press: () => picture.canvas.focus(),
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
        Escape: release,
      };
      const move = moves[event.key];
      if (!move) return false;
      move();
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
    (index, only) => update({ heads: turned(on, index, only, attention.heads) }),
  );
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
    attentionSelect(context, attention),
    chosen,
    whole && threshold,
    whole && wordsToggle(context),
    pairSelect(context),
  );
  const help = note(whole ? t.headsHelp : t.headsLong);
  const element = patches
    ? el("div", {}, bar, patches.element, note(t.patchesHelp), section(t.headsAsLines, picture.element, help))
    : el("div", {}, bar, ...(whole ? [picture.element, help] : [help, picture.element]));
  const data = () => ({
    attention: attention.path,
    heads: on,
    rows: all.rows.map((l) => l.plain),
    columns: all.columns.map((l) => l.plain),
    weights: weights.map((grid) => Array.from({ length: grid.rows }, (_, r) => grid.row(r))),
  });
  return { element, pictures: patches ? [patches, picture] : [picture], data };
}

function shownHeads(attention: Attention, wanted: number[]): number[] {
  const valid = wanted.filter((head) => head < attention.heads);
  return valid.length ? valid : Array.from({ length: attention.heads }, (_, i) => i);
}

/** The heads shown after a click: toggles one head, but never turns the last one off. All heads are stored as []. */
function turned(on: number[], index: number, only: boolean, count: number): number[] {
  if (only) return [index];
  const next = on.includes(index) ? on.filter((head) => head !== index) : [...on, index].sort((a, b) => a - b);
  return next.length === count ? [] : next.length === 0 ? on : next;
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
