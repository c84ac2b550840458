import { announce } from "../a11y/announce";
import { clamp, type Context, type View } from "../context";
import { controls, select } from "../controls";
import type { Grid } from "../data/grid";
import type { Detection } from "../data/tools";
import type { Attention, HeadSummary } from "../data/types";
import { el } from "../dom";
import { Picture } from "../draw/picture";
import { drawLegend } from "../draw/heatmap";
import { fitted, type Pen } from "../draw/pen";
import { headColour, weightColour } from "../draw/theme";
import { note } from "./common";
import { kindNames, whenDetected } from "./detect";
import { pairFilter, pairSelect } from "./sentences";

const kThumbnail = 48; // maximum cells per side
const kGap = 14;

interface Place {
  attention: Attention;
  head: number;
  row: number;
}

/** A thumbnail of every head in every layer. A click opens the head in another view. */
export async function modelView(context: Context): Promise<View> {
  const { source, run, t, theme, update, selection } = context;
  const [thumbnails, summaries] = await Promise.all([
    Promise.all(run.attention.map((one) => source.array(run.id, `thumbnails/${kThumbnail}/${one.index}`))),
    source.heads(run.id),
  ]);
  const summary = new Map(summaries.map((one) => [`${one.attention}/${one.head}`, one]));
  let detection: Detection | null = null;
  const kindsOf = (place: Place) => kindNames(context, detection, place.attention.index, place.head);
  const most = Math.max(...run.attention.map((one) => one.heads));
  const places: Place[] = run.attention.flatMap((attention, row) =>
    Array.from({ length: attention.heads }, (_, head) => ({ attention, head, row })),
  );
  let focus = clamp(
    places.findIndex((p) => p.attention === selection.attention && p.head === selection.head),
    places.length,
  );
  let showFocus = false;
  let [side, left] = [0, 0];

  const measure = (available: number) => {
    left = available < 560 ? 0 : 150;
    const perRow = available < 560 ? Math.min(most, 4) : most;
    side = Math.max(40, Math.min(148, Math.floor((available - left) / perRow) - kGap));
    return perRow;
  };
  /** The corners of all thumbnails. On a narrow page the heads of a layer wrap, with the layer's name above them. */
  const corners = (available: number) => {
    const perRow = measure(available);
    const above = left === 0 ? 26 : 6;
    const rowTops: number[] = [];
    let top = 8;
    const line = (attention: Attention) => mapSize(attention, side)[1] + 34;
    for (const attention of run.attention) {
      rowTops.push(top);
      top += above + Math.ceil(attention.heads / perRow) * line(attention) + 6;
    }
    const corner = (place: Place): [number, number] => [
      left + (place.head % perRow) * (side + kGap),
      rowTops[place.row]! + above + Math.floor(place.head / perRow) * line(place.attention),
    ];
    return { corner, rowTops, height: top, width: left + perRow * (side + kGap) };
  };
  const find = (x: number, y: number) => {
    const { corner } = corners(picture.element.clientWidth);
    return places.findIndex((place) => {
      const [cx, cy] = corner(place);
      return x >= cx - 4 && x <= cx + side + 4 && y >= cy - 4 && y <= cy + mapSize(place.attention, side)[1] + 18;
    });
  };
  const speak = () => announce([describe(context, places[focus]!, summary), ...kindsOf(places[focus]!)].join(", "));
  const open = (index: number, view: "heads" | "matrix") =>
    update({ view, layer: places[index]!.attention.index, head: places[index]!.head, heads: [] });

  const picture = new Picture({
    id: "model-picture",
    title: t.views.model.name,
    label: t.modelLabel(run.attention.length, places.length),
    size: (available) => ({ width: Math.min(available, corners(available).width), height: corners(available).height + 34 }),
    draw: (pen) => {
      const { corner, rowTops, height } = corners(picture.element.clientWidth);
      drawLegend(pen, left, height + 4, theme);
      run.attention.forEach((one, row) =>
        pen.text(
          fitted(t.attentionFull(one), left === 0 ? 320 : 140, { size: 13 }),
          0,
          rowTops[row]! + (left === 0 ? 18 : 10 + mapSize(one, side)[1] / 2),
          { colour: theme.ink, size: 13 },
        ),
      );
      places.forEach((place, i) =>
        drawThumbnail(
          pen,
          context,
          thumbnails[place.row]!,
          place,
          corner(place),
          side,
          showFocus && i === focus,
          summary,
          kindsOf(place)[0],
        ),
      );
    },
    hover: (x, y) => {
      const found = find(x, y);
      picture.canvas.style.cursor = found >= 0 ? "pointer" : "";
      showFocus = found >= 0;
      if (found >= 0) focus = found;
      picture.redraw();
    },
    leave: () => {
      showFocus = false;
      picture.redraw();
    },
    press: (x, y) => {
      const found = find(x, y);
      if (found >= 0) open(found, "heads");
    },
    key: (event) => {
      const here = places[focus]!;
      const upDown = (by: number) => {
        const row = clamp(here.row + by, run.attention.length);
        return places.findIndex((p) => p.row === row && p.head === clamp(here.head, run.attention[row]!.heads));
      };
      const moves: Record<string, () => number> = {
        ArrowRight: () => clamp(focus + 1, places.length),
        ArrowLeft: () => clamp(focus - 1, places.length),
        ArrowDown: () => upDown(1),
        ArrowUp: () => upDown(-1),
        Home: () => 0,
        End: () => places.length - 1,
      };
      if (event.key === "Enter" || event.key === "m") open(focus, event.key === "Enter" ? "heads" : "matrix");
      else if (moves[event.key]) focus = moves[event.key]!();
      else return false;
      showFocus = true;
      picture.redraw();
      speak();
      return true;
    },
    table: () => ({
      columns: [t.layer, t.headLabel, t.entropy, t.distance, t.peak, t.tools.kind],
      rows: places.map((place) => {
        const one = summary.get(`${place.attention.index}/${place.head}`);
        return [
          t.attentionFull(place.attention),
          t.head(place.head),
          one?.entropy ?? NaN,
          one?.distance ?? NaN,
          one?.peak ?? NaN,
          kindsOf(place).join(", "),
        ];
      }),
    }),
    summary: t.asTable,
  });
  whenDetected(context, (found) => {
    detection = found;
    picture.redraw();
  });
  const jump = select(
    "open",
    t.openHead,
    [
      { value: "", text: "—" },
      ...places.map((p, i) => ({ value: String(i), text: t.head(p.head), group: t.attentionFull(p.attention) })),
    ],
    "",
    (value) => value !== "" && open(Number(value), "heads"),
  );
  const element = el("div", {}, controls(jump, pairSelect(context)), picture.element, note(t.modelHelp));
  return {
    ...{ element, pictures: [picture], data: () => ({ heads: summaries }) },
    legend: () => Array.from({ length: most }, (_, head): [string, string] => [t.head(head), headColour(theme, head)]),
  };
}

