import { announcer } from "./a11y/announce";
import { Chrome } from "./chrome";
import type { Context, View } from "./context";
import { Unavailable, type Source } from "./data/source";
import type { Info, Model, Run } from "./data/types";
import { el, replaceChildren } from "./dom";
import { save, toJson, toPng, toSvg } from "./draw/export";
import { themeOf, type Theme } from "./draw/theme";
import { kLanguages, languageFor, type Messages } from "./i18n";
import { requestOf } from "./request";
import { formatState, parseState, type State } from "./state";
import { kMakers } from "./views";

/** Connects address, data and views: when the state changes, fetches the run it names and draws its view. */
export class App {
  private state: State = parseState(location.hash);
  private info: Info | null = null;
  private view: View | null = null;
  private chrome: Chrome | null = null;
  private turn = 0; // number of the latest draw; the result of an older one that finishes late is dropped
  private readonly systemDark = matchMedia("(prefers-color-scheme: dark)");

  constructor(
    private readonly page: HTMLElement,
    private readonly source: Source,
  ) {}

  start(): void {
    window.addEventListener("hashchange", () => this.follow());
    window.addEventListener("popstate", () => this.follow());
    this.systemDark.addEventListener("change", () => void this.draw());
    void this.draw();
  }

  private follow(): void {
    if (formatState(this.state) === formatState(parseState(location.hash))) return;
    this.state = parseState(location.hash);
    void this.draw();
  }

  private update(change: Partial<State>): void {
    const before = this.state.view;
    this.note(change, change.view !== undefined && change.view !== before);
    void this.draw();
  }

  private note(change: Partial<State>, visit = false): void {
    this.state = { ...this.state, ...change };
    const address = formatState(this.state);
    if (visit) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  }

  private async draw(): Promise<void> {
    const turn = ++this.turn;
    this.page.dataset.drawing = String(turn); // the browser tests wait for this
    const t = kLanguages[languageFor(this.state.lang)];
    const theme = this.dress(t);
    try {
      this.info ??= await this.source.info();
      const model = this.info.models.find((one) => one.id === this.state.model) ?? this.info.models[0]!;
      if (turn !== this.turn) return;
      const chrome = (this.chrome ??= this.furnish());
      chrome.show({ info: this.info, model, state: this.state, t, source: this.source });
      const request = requestOf(this.state, model);
      if (!request) return this.clear(t);
      const busy = setTimeout(() => chrome.busy(t.busy), 150);
      try {
        const run = await this.source.run(request);
        const asked = formatState(this.state);
        const view = await kMakers[this.state.view](this.context(run, model, t, theme));
        if (turn !== this.turn) return view.close?.();
        if (formatState(this.state) !== asked) {
          view.close?.(); // the old view, still on screen, has changed the state in the meantime
          return void this.draw();
        }
        this.swap(view, run, t, theme);
      } finally {
        clearTimeout(busy);
        if (turn === this.turn) chrome.busy("");
      }
    } catch (error) {
      if (turn === this.turn) this.fail(error);
    } finally {
      if (turn === this.turn) delete this.page.dataset.drawing;
    }
  }

  private context(run: Run, model: Model, t: Messages, theme: Theme): Context {
    return {
      source: this.source,
      info: this.info!,
      model,
      run,
      t,
      theme,
      state: { ...this.state },
      update: (change) => this.update(change),
      note: (change) => this.note(change),
      fail: (error) => this.fail(error),
    };
  }

  /** Replaces the old view by the new one, and restores the focus. */
  private swap(view: View, run: Run, t: Messages, theme: Theme): void {
    const focused = document.activeElement?.id;
    this.view?.close?.();
    this.view = view;
    const { name, text } = t.views[this.state.view];
    const title = el("h2", { attributes: { id: "view-title", tabindex: -1 } }, name);
    this.chrome!.settle(run, t);
    replaceChildren(
      this.chrome!.main,
      title,
      el("p", { class: "lead" }, text),
      view.element,
      this.exports(view, name, t, theme),
    );
    this.chrome!.main.dataset.view = this.state.view;
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }

  private exports(view: View, name: string, t: Messages, theme: Theme): HTMLElement {
    const file = `attend-${this.state.view}`;
    const actions: [string, () => Promise<void> | void][] = [
      ["SVG", () => save(`${file}.svg`, new Blob([toSvg(view.pictures, name, theme)], { type: "image/svg+xml" }))],
      ["PNG", async () => save(`${file}.png`, await toPng(view.pictures, theme))],
      ["JSON", () => save(`${file}.json`, new Blob([toJson(view.data())], { type: "application/json" }))],
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
          on: { click: () => void Promise.resolve(act()).catch((error: unknown) => this.fail(error)) },
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

  private furnish(): Chrome {
    const chrome = new Chrome(
      (change) => this.update(change),
      (error) => this.fail(error),
    );
    replaceChildren(this.page, chrome.element, announcer());
    return chrome;
  }

  /** Sets the language and colours of the document. */
  private dress(t: Messages): Theme {
    const dark = this.state.theme === "dark" || (this.state.theme === "" && this.systemDark.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    document.documentElement.lang = t === kLanguages.zh ? "zh-Hans" : "en";
    return themeOf(dark);
  }

  /** Shows only the view's name, if there is nothing to draw or drawing failed. */
  private clear(t: Messages): void {
    this.view?.close?.();
    this.view = null;
    const { name, text } = t.views[this.state.view];
    const title = el("h2", { attributes: { id: "view-title" } }, name);
    replaceChildren(this.chrome!.main, title, el("p", { class: "lead" }, text));
    this.chrome!.main.dataset.view = this.state.view;
  }

  private fail(error: unknown): void {
    const t = kLanguages[languageFor(this.state.lang)];
    const text =
      error instanceof Unavailable
        ? t.missing(error.feature)
        : error instanceof RangeError
          ? t.tooLong
          : error instanceof Error
            ? error.message
            : String(error);
    if (this.chrome) {
      this.chrome.error(text);
      if (this.chrome.main.dataset.view !== this.state.view) this.clear(t);
    } else replaceChildren(this.page, el("p", { class: "error", attributes: { role: "alert" } }, text));
  }
}
