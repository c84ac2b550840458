import { clamp, type Context, type View } from "../context";
import { button, controls } from "../controls";
import type { Grid } from "../data/grid";
import { Unavailable } from "../data/source";
import type { Attention } from "../data/types";
import { labels, visible, type Label } from "../data/words";
import { el, languageOf } from "../dom";
import { signedLegend, weightLegend } from "../draw/legend";
import type { Picture } from "../draw/picture";
import type { ViewName } from "../state";
import { note } from "./common";
import { kindNames, whenDetected } from "./detect";
import { mapsPicture, vectorsPicture, type FlowHead } from "./flow_pictures";
import { probabilities } from "./flow_probabilities";
import { maskedPlace } from "../selection";
import { patchesPicture } from "./patches";

/** A part of the way: its explanation, its contents, and the view that shows more of it. */
interface Station {
  id: string;
  title: string;
  text: string;
  content: (HTMLElement | null)[];
  opens?: { view: ViewName; layer?: number };
}

const kMostVectors = 16;
const kTokensAround = 120; // tokens shown before and after the place
const kPause = 2600; // milliseconds for each part of the animation

/** The sentence on its way through the model, drawn with the model's own numbers. */
export async function flowView(context: Context): Promise<View> {
  const { run, state, t, theme } = context;
  const side = run.output.kind === "tokens" ? run.output.side : run.sides.length - 1;
  const { tokens, picture } = run.sides[side]!;
  const masked = run.output.kind === "tokens" && run.output.masked === true;
  const usual = picture ? 0 : masked ? maskedPlace(run, side) : tokens.length - 1;
  const place = clamp(state.query >= 0 ? state.query : usual, tokens.length);
  const pictures: Picture[] = [];
  const explain = el("p", { class: "flow-explain", attributes: { id: "flow-explain", "aria-live": "polite" } }, t.flow.start);
  const stations = await allStations(context, side, place, pictures, explain);
  const chance = await probabilities(context, place);
  const { kind } = run.output;
  stations.push(
    kind === "tokens"
      ? {
          id: "output",
          title: t.flow.output.title,
          text: masked ? t.flow.output.masked : t.flow.output.text,
          content: [chance.element],
          ...(masked ? {} : { opens: { view: "generation" } }),
        }
      : { id: "output", title: t.flow.labels, text: kind === "none" ? t.flow.noOutput : t.flow.labelsText, content: [chance.element] },
  );
  const items = stations.map((station) => stationElement(context, station, explain));
  const walk = player(context, items, stations, explain);
  const element = el(
    "div",
    { class: "flow" },
    controls(walk.button),
    explain,
    el("div", { class: "scales" }, weightLegend(theme, t.flow.weightScale), signedLegend(theme, t.flow.vectorScale)),
    el("ol", { class: "flow-list" }, ...items),
    note(t.flow.help),
  );
  return {
    element,
    pictures,
    ...(kind === "tokens" && !masked ? {} : { lead: t.flow.leads[picture ? "image" : masked ? "masked" : (kind as "labels")] }),
    data: () => ({ place, output: chance.data() }),
    close: () => walk.stop(),
  };
}

function stationElement({ t, update }: Context, station: Station, explain: HTMLElement): HTMLElement {
  const { opens } = station;
  const title = opens
    ? el(
        "button",
        {
          class: "flow-open",
          attributes: { id: `flow-open-${station.id}`, type: "button", title: t.flow.opens(t.views[opens.view].name) },
          on: { click: () => update({ view: opens.view, ...(opens.layer === undefined ? {} : { layer: opens.layer }) }) },
        },
        station.title,
        el("small", {}, " → ", t.views[opens.view].name),
      )
    : station.title;
  const say = () => (explain.textContent = station.text);
  return el(
    "li",
    {
      attributes: { id: `flow-${station.id}` },
      on: { pointerenter: say, focusin: say },
    },
    el("h3", {}, title),
    ...station.content,
  );
}

/** Walks through the parts, one after the other, on request. */
function player({ t }: Context, items: HTMLElement[], stations: Station[], explain: HTMLElement) {
  let timer = 0;
  let at = 0;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const clear = () => items.forEach((item) => item.classList.remove("now"));
  const stop = () => {
    clearTimeout(timer);
    timer = 0;
    clear();
    toggle.textContent = t.flow.play;
  };
  const step = () => {
    clear();
    const item = items[at];
    if (!item) return stop();
    item.classList.add("now");
    item.scrollIntoView({ block: "center", behavior: still ? "auto" : "smooth" });
    explain.textContent = stations[at]!.text;
    ++at;
    timer = window.setTimeout(step, kPause);
  };
  const toggle = button("flow-play", t.flow.play, () => {
    if (timer) return stop();
    at = 0;
    toggle.textContent = t.stop;
    step();
  });
  return { button: toggle, stop };
}

