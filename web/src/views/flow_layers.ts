import type { Context } from "../context";
import type { Grid } from "../data/grid";
import { Unavailable } from "../data/source";
import type { Attention } from "../data/types";
import { labels, type Label } from "../data/words";
import { el } from "../dom";
import type { Picture } from "../draw/picture";
import type { ViewName } from "../state";
import { note } from "./common";
import { kindNames, whenDetected } from "./detect";
import { mapsPicture, vectorsPicture, type FlowHead } from "./flow_pictures";

/** A part of the way: its explanation, its contents, and the view that shows more of it. */
export interface Station {
  id: string;
  title: string;
  text: string;
  content: (HTMLElement | null)[];
  opens?: { view: ViewName; layer?: number };
}

export const kMostVectors = 16;

/** Says that only some of the places are drawn. */
export function cutNote({ t }: Context, shown: number, all: number): HTMLElement | null {
  return shown < all ? note(t.flow.shownOf(shown, all)) : null;
}

/** A recurrent encoder and a decoder that attends to it: the encoder's states, then the decoder's way at the place. */
export async function recurrentStations(
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
export async function arrayOrNull({ source, run }: Context, name: string, rows: [number, number]): Promise<Grid | null> {
  try {
    return await source.array(run.id, name, { rows });
  } catch (error) {
    if (error instanceof Unavailable) return null;
    throw error;
  }
}

/** A layer: the maps of its heads, its neurons and its result at the place. */
export async function layerStation(
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
