import { announce } from "../a11y/announce";
import { attentionOf, clamp, headOf, type Context, type View } from "../context";
import { controls } from "../controls";
import { dot, largestMagnitude, type Grid } from "../data/grid";
import type { Attention } from "../data/types";
import { el } from "../dom";
import { drawLabel, widest } from "../draw/labels";
import { Picture } from "../draw/picture";
import type { Pen } from "../draw/pen";
import { signedColour, weightColour, hex, inkOn, headColour } from "../draw/theme";
import { attentionSelect, axes, headSelect, note, section, tokenSelect } from "./common";

const kRow = 24;
const kTop = 58;

/** What the pair's dimensions add up to. */
export interface Pairing {
  q: Float32Array; // of the query
  k: Grid; // of every key
  products: (key: number) => Float32Array; // their sum is the raw score
  scores: Float32Array;
  weights: Float32Array;
}

export async function loadPairing(
  { source, run }: Context,
  attention: Attention,
  head: number,
  query: number,
): Promise<Pairing> {
  const at = `${attention.index}/${head}`;
  const rows: [number, number] = [query, query + 1];
  const [q, k, scores, weights, additive] = await Promise.all([
    source.array(run.id, `q/${at}`, { rows }),
    source.array(run.id, `k/${at}`),
    source.array(run.id, `scores/${at}`, { rows }),
    source.array(run.id, `weights/${at}`, { rows }),
    attention.score === "additive" ? source.array(run.id, `additive/${attention.index}`) : null,
  ]);
  // Dot: q_d k_d. Bahdanau's: v_d tanh(q_d + k_d).
  const term = additive
    ? (a: number, b: number, d: number) => additive.data[d]! * Math.tanh(a + b)
    : (a: number, b: number) => a * b;
  return {
    q: q.data,
    k,
    products: (key) => q.data.map((value, d) => term(value, k.at(key, d), d)),
    scores: scores.data,
    weights: weights.data,
  };
}

/** q and k of a token pair, dimension by dimension, their products and the sum. */
export async function neuronsView(context: Context): Promise<View> {
  const { run, state, t, update } = context;
  const attention = attentionOf(run, state.layer);
  const head = headOf(attention, state.head);
  const all = axes(run, attention, false);
  const query = clamp(state.query, all.rows.length);
  let key = clamp(state.key, all.columns.length);
  const pairing = await loadPairing(context, attention, head, query);
  const choose = (next: number, final: boolean) => {
    key = next;
    overview.redraw();
    detail.redraw();
    sentence.textContent = sumSentence(context, attention, pairing, key);
    announce(sentence.textContent);
    if (final) {
      context.note({ key });
      (bar.querySelector("#key") as HTMLSelectElement).value = String(key);
    }
  };
  const overview = new Picture({
    id: "neurons-picture",
    title: t.views.neurons.name,
    label: t.neuronsLabel(all.rows[query]!.plain),
    size: (available) => ({ width: available, height: kTop + all.columns.length * kRow + 6 }),
    tallest: 520,
    draw: (pen, sight) =>
      drawOverview(pen, context, attention, pairing, {
        query,
        key,
        head,
        width: sight.width,
        top: sight.top,
        bottom: sight.bottom,
      }),
    hover: (_x, y) => {
      const row = Math.floor((y - kTop) / kRow);
      if (row >= 0 && row < all.columns.length && row !== key) choose(row, false);
    },
    press: () => context.note({ key }),
    key: (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 }[event.key];
      if (by === undefined) return false;
      choose(clamp(key + by, all.columns.length), true);
      overview.reveal(kTop + key * kRow, kRow);
      return true;
    },
    table: () => ({
      columns: [t.key, t.sumOfProducts, t.score, t.weight],
      rows: all.columns.map((label, k) => [label.text, sumOf(pairing, k), pairing.scores[k]!, pairing.weights[k]!]),
    }),
    summary: t.asTable,
  });
  const detail = new Picture({
    id: "pair-picture",
    title: t.pairTitle,
    label: t.pairTitle,
    size: (available) => ({ width: available, height: 252 }),
    draw: (pen, sight) => drawPair(pen, context, attention, pairing, key, sight.width),
    table: () => ({
      columns: [t.dimension, "q", "k", attention.score === "dot" ? "q × k" : "v tanh(q + k)"],
      rows: Array.from(pairing.products(key), (product, d) => [d + 1, pairing.q[d]!, pairing.k.at(key, d), product]),
    }),
    summary: t.asTable,
  });
  const sentence = el(
    "p",
    { class: "readout", attributes: { id: "sum" } },
    sumSentence(context, attention, pairing, key),
  );
  const bar = controls(
    attentionSelect(context, attention),
    headSelect(context, attention, head),
    tokenSelect("query", t.query, all.rows, query, (value) => update({ query: value })),
    tokenSelect("key", t.key, all.columns, key, (value) => choose(value, true)),
  );
  const element = el(
    "div",
    {},
    bar,
    overview.element,
    section(t.pairTitle, sentence, detail.element),
    note(t.neuronsHelp),
  );
  const data = () => ({
    attention: attention.path,
    head,
    query,
    key,
    scale: attention.scale,
    q: pairing.q,
    k: pairing.k.row(key),
    products: pairing.products(key),
    sum: sumOf(pairing, key),
    score: pairing.scores[key],
    weight: pairing.weights[key],
  });
  return { element, pictures: [overview, detail], data };
}

export function sumOf(pairing: Pairing, key: number): number {
  return dot(pairing.products(key), new Float32Array(pairing.q.length).fill(1));
}