/** Width and height of a thumbnail. Cells are square unless the thumbnail would be too small to see. */
function mapSize({ queries, keys }: Attention, side: number): [number, number] {
  return keys >= queries
    ? [side, Math.max(14, (side * queries) / keys)]
    : [Math.max(14, (side * keys) / queries), side];
}

function drawThumbnail(
  pen: Pen,
  context: Context,
  block: Grid,
  place: Place,
  [x, y]: [number, number],
  side: number,
  focused: boolean,
  summary: Map<string, HeadSummary>,
  kind?: string,
): void {
  const { theme, t } = context;
  const map = block.slice(place.head);
  const { queries, keys } = place.attention;
  const allowed = pairFilter(context, place.attention);
  const token = (cell: number, cells: number, tokens: number) => Math.floor((cell * tokens) / cells);
  const weight = (r: number, c: number) =>
    allowed(token(r, map.rows, queries), token(c, map.columns, keys)) ? map.at(r, c) : 0;
  const off = place.attention.off.includes(place.head);
  const [width, height] = mapSize(place.attention, side);
  const box = { x, y, width, height };
  pen.cells(box, map.rows, map.columns, (r, c) => weightColour(theme, weight(r, c)));
  pen.rect(box, { stroke: focused ? theme.accent : theme.faint, width: focused ? 3 : 1 });
  if (off) pen.line([x, y, x + width, y + height], { colour: theme.warm, width: 2 });
  pen.circle(x + 4, y + height + 10, 3.5, { fill: headColour(theme, place.head) });
  const one = summary.get(`${place.attention.index}/${place.head}`);
  const plain = one && side > 60 ? `${place.head}  ${t.peakShort} ${one.peak.toFixed(2)}` : String(place.head);
  const text = kind ? fitted(`${place.head}  ${kind}`, side - 10, { size: 11 }) : plain;
  pen.text(text, x + 11, y + height + 14, { colour: focused || kind ? theme.ink : theme.soft, size: 11 });
}

function describe({ t }: Context, place: Place, summary: Map<string, HeadSummary>): string {
  const one = summary.get(`${place.attention.index}/${place.head}`);
  const numbers = one
    ? `, ${t.entropy} ${one.entropy.toFixed(2)}, ${t.distance} ${one.distance.toFixed(1)}, ${t.peak} ${one.peak.toFixed(2)}`
    : "";
  return `${t.attentionFull(place.attention)}, ${t.head(place.head)}${numbers}`;
}
