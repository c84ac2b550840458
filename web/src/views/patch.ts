import type { Context, View } from "../context";
import { controls, select } from "../controls";
import type { PatchMap, PatchResult, ToolRequest } from "../data/tools";
import type { Run } from "../data/types";
import { labels, visible, type Label } from "../data/words";
import { el } from "../dom";
import type { Picture } from "../draw/picture";
import { signedColour } from "../draw/theme";
import { goalControls, goalRequest } from "./attribute";
import { cellMap } from "./cell_map";
import { note, percent, section, signed } from "./common";
import { pointName } from "./points";
import { textField, useTool } from "./tool";

/** Copies activations of another text's run into this run, and shows which of them change the prediction. */
export async function patchView(context: Context): Promise<View> {
  const { source, model, state, t, update } = context;
  if (!source.has("tools")) return { element: note(t.missing("tools")), pictures: [], data: () => null };
  const isImage = model.kind === "image";
  const other: Partial<ToolRequest> = isImage ? { otherPicture: state.otherPicture } : { other: state.other };
  const bar = controls(
    isImage
      ? pictureField(context)
      : textField("other", t.tools.otherText, state.other, t.tools.otherHint, (text) => update({ other: text })),
    ...goalControls(context, {
      wanted: t.tools.wantedOther,
      contrast: state.wanted ? t.tools.contrastHint : t.tools.contrastOwn,
    }),
    select(
      "patch-kind",
      t.show,
      [
        { value: "", text: t.tools.allKinds },
        ...(["residual", "attention", "feed_forward", "head"] as const).map((kind) => ({ value: kind, text: t.tools.kinds[kind] })),
      ],
      state.show,
      (show) => update({ show }),
    ),
  );
  const images = isImage ? await bothPictures(context) : null;
  const texts = isImage ? t.tools.patchPictures : t.tools.patchTexts;
  const nothing = { lead: texts.lead, pictures: [], data: () => null };
  if (!other.other && !other.otherPicture) return { element: el("div", {}, bar, note(texts.start), images), ...nothing };
  const kinds = state.show in t.tools.kinds ? { kinds: [state.show, ...(state.show === "attention" ? ["cross"] : [])] } : {};
  const soFar = new Maps(context, "patch-so-far");
  const tool = useTool(
    context,
    "patch",
    { ...other, ...goalRequest(context), ...kinds },
    {
      waits: true,
      explanation: t.tools.patchExplain,
      partial: (part) => soFar.show(part),
    },
  );
  if (!tool.result)
    return { element: el("div", {}, bar, tool.pending, soFar.element, note(texts.help), images), ...nothing, close: tool.close };
  const found = tool.result;
  const maps = new Maps(context, "patch-maps");
  maps.show(found);
  const element = el(
    "div",
    {},
    bar,
    el(
      "p",
      { class: "lead", attributes: { id: "patch-goal" } },
      texts.goal(
        visible(found.goal.wanted.text),
        found.goal.contrast ? visible(found.goal.contrast.text) : null,
        found.value,
        found.otherValue,
      ),
    ),
    images,
    maps.element,
    note(texts.help),
  );
  return { ...nothing, element, pictures: maps.pictures, data: () => found };
}

/** The maps of a result, each with its title. While the tool works, maps are added and filled. */
class Maps {
  readonly element: HTMLElement;
  readonly pictures: Picture[] = [];
  private found!: PatchResult;

  constructor(
    private readonly context: Context,
    id: string,
  ) {
    this.element = el("div", { attributes: { id } });
  }

  show(found: PatchResult): void {
    this.found = found;
    const begun = found.maps.filter((map) => map.shares.length > 0); // in the order of the maps
    for (let i = this.pictures.length; i < begun.length; ++i) this.add(i);
    this.pictures.forEach((picture) => picture.redraw());
  }

  private add(index: number): void {
    const { t } = this.context;
    const map = this.found.maps[index]!;
    const several = new Set(this.found.maps.map((one) => one.stack)).size > 1;
    const kind = t.tools.kinds[map.kind];
    const picture = mapPicture(this.context, () => this.found, index);
    this.pictures.push(picture);
    this.element.append(section(several ? `${t.stack(map.stack as "encoder")} · ${kind}` : kind, picture.element));
  }
}

/** Chooses the other image of an image model. */
function pictureField({ source, t, update, fail }: Context): HTMLElement {
  const choice = el("input", {
    class: "unseen",
    attributes: { id: "other-picture", type: "file", accept: "image/png,image/jpeg" },
    on: {
      change: () => {
        const file = choice.files?.[0];
        if (file) source.upload(file, file.name).then((otherPicture) => update({ otherPicture }), fail);
      },
    },
  });
  return el("label", { class: "choose" }, t.tools.chooseOther, choice);
}

/** Both images as the model reads them, with their predictions. */
async function bothPictures({ source, model, run, state, t }: Context): Promise<HTMLElement> {
  const other = state.otherPicture ? await source.run({ model: model.id, picture: state.otherPicture }) : null;
  const shown = (one: Run, title: string) => {
    const { text, picture } = one.sides[0]!;
    const best = one.output.kind === "labels" ? one.output.items.slice(0, 3) : [];
    return section(
      title,
      el("img", { class: "patched", attributes: { src: picture!.data, alt: text } }),
      note([text, ...best.map(({ label, p }) => `${label} ${percent(p)}`)].join(" · ")),
    );
  };
  return el("div", { class: "columns" }, shown(run, t.tools.thisPicture), other && shown(other, t.tools.otherPicture));
}

/** The column of a place: its token, and the other text's token if it differs. */
function columnsOf({ t }: Context, found: PatchResult, map: PatchMap): Label[] {
  if (map.kind === "head")
    return Array.from({ length: map.columns }, (_, h) => ({ text: t.head(h), plain: t.head(h), kind: "text", space: false, tokens: [] }));
  const own = labels(found.sides[map.side]!, false);
  const other = labels(found.other[map.side]!, false);
  return own.map((label, i) =>
    other[i] && other[i]!.text !== label.text ? { ...label, text: `${label.text}→${other[i]!.text}` } : label,
  );
}

function mapPicture(context: Context, found: () => PatchResult, index: number): Picture {
  const { t, theme } = context;
  const map = found().maps[index]!;
  const columns = columnsOf(context, found(), map);
  const rows = map.points.map((point) => pointName(t, point));
  const share = (r: number, c: number) => found().maps[index]!.shares[r]?.[c] ?? NaN; // NaN: not computed yet
  const number = (r: number, c: number, digits: number) => (Number.isNaN(share(r, c)) ? "—" : signed(share(r, c), digits));
  return cellMap({
    id: `patch-${index}`,
    title: t.tools.kinds[map.kind],
    label: t.tools.patchLabel(rows.length, columns.length),
    theme,
    rows,
    columns,
    width: columns.length > 24 ? 38 : 46,
    height: 24,
    colour: (r, c) => signedColour(theme, share(r, c) || 0, 1),
    text: (r, c) => (Math.abs(share(r, c)) < 0.005 ? "" : number(r, c, 2)),
    signedScale: 1,
    select: () => undefined,
    speak: (r, c) => `${rows[r]}, ${columns[c]!.plain}: ${number(r, c, 3)}`,
    table: () => ({
      columns: [t.layer, ...columns.map((one) => one.text)],
      rows: rows.map((name, r) => [name, ...columns.map((_, c) => (Number.isNaN(share(r, c)) ? "" : share(r, c)))]),
    }),
    summary: t.asTable,
  });
}
