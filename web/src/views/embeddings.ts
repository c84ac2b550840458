import { select as selection } from "d3-selection";
import { zoom, zoomIdentity, type ZoomTransform } from "d3-zoom";
import { announce } from "../a11y/announce";
import type { Context, View } from "../context";
import { button, controls, select } from "../controls";
import type { Embeddings, Neighbour } from "../data/types";
import { visible } from "../data/words";
import { el, languageOf, replaceChildren } from "../dom";
import { Picture } from "../draw/picture";
import { textWidth, type Pen } from "../draw/pen";
import type { Theme } from "../draw/theme";
import { zoomFilter } from "../draw/zoom";
import { note, section } from "./common";

const kMargin = 30;
const kAllPoints = 20_000; // the server projects at most this many

/** Tokens or positions on a plane, by their two principal components. */
export async function embeddingsView(context: Context): Promise<View> {
  const { source, model, run, state, t, theme, update } = context;
  const kind = model.kind === "image" ? "positions" : state.kind; // an image model has no tokens
  const found = await source.embeddings(model.id, kind, state.points);
  const points = [...found.points];
  const extra = async (id: number): Promise<number> => {
    const known = points.findIndex((point) => point.id === id);
    if (known >= 0 || kind === "positions" || !source.has("neighbours")) return known;
    const more = (await source.embeddings(model.id, kind, state.points, id)).points;
    return points.push(more[more.length - 1]!) - 1;
  };
  const bounds = extentOf(found);
  let transform: ZoomTransform = zoomIdentity;
  let chosen = state.token >= 0 ? await extra(Math.min(state.token, model.vocab_size - 1)).catch(() => -1) : -1;
  let matches = new Set<number>();
  let size = { width: 0, height: 0 };
  const neighbours = el("div", { class: "columns", attributes: { id: "neighbours" } });

  const place = (index: number): [number, number] => {
    const point = points[index]!;
    const scale = Math.min((size.width - 2 * kMargin) / bounds.width, (size.height - 2 * kMargin) / bounds.height);
    return [
      transform.applyX(size.width / 2 + (point.x - bounds.x) * scale),
      transform.applyY(size.height / 2 - (point.y - bounds.y) * scale),
    ];
  };
  const choose = async (index: number) => {
    chosen = index;
    picture.redraw();
    context.note({ token: points[index]!.id });
    announce(points[index]!.text);
    if (kind === "positions") return;
    if (!source.has("neighbours")) return replaceChildren(neighbours, note(t.missing("neighbours")));
    const near = await source.neighbours(model.id, points[index]!.id, 12);
    if (chosen === index)
      replaceChildren(
        neighbours,
        section(t.nearestDot(near.token.text), list(near.dot)),
        section(t.nearestCosine(near.token.text), list(near.cosine)),
      );
  };
  const visit = async (id: number) => {
    const index = await extra(id);
    if (index >= 0) await choose(index);
  };
  const list = (items: Neighbour[]) =>
    el(
      "ol",
      { class: "neighbours" },
      ...items.map((item) =>
        el(
          "li",
          {},
          el(
            "button",
            {
              class: "word",
              attributes: { type: "button", lang: languageOf(item.text) },
              on: {
                click: () => void visit(item.id).catch(context.fail),
              },
            },
            visible(item.text) || "∅",
          ),
          el("span", { class: "number" }, item.value.toFixed(3)),
        ),
      ),
    );
  const nearest = (x: number, y: number, allowed: (dx: number, dy: number) => boolean, within: number) => {
    let [best, closest] = [-1, within];
    points.forEach((_, i) => {
      const [px, py] = place(i);
      const distance = Math.hypot(px - x, py - y);
      if (distance < closest && i !== -1 && allowed(px - x, py - y)) [best, closest] = [i, distance];
    });
    return best;
  };
  const behaviour = zoom<HTMLCanvasElement, unknown>()
    .filter(zoomFilter(() => transform.k !== 1))
    .scaleExtent([0.8, 60])
    .on("zoom", (event: { transform: ZoomTransform }) => {
      transform = event.transform;
      picture.canvas.classList.toggle("zoomed", transform.k !== 1); // before that, a finger scrolls the page
      picture.redraw();
    });
  const picture: Picture = new Picture({
    id: "embeddings-picture",
    title: t.views.embeddings.name,
    label: t.embeddingsLabel(points.length),
    size: (available) => (size = { width: available, height: Math.max(320, Math.min(620, available * 0.7)) }),
    draw: (pen) => drawPoints(pen, points, place, size, theme, chosen, matches),
    press: (x, y) => {
      const index = nearest(x, y, () => true, 24);
      if (index >= 0) void choose(index).catch(context.fail);
    },
    key: (event) => {
      const directions: Record<string, (dx: number, dy: number) => boolean> = {
        ArrowRight: (dx, dy) => dx > Math.abs(dy),
        ArrowLeft: (dx, dy) => -dx > Math.abs(dy),
        ArrowDown: (dx, dy) => dy > Math.abs(dx),
        ArrowUp: (dx, dy) => -dy > Math.abs(dx),
      };
      const canvas = selection(picture.canvas);
      if (event.key === "+" || event.key === "=") behaviour.scaleBy(canvas, 1.5);
      else if (event.key === "-") behaviour.scaleBy(canvas, 1 / 1.5);
      else if (event.key === "0") behaviour.transform(canvas, zoomIdentity);
      else if (directions[event.key]) {
        const [x, y] = chosen >= 0 ? place(chosen) : [size.width / 2, size.height / 2];
        const next = nearest(x, y, directions[event.key]!, Infinity);
        if (next >= 0) void choose(next).catch(context.fail);
      } else return false;
      return true;
    },
    table: () => ({
      columns: [t.token, "x", "y"],
      rows: points.map((point) => [visible(point.text), point.x, point.y]),
    }),
    summary: t.asTable,
  });
  selection(picture.canvas).call(behaviour);

  const sought = el("span", { class: "note", attributes: { id: "sought", role: "status" } });
  let searches = 0;
  const find = async () => {
    const wanted = search.value.trim().toLowerCase();
    const turn = ++searches;
    const containing = () => points.flatMap((point, i) => (point.text.toLowerCase().includes(wanted) ? [i] : []));
    matches = new Set(wanted ? containing() : []);
    sought.textContent = "";
    if (wanted && kind === "tokens" && source.has("neighbours") && (found.total ?? 0) > found.points.length) {
      for (const item of await source.tokens(model.id, wanted)) await extra(item.id); // also beyond the plane's tokens
      if (turn !== searches) return;
      matches = new Set(containing());
    }
    if (wanted && matches.size === 0) sought.textContent = t.notFound(search.value.trim());
    const exact =
      [...matches].find((i) => points[i]!.text.toLowerCase() === wanted) ??
      (matches.size === 1 ? [...matches][0] : undefined);
    if (exact !== undefined) await choose(exact);
    picture.redraw();
  };
  const search = el("input", {
    attributes: { id: "search", type: "search", placeholder: t.searchHint, autocomplete: "off" },
    on: { input: () => void find().catch(context.fail) },
  });
  const places = run.arithmetic?.stacks.some((stack) => ["learned", "sinusoidal"].includes(stack.positions)) ?? true;
  const kinds = [
    { value: "tokens", text: t.tokens },
    ...(places ? [{ value: "positions", text: t.positions }] : []),
  ];
  const total = found.total ?? found.points.length;
  const counts = [2000, Math.min(total, kAllPoints)].map((count) => ({
    value: String(count),
    text: count === total ? t.allTokens(count) : count.toLocaleString("en"),
  }));
  const canvas = () => selection(picture.canvas);
  const bar = controls(
    source.kind === "server" &&
      model.kind !== "image" &&
      kinds.length > 1 &&
      select("kind", t.show, kinds, state.kind, (kind) => update({ kind: kind as "tokens" | "positions", token: -1 })),
    source.kind === "server" &&
      kind === "tokens" &&
      total > 2000 &&
      select("points", t.tokens, counts, String(state.points), (value) => update({ points: Number(value) })),
    el("label", { class: "control" }, el("span", {}, t.search), search),
    sought,
    el(
      "div",
      { class: "control", attributes: { role: "group", "aria-label": t.zoom } },
      el("span", {}, t.zoom),
      el(
        "div",
        { class: "chips" },
        button("zoom-in", "+", () => behaviour.scaleBy(canvas(), 1.6), "chip"),
        button("zoom-out", "−", () => behaviour.scaleBy(canvas(), 1 / 1.6), "chip"),
        button("zoom-all", t.all, () => behaviour.transform(canvas(), zoomIdentity), "chip wide"),
      ),
    ),
  );
  if (chosen >= 0) void choose(chosen).catch(context.fail);
  const explained = t.explained(found.explained[0] ?? 0, found.explained[1] ?? 0);
  const cut = kind === "tokens" && total > found.points.length ? note(t.shownOf(found.points.length, total)) : null;
  const lead = model.kind === "image" ? t.picturePositionsLead : kind === "positions" ? t.positionsLead : undefined;
  return {
    element: el("div", {}, bar, picture.element, note(explained), cut, neighbours, note(t.embeddingsHelp)),
    pictures: [picture],
    data: () => ({ ...found, points }),
    lead,
  };
}