async function allStations(
  context: Context,
  side: number,
  place: number,
  pictures: Picture[],
  explain: HTMLElement,
): Promise<Station[]> {
  const { run, t } = context;
  const stations: Station[] = [];
  const picture = await patchesPicture(context, {
    id: "patches-picture",
    tiles: () => [],
    query: () => place,
    press: (token) => context.update({ query: token }),
  });
  if (picture) pictures.push(picture);
  stations.push({
    id: "tokens",
    ...(picture ? t.flow.patches : t.flow.tokens),
    content: [picture?.element ?? null, ...run.sides.map((_, s) => (picture ? null : tokenRow(context, s, side, place)))],
    opens: { view: "embeddings" },
  });
  for (const stack of [...new Set(run.attention.map((one) => one.stack))]) {
    const own = run.attention.filter((one) => one.stack === stack);
    const rows = own[0]!.stack === "encoder" ? 0 : side;
    if (stack === "rnn") {
      stations.push(...(await recurrentStations(context, own, place, pictures, explain)));
      continue;
    }
    const name = ["", stack].map((path) => `${path}:embedded`).find((one) => run.values.includes(one));
    const all = labels(run.sides[rows]!, false);
    const selected = rows === side ? place : -1;
    const first = clamp(Math.max(0, selected) - kMostVectors + 1, all.length);
    const end = Math.min(all.length, first + kMostVectors);
    const values = name ? await arrayOrNull(context, `values/${name}`, [first, end]) : null;
    if (values) {
      const vectors = vectorsPicture(context, {
        id: `flow-map-${stack}`,
        values,
        labels: all.slice(first, end),
        selected: selected - first,
        explain: (text) => (explain.textContent = text),
      });
      pictures.push(vectors);
      stations.push({
        id: `vectors-${stack}`,
        title: own.length > 0 && stack !== "stack" ? `${t.stack(stack)} · ${t.flow.vectors.title}` : t.flow.vectors.title,
        text: picture ? t.flow.vectors.patches : vectorsText(context, stack),
        content: [vectors.element, cutNote(context, end - first, all.length)],
        opens: { view: "steps", layer: own[0]!.index },
      });
    }
    for (const layer of [...new Set(own.map((one) => one.layer))]) {
      stations.push(await layerStation(context, own.filter((one) => one.layer === layer), rows === side ? place : -1, pictures, explain));
    }
  }
  return stations;
}

/** Says that only some of the places are drawn. */
function cutNote({ t }: Context, shown: number, all: number): HTMLElement | null {
  return shown < all ? note(t.flow.shownOf(shown, all)) : null;
}

/** How this model's embeddings know their positions. */
function vectorsText({ run, t }: Context, stack: Attention["stack"]): string {
  const { embedding, positions } = t.flow.vectors;
  const kind = run.arithmetic?.stacks.find((one) => one.name === stack)?.positions ?? "none";
  return `${embedding} ${positions[kind]}`;
}

/** A recurrent encoder and a decoder that attends to it: the encoder's states, then the decoder's way at the place. */
async function recurrentStations(
  context: Context,
  modules: Attention[],
  place: number,
  pictures: Picture[],
  explain: HTMLElement,
): Promise<Station[]> {
  const { run, t } = context;
  const station = await layerStation(context, modules, place, pictures, explain);
  const say = (text: string) => (explain.textContent = text);
  const strip = async (name: string, rows: [number, number], shown: Label[], id: string) => {
    const values = run.values.includes(name) ? await arrayOrNull(context, `values/${name}`, rows) : null;
    if (!values) return null;
    const picture = vectorsPicture(context, { id, values, labels: shown, selected: -1, explain: say });
    pictures.push(picture);
    return picture.element;
  };
  const source = labels(run.sides[0]!, false).slice(0, kMostVectors);
  const states = await strip("encoder:states", [0, source.length], source, "flow-map-states");
  const named = (label: string): Label[] => [{ text: label, plain: label, kind: "text", space: false, tokens: [place] }];
  const at = (name: string, label: string) => strip(name, [place, place + 1], named(label), `flow-${name.slice(1)}`);
  const { recurrent } = t.flow;
  const own = [await at(":outputs", recurrent.state), await at(":readout", recurrent.readout)];
  return [
    ...(states ? [{ id: "states", ...recurrent.encoder, content: [states, cutNote(context, source.length, run.sides[0]!.tokens.length)] }] : []),
    { ...station, text: recurrent.attention, content: [...station.content, ...own] },
  ];
}

