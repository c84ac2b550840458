import { select } from "./controls";
import type { Source } from "./data/source";
import type { Info, Model, Run } from "./data/types";
import { el, keepingFocus, replaceChildren } from "./dom";
import type { Messages } from "./i18n";
import { Inputs } from "./inputs";
import { formatState, kUnselected, type State, type ViewName } from "./state";
import { offeredViews } from "./views/offered";

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
  /** Shown only on a phone, where the inputs are folded away. */
  private readonly summary = el("summary", { attributes: { id: "inputs-summary" } });
  private readonly folded: HTMLDetailsElement;
  private readonly forward = el(
    "button",
    {
      class: "forward",
      attributes: { type: "button", tabindex: -1, "aria-hidden": "true" },
      on: { click: () => this.nav.scrollBy({ left: this.nav.clientWidth * 0.7, behavior: "smooth" }) },
    },
    "›",
  );
  private shown = "";
  private offered = ""; // the views of the menu

  constructor(
    private readonly update: (change: Partial<State>) => void,
    fail: (error: unknown) => void,
  ) {
    this.inputs = new Inputs(update, fail);
    this.alert.hidden = true;
    this.folded = el("details", { class: "folded" }, this.summary, this.inputs.form);
    const narrow = matchMedia("(max-width: 640px)");
    const fold = () => (this.folded.open = !narrow.matches);
    narrow.addEventListener("change", fold);
    fold();
    this.nav.addEventListener("scroll", () => this.markMore());
    new ResizeObserver(() => this.markMore()).observe(this.nav);
    this.element = el(
      "div",
      { class: "page" },
      this.skip,
      this.header,
      this.folded,
      el("div", { class: "views" }, this.nav, this.forward),
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
      state.ids,
      state.picture,
      state.beam,
    ]);
    if (key !== this.shown) {
      this.shown = key;
      keepingFocus(() => {
        this.drawHeader(now);
        this.inputs.show(now);
      });
    }
    this.folded.hidden = state.view === "chat"; // it has its own
    if (state.view === "chat") this.status.textContent = "";
    this.drawNav(now);
  }

  settle(run: Run, t: Messages): void {
    if (run.id === "") return;
    this.inputs.settle(run);
    this.summary.textContent = run.sides.map((side) => t.named(t.side(side.name), side.text)).join(" → ");
    const tokens = run.sides.reduce((sum, side) => sum + side.tokens.length, 0);
    this.status.textContent = t.timing(run.milliseconds, tokens);
  }

  /** Marks whether views lie beyond the right edge of the menu. */
  private markMore(): void {
    const { scrollLeft, clientWidth, scrollWidth } = this.nav;
    this.nav.classList.toggle("more", scrollLeft + clientWidth < scrollWidth - 8);
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
            this.update({ ...kUnselected, model: id }),
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

  /** The links stay the same elements, so that the focus stays on them. */
  private drawNav({ state, t, model, source }: Furnishing): void {
    this.nav.setAttribute("aria-label", t.viewsLabel);
    const offered = offeredViews(model, source);
    if (offered.join() !== this.offered) {
      this.offered = offered.join();
      replaceChildren(this.nav, ...offered.map((view) => this.link(view)));
    }
    for (const view of offered) {
      const link = this.nav.querySelector<HTMLAnchorElement>(`#view-${view}`)!;
      link.href = formatState({ ...state, view });
      if (link.textContent !== t.views[view].name) link.textContent = t.views[view].name;
      if (view === state.view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const current = this.nav.querySelector<HTMLElement>("[aria-current]")!;
    this.nav.scrollLeft = Math.max(
      0,
      current.offsetLeft - this.nav.offsetLeft - (this.nav.clientWidth - current.clientWidth) / 2,
    );
    this.markMore();
  }

  private link(view: ViewName): HTMLAnchorElement {
    return el("a", {
      attributes: { id: `view-${view}` },
      on: {
        click: (event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey) return;
          event.preventDefault();
          this.update({ view });
        },
      },
    });
  }
}
