import { announce } from "../a11y/announce";
import { clamp, type Context, type View } from "../context";
import { controls } from "../controls";
import type { Attention } from "../data/types";
import { el } from "../dom";
import { Picture, type Sight } from "../draw/picture";
import { keyOf } from "../selection";
import { attentionSelect, axes, headSelect, note, section, selectedNames, tokenSelect } from "./common";
import { drawOverview, drawPair, kRow, kTop } from "./neurons_drawing";
import { patchesPicture } from "./patches";
import { loadPairing, sumOf, type Pairing } from "./pairing";

/** q and k of a token pair, dimension by dimension, their products and the sum. */
export async function neuronsView(context: Context): Promise<View> {
  const { source, run, state, t, theme, update, selection } = context;
  const { attention, head, query } = selection;
  const all = axes(run, attention, false);
  let key = await keyOf(source, run, selection, state.key);
  const pairing = await loadPairing(context, attention, head, query);
  const scene = ({ width, top, bottom }: Sight) => ({
    ...{ all, attention, pairing, query, key, head, theme, t },
    ...{ width, top, bottom },
  });
  let pinned = key; // shown again when the pointer leaves the picture
  const choose = (next: number, final: boolean) => {
    key = next;
    [overview, detail, patches].forEach((picture) => picture?.redraw());
    sentence.textContent = sumSentence(context, attention, pairing, key);
    announce(sentence.textContent);
    if (final) {
      pinned = key;
      context.note({ key });
      (bar.querySelector("#key") as HTMLSelectElement).value = String(key);
    }
  };
  const overview = new Picture({
    id: "neurons-picture",
    title: t.views.neurons.name,
    label: t.neuronsLabel(all.rows[query]!.plain),
    size: (available) => ({ width: available, height: kTop + all.columns.length * kRow + 38 }),
    tallest: 520,
    draw: (pen, sight) => drawOverview(pen, scene(sight)),
    hover: (_x, y) => {
      const row = Math.floor((y - kTop) / kRow);
      if (row >= 0 && row < all.columns.length && row !== key) choose(row, false);
    },
    leave: () => choose(pinned, false),
    press: () => choose(key, true),
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
    draw: (pen, sight) => drawPair(pen, scene(sight)),
    table: () => ({
      columns: [t.dimension, "q", "k", attention.score === "dot" ? "q × k" : "v tanh(q + k)"],
      rows: Array.from(pairing.products(key), (product, d) => [d + 1, pairing.q[d]!, pairing.k.at(key, d), product]),
    }),
    summary: t.asTable,
  });
  const patches = await patchesPicture(context, {
    id: "patches-picture",
    tiles: () => [{ caption: t.head(head), weights: pairing.weights }],
    query: () => query,
    key: () => key,
    press: (token) => update({ query: token, key: -1 }),
    move: (token) => update({ query: token, key: -1 }),
  });
  const sentence = el(
    "p",
    { class: "readout", attributes: { id: "sum" } },
    sumSentence(context, attention, pairing, key),
  );
  const bar = controls(
    attentionSelect(context),
    headSelect(context),
    tokenSelect("query", t.query, all.rows, query, (value) => update({ query: value, key: -1 })),
    tokenSelect("key", t.key, all.columns, key, (value) => choose(value, true)),
  );
  const element = el(
    "div",
    {},
    bar,
    patches?.element,
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
  const pictures = patches ? [patches, overview, detail] : [overview, detail];
  return { element, pictures, data, caption: () => [...selectedNames(context), all.rows[query]!.plain] };
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