function extentOf({ points }: Embeddings): { x: number; y: number; width: number; height: number } {
  const range = (values: number[]) => {
    const [least, most] = [Math.min(...values), Math.max(...values)];
    return { middle: (least + most) / 2, size: most - least || 1 };
  };
  const [x, y] = [range(points.map((p) => p.x)), range(points.map((p) => p.y))];
  return { x: x.middle, y: y.middle, width: x.size, height: y.size };
}

/** Draws all points. Names are drawn where they do not overlap, search results first. */
function drawPoints(
  pen: Pen,
  points: Embeddings["points"],
  place: (index: number) => [number, number],
  size: { width: number; height: number },
  theme: Theme,
  chosen: number,
  matches: Set<number>,
): void {
  const taken = new Set<number>();
  const columns = Math.ceil(size.width / 8) + 4;
  const free = (x: number, y: number, width: number) => {
    const cells: number[] = [];
    for (let cy = Math.floor((y - 12) / 8); cy <= Math.floor((y + 4) / 8); ++cy)
      for (let cx = Math.floor(x / 8); cx <= Math.floor((x + width) / 8); ++cx) cells.push(cy * columns + cx);
    if (cells.some((cell) => taken.has(cell))) return false;
    cells.forEach((cell) => taken.add(cell));
    return true;
  };
  const order = points.map((_, i) => i).sort((a, b) => rank(b) - rank(a) || a - b);
  function rank(i: number): number {
    return i === chosen ? 2 : matches.has(i) ? 1 : 0;
  }
  pen.clip({ x: 0, y: 0, width: size.width, height: size.height }, () => {
    for (const i of order) {
      const [x, y] = place(i);
      if (x < -20 || y < -20 || x > size.width + 20 || y > size.height + 20) continue;
      const special = rank(i);
      pen.circle(x, y, special ? 5 : 2.2, {
        fill: special === 2 ? theme.warm : special ? theme.good : theme.accent,
        alpha: special ? 1 : 0.6,
      });
      const text = visible(points[i]!.text) || "∅";
      if (free(x + 5, y, textWidth(text, { size: 12 })))
        pen.text(text, x + 6, y + 4, {
          colour: special ? theme.ink : theme.soft,
          size: special ? 14 : 12,
          weight: special ? 600 : 400,
        });
    }
  });
  pen.rect({ x: 0.5, y: 0.5, width: size.width - 1, height: size.height - 1 }, { stroke: theme.faint, radius: 6 });
}