function sumSentence({ t }: Context, attention: Attention, pairing: Pairing, key: number): string {
  return t.sumSentence({
    sum: sumOf(pairing, key),
    scale: attention.scale,
    score: pairing.scores[key]!,
    weight: pairing.weights[key]!,
    additive: attention.score === "additive",
  });
}

interface OverviewScene {
  query: number;
  key: number;
  head: number;
  width: number;
  top: number;
  bottom: number;
}

/** The query's strip above; for each key its own strip, the products, their sum and the weight. */
function drawOverview(
  pen: Pen,
  { run, theme, t, ...context }: Context,
  attention: Attention,
  pairing: Pairing,
  scene: OverviewScene,
): void {
  const all = axes(run, attention, false);
  const name = widest([...all.columns, all.rows[scene.query]!], 30, scene.width * 0.2) + 10;
  const numbers = scene.width < 520 ? 56 : 126;
  const strip = (scene.width - name - numbers - 24) / 2;
  const second = name + strip + 12;
  const end = second + strip + 12;
  const mostK = Math.max(largestMagnitude(pairing.k.data), largestMagnitude(pairing.q));
  const mostProduct = largestOf(pairing, all.columns.length);
  pen.text("q", name + 4, 12, { colour: theme.soft, size: 11 });
  drawLabel(pen, all.rows[scene.query]!, { x: name - 6, y: 32, room: name - 8, align: "end" }, theme, 14, true);
  pen.cells({ x: name, y: 18, width: strip, height: 18 }, 1, pairing.q.length, (_, c) =>
    signedColour(theme, pairing.q[c]!, mostK),
  );
  pen.text("k", name + 4, kTop - 6, { colour: theme.soft, size: 11 });
  pen.text(attention.score === "dot" ? "q × k" : "v tanh(q + k)", second + 4, kTop - 6, {
    colour: theme.soft,
    size: 11,
  });
  pen.text(numbers > 60 ? `Σ   ·   ${t.weight}` : t.weight, scene.width - 2, kTop - 6, {
    colour: theme.soft,
    size: 11,
    align: "end",
  });
  const first = Math.max(0, Math.floor((scene.top - kTop) / kRow));
  const last = Math.min(all.columns.length, Math.ceil((scene.bottom - kTop) / kRow));
  for (let k = first; k < last; ++k) {
    const y = kTop + k * kRow;
    const masked = pairing.scores[k] === -Infinity;
    if (k === scene.key)
      pen.rect(
        { x: 0, y, width: scene.width, height: kRow },
        { fill: headColour(theme, scene.head), alpha: 0.14, radius: 4 },
      );
    drawLabel(
      pen,
      all.columns[k]!,
      { x: name - 6, y: y + 16, room: name - 8, align: "end" },
      theme,
      14,
      k === scene.key,
    );
    const values = pairing.k.row(k);
    pen.cells({ x: name, y: y + 3, width: strip, height: kRow - 6 }, 1, values.length, (_, c) =>
      signedColour(theme, values[c]!, mostK),
    );
    const products = pairing.products(k);
    pen.cells({ x: second, y: y + 3, width: strip, height: kRow - 6 }, 1, products.length, (_, c) =>
      signedColour(theme, masked ? NaN : products[c]!, mostProduct),
    );
    if (numbers > 60)
      pen.text(sumOf(pairing, k).toFixed(2), end + 54, y + 16, {
        colour: theme.soft,
        size: 12,
        align: "end",
        mono: true,
      });
    const colour = weightColour(theme, pairing.weights[k]!);
    pen.rect({ x: scene.width - 54, y: y + 2, width: 54, height: kRow - 4 }, { fill: hex(colour), radius: 3 });
    pen.text(masked ? t.maskedShort : pairing.weights[k]!.toFixed(3), scene.width - 8, y + 16, {
      colour: inkOn(colour),
      size: 11,
      align: "end",
      mono: true,
    });
  }
  void context;
}

function largestOf(pairing: Pairing, keys: number): number {
  let most = 0;
  const step = Math.max(1, Math.floor(keys / 64));
  for (let k = 0; k < keys; k += step) most = Math.max(most, largestMagnitude(pairing.products(k)));
  return most;
}

/** Three rows of bars: q, k and what each dimension adds. */
function drawPair(
  pen: Pen,
  { theme }: Context,
  attention: Attention,
  pairing: Pairing,
  key: number,
  width: number,
): void {
  const products = pairing.products(key);
  const rows: [string, ArrayLike<number>, string][] = [
    ["q", pairing.q, theme.accent],
    ["k", pairing.k.row(key), theme.good],
    [attention.score === "dot" ? "q × k" : "v tanh(q+k)", products, theme.warm],
  ];
  const left = 84;
  rows.forEach(([name, values, colour], n) => {
    const middle = 42 + n * 84;
    const most = largestMagnitude(values) || 1;
    const step = (width - left - 8) / values.length;
    pen.text(name, left - 12, middle + 4, { colour: theme.ink, size: 13, align: "end" });
    pen.text(most.toFixed(2), left - 12, middle - 22, { colour: theme.soft, size: 10, align: "end" });
    pen.line([left, middle, width - 8, middle], { colour: theme.faint });
    for (let d = 0; d < values.length; ++d) {
      const height = (values[d]! / most) * 34;
      pen.rect(
        {
          x: left + d * step + Math.min(1, step * 0.1),
          y: Math.min(middle, middle - height),
          width: Math.max(0.8, step - Math.min(2, step * 0.2)),
          height: Math.max(0.6, Math.abs(height)),
        },
        { fill: colour, alpha: 0.85 },
      );
    }
  });
}
