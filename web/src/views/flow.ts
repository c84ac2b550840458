import { clamp, type Context, type View } from "../context";
import { button, controls } from "../controls";
import type { Attention } from "../data/types";
import { labels, visible } from "../data/words";
import { el, languageOf } from "../dom";
import { signedLegend, weightLegend } from "../draw/legend";
import type { Picture } from "../draw/picture";
import { maskedPlace } from "../selection";
import { note } from "./common";
import { arrayOrNull, cutNote, kMostVectors, layerStation, recurrentStations, type Station } from "./flow_layers";
import { vectorsPicture } from "./flow_pictures";
import { probabilities } from "./flow_probabilities";
import { patchesPicture } from "./patches";

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

/** How this model's embeddings know their positions. */
function vectorsText({ run, t }: Context, stack: Attention["stack"]): string {
  const { embedding, positions } = t.flow.vectors;
  const kind = run.arithmetic?.stacks.find((one) => one.name === stack)?.positions ?? "none";
  return `${embedding} ${positions[kind]}`;
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