/** Some rows of an array; null if a file does not hold it. */
async function arrayOrNull({ source, run }: Context, name: string, rows: [number, number]): Promise<Grid | null> {
  try {
    return await source.array(run.id, name, { rows });
  } catch (error) {
    if (error instanceof Unavailable) return null;
    throw error;
  }
}

async function layerStation(
  context: Context,
  modules: Attention[],
  place: number,
  pictures: Picture[],
  explain: HTMLElement,
): Promise<Station> {
  const { source, run, t, update } = context;
  const { stack, layer } = modules[0]!;
  const content: HTMLElement[] = [];
  for (const one of modules) {
    const heads: FlowHead[] = Array.from({ length: one.heads }, (_, head) => ({ head, badges: [] }));
    const maps = mapsPicture(context, {
      id: `flow-maps-${one.index}`,
      attention: one,
      heads,
      thumbnails: await source.array(run.id, `thumbnails/32/${one.index}`),
      open: (head) => update({ view: "heads", layer: one.index, head, heads: [head] }),
      explain: (text) => (explain.textContent = text),
    });
    whenDetected(context, (found) => {
      for (const shown of heads) shown.badges = kindNames(context, found, one.index, shown.head);
      maps.redraw();
    });
    pictures.push(maps);
    content.push(el("p", { class: "flow-part" }, one.kind === "cross" ? t.flow.cross : t.flow.maps), maps.element);
  }
  const path = modules[0]!.path.replace(/\.[^.]*$/, "");
  const row = Math.max(0, place < 0 ? 0 : place);
  const strip = async (name: string, label: string) => {
    if (place < 0 || !run.values.includes(name)) return;
    const values = await arrayOrNull(context, `values/${name}`, [row, row + 1]);
    if (!values) return;
    const picture = vectorsPicture(context, {
      id: `flow-${name.replace(/[^a-z0-9]+/gi, "-")}`,
      values,
      labels: [{ text: label, plain: label, kind: "text", space: false, tokens: [row] }],
      selected: -1,
      explain: (text) => (explain.textContent = text),
    });
    pictures.push(picture);
    content.push(picture.element);
  };
  await strip(`${path}.feed_forward:activated`, t.flow.neurons);
  await strip(`${path}:output`, t.flow.residual);
  const title = stack === "rnn" ? t.attentionFull(modules[0]!) : t.tools.layerNumber(layer);
  return {
    id: `layer-${stack}-${layer}`,
    title: stack === "encoder" || stack === "decoder" ? `${t.stack(stack)} · ${title}` : title,
    text: modules.some((one) => one.kind === "cross") ? t.flow.crossLayer : t.flow.layer,
    content,
    opens: { view: "steps", layer: modules[0]!.index },
  };
}

function tokenRow({ run, t, update }: Context, side: number, outputSide: number, place: number): HTMLElement {
  const all = labels(run.sides[side]!, false);
  const first = side === outputSide ? Math.max(0, place - kTokensAround) : 0;
  const list = all.slice(first, first + 2 * kTokensAround).map((label, i) => {
    const index = first + i;
    const id = run.sides[side]!.tokens[index]!.id;
    const chosen = side === outputSide && index === place;
    const content = [(label.space ? "␣" : "") + visible(label.text), el("small", {}, String(id))];
    if (side !== outputSide) return el("span", { class: "token", attributes: { lang: languageOf(label.text) } }, ...content);
    return el(
      "button",
      {
        class: "token",
        attributes: {
          id: `flow-token-${side}-${index}`,
          type: "button",
          "aria-pressed": String(chosen),
          lang: languageOf(label.text),
        },
        on: { click: () => update({ query: index }) },
      },
      ...content,
    );
  });
  return el(
    "div",
    { class: "row" },
    el("span", {}, t.side(run.sides[side]!.name)),
    el("div", { class: "sentence" }, ...list),
  );
}

