import { select } from "./controls";
import type { Source } from "./data/source";
import type { Info, Model, Run } from "./data/types";
import { el, replaceChildren } from "./dom";
import type { Messages } from "./i18n";
import { Inputs } from "./inputs";
import { formatState, kViews, type State } from "./state";

export interface Furnishing {
  info: Info;
  model: Model;
  state: State;
  t: Messages;
  source: Source;
}

/** Everything around a view: the title, the inputs, the list of views, and a line for errors. */
export class Chrome {
  readonly main = el("main", { attributes: { id: "main", tabindex: -1 } });
  readonly element: HTMLElement;
  private readonly header = el("header", {});
  private readonly inputs: Inputs;
  private readonly nav = el("nav", {});
  private readonly alert = el("p", { class: "error", attributes: { role: "alert", id: "error" } });
  private readonly status = el("p", { class: "status", attributes: { role: "status", id: "status" } });
  private readonly skip = el("a", {
    class: "skip",
    attributes: { href: "#main" },
    on: {
      click: (event) => {
        event.preventDefault(); // the address after '#' is the state
        this.main.focus();
      },
    },
  });
  private shown = "";

  constructor(
    private readonly update: (change: Partial<State>) => void,
    fail: (error: unknown) => void,
  ) {
    this.inputs = new Inputs(update, fail);
    this.alert.hidden = true;
    this.element = el(
      "div",
      { class: "page" },
      this.skip,
      this.header,
      this.inputs.form,
      this.nav,
      this.alert,
      this.status,
      this.main,
    );
  }

  show(now: Furnishing): void {
    const { t, state, model, info } = now;
    this.error("");
    this.skip.textContent = t.skip;
    document.title = `${t.views[state.view].name} · ${model.name} · attend`;
    // Rebuild the controls only if their contents have changed, so that an open list stays open.
    const key = JSON.stringify([
      t.name,
      state.theme,
      model.id,
      info.models.length,
      state.text,
      state.target,
      state.second,
      state.picture,
    ]);
    if (key !== this.shown) {
      this.shown = key;
      const focused = document.activeElement?.id;
      this.drawHeader(now);
      this.inputs.show(now);
      if (focused) document.getElementById(focused)?.focus();
    }
    this.drawNav(now);
  }

  settle(run: Run, t: Messages): void {
    this.inputs.settle(run);
    const tokens = run.sides.reduce((sum, side) => sum + side.tokens.length, 0);
    this.status.textContent = t.timing(run.milliseconds, tokens);
  }

  busy(text: string): void {
    this.main.setAttribute("aria-busy", String(text !== ""));
    if (text) this.status.textContent = text;
  }

  error(text: string): void {
    this.alert.textContent = text;
    this.alert.hidden = text === "";
  }

  private drawHeader({ info, model, state, t, source }: Furnishing): void {
    const models = info.models.map((one) => ({ value: one.id, text: one.name }));
    const compact = (n: number) =>
      n >= 1e6 ? `${+(n / 1e6).toPrecision(3)} M` : n >= 1e3 ? `${+(n / 1e3).toPrecision(3)} k` : String(n);
    const choice =
      info.models.length > 1
        ? select("model", t.model, models, model.id, (id) =>
            this.update({
              model: id,
              text: "",
              target: "",
              second: "",
              picture: "",
              layer: -1,
              head: 0,
              heads: [],
              query: 0,
              key: 0,
              off: "",
              held: "",
              zoom: "",
              token: -1,
              align: "all",
            }),
          )
        : el("span", { class: "model" }, model.name);
    const facts = el(
      "span",
      { class: "facts" },
      model.kind === "image"
        ? t.factsOfPictures(compact(model.parameters), model.context - 1, model.architecture)
        : t.facts(compact(model.parameters), compact(model.vocab_size), model.architecture),
    );
    const language = el(
      "button",
      {
        attributes: {
          id: "language",
          type: "button",
          lang: t.name === "English" ? "zh-Hans" : "en",
          "aria-label": t.name === "English" ? "中文" : "English",
        },
        on: { click: () => this.update({ lang: t.name === "English" ? "zh" : "en" }) },
      },
      t.name === "English" ? "中文" : "English",
    );
    const themes = Object.entries(t.themes).map(([value, text]) => ({ value, text }));
    const colours = select("theme", t.theme, themes, state.theme, (theme) =>
      this.update({ theme: theme as State["theme"] }),
    );
    replaceChildren(
      this.header,
      el("h1", {}, "attend"),
      choice,
      facts,
      el("span", { class: "grow" }),
      colours,
      language,
      source.kind === "file" ? el("p", { class: "note" }, t.fileNote) : null,
    );
  }

  private drawNav({ state, t }: Furnishing): void {
    this.nav.setAttribute("aria-label", t.viewsLabel);
    replaceChildren(
      this.nav,
      ...kViews.map((view) =>
        el(
          "a",
          {
            attributes: {
              href: formatState({ ...state, view }),
              id: `view-${view}`,
              ...(view === state.view ? { "aria-current": "page" } : {}),
            },
            on: {
              click: (event) => {
                if (event.metaKey || event.ctrlKey || event.shiftKey) return;
                event.preventDefault();
                this.update({ view });
              },
            },
          },
          t.views[view].name,
        ),
      ),
    );
    const current = this.nav.querySelector<HTMLElement>("[aria-current]")!;
    this.nav.scrollLeft = Math.max(
      0,
      current.offsetLeft - this.nav.offsetLeft - (this.nav.clientWidth - current.clientWidth) / 2,
    );
  }
}
