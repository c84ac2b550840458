import type { View } from "./context";
import type { Info, Model, Run } from "./data/types";
import { el } from "./dom";
import { save, toJson, toPng, toSvg, type Heading } from "./draw/export";
import type { Theme } from "./draw/theme";
import type { Messages } from "./i18n";
import { formatState, type State } from "./state";

export interface Exported {
  view: View;
  state: State;
  info: Info;
  model: Model;
  run: Run;
  t: Messages;
  theme: Theme;
}

/** The buttons that save a view as SVG, PNG or JSON. Each file names its model, text and selection. */
export function exportButtons(exported: Exported, fail: (error: unknown) => void): HTMLElement {
  const { view, t, theme } = exported;
  const file = fileName(exported);
  const heading = () => headingOf(exported);
  const actions: [string, () => Promise<void> | void][] = [
    ["SVG", () => save(`${file}.svg`, new Blob([toSvg(view.pictures, heading(), theme)], { type: "image/svg+xml" }))],
    ["PNG", async () => save(`${file}.png`, await toPng(view.pictures, heading(), theme))],
    ["JSON", () => save(`${file}.json`, new Blob([toJson(documentOf(exported))], { type: "application/json" }))],
  ];
  const buttons = actions.map(([kind, act]) =>
    el(
      "button",
      {
        attributes: {
          id: `save-${kind.toLowerCase()}`,
          type: "button",
          disabled: kind !== "JSON" && view.pictures.length === 0,
        },
        on: { click: () => void Promise.resolve(act()).catch(fail) },
      },
      kind,
    ),
  );
  return el(
    "div",
    { class: "exports", attributes: { role: "group", "aria-label": t.save } },
    el("span", {}, t.save),
    ...buttons,
  );
}

/** Such as "attend-matrix-date-model-decoder-1-cross-head-2". */
function fileName({ state, model, view }: Exported): string {
  const parts = ["attend", state.view, model.name, ...(view.caption?.() ?? [])];
  return parts
    .map((part) => part.toLowerCase().replace(/[^\p{L}\p{N}.]+/gu, "-"))
    .map((part) => part.replace(/^-+|-+$/g, ""))
    .filter(Boolean)
    .join("-")
    .slice(0, 120);
}

function headingOf({ view, state, model, run, t }: Exported): Heading {
  return {
    title: [t.views[state.view].name, model.name, ...(view.caption?.() ?? [])].join(" · "),
    lines: run.sides.map((side) => t.named(t.side(side.name), side.text)),
    legend: view.legend?.() ?? [],
  };
}

/** The exported JSON: the model, the texts and the selection, then the view's own numbers. */
function documentOf({ view, state, info, model, run, t }: Exported): unknown {
  return {
    format: "attend-view",
    version: info.version,
    view: state.view,
    address: formatState(state),
    model: { name: model.name, architecture: model.architecture },
    texts: run.sides.map((side) => ({ name: side.name, text: side.text })),
    caption: view.caption?.().join(" · ") ?? t.views[state.view].name,
    ...view.more?.(),
    data: view.data(),
  };
}
