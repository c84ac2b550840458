import { announcer } from "./a11y/announce";
import { Chrome } from "./chrome";
import { attentionOf, type Context, type View } from "./context";
import { SourceError, Unavailable, Unreachable, type Source } from "./data/source";
import type { Info, Model, Run, RunRequest } from "./data/types";
import { el, keepingFocus, replaceChildren } from "./dom";
import { themeOf, type Theme } from "./draw/theme";
import { exportButtons } from "./exports";
import { kLanguages, languageFor, type Messages } from "./i18n";
import { requestOf } from "./request";
import { selectionOf, type Selection } from "./selection";
import { formatState, kVisits, parseState, type State } from "./state";
import { kMakers } from "./views";
import { kWithoutRun, offeredViews } from "./views/offered";

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
    this.source.changed = () => {
      if (!this.view?.follows?.()) void this.draw();
    };
    this.systemDark.addEventListener("change", () => void this.draw());
    void this.draw();
  }

  private follow(): void {
    if (formatState(this.state) === formatState(parseState(location.hash))) return;
    this.state = parseState(location.hash);
    void this.draw();
  }

  private update(change: Partial<State>): void {
    const visit = kVisits.some((key) => change[key] !== undefined && change[key] !== this.state[key]);
    this.note(change, visit);
    void this.draw();
  }

  private note(change: Partial<State>, visit = false): void {
    this.state = { ...this.state, ...change };
    const address = formatState(this.state);
    try {
      if (visit) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    } catch {
      // A frame without an address of its own (srcdoc, as in a notebook) keeps the state only in memory.
    }
  }

  private async draw(): Promise<void> {
    const turn = ++this.turn;
    this.page.dataset.drawing = String(turn); // the browser tests wait for this
    const t = kLanguages[languageFor(this.state.lang)];
    const theme = this.dress(t);
    try {
      this.info ??= await this.source.info();
      if (turn !== this.turn) return;
      const model = this.mendModel(this.info);
      const request = requestOf(this.state, model);
      const running = request && this.runOf(request); // first: a long text takes 100 ms to lay out
      running?.catch(() => undefined); // reported where it is awaited
      const chrome = (this.chrome ??= this.furnish());
      chrome.show({ info: this.info, model, state: this.state, t, source: this.source });
      if (!running) return this.clear(t);
      const busy = setTimeout(() => chrome.busy(t.busy), 150);
      try {
        const { run, error } = await running;
        if (turn !== this.turn) return;
        this.mendSelection(run);
        const asked = formatState(this.state);
        const selection = await selectionOf(this.source, run, this.state);
        const view = await kMakers[this.state.view](this.context(run, selection, model, t, theme));
        if (turn !== this.turn) return view.close?.();
        if (formatState(this.state) !== asked) {
          view.close?.(); // the old view, still on screen, has changed the state in the meantime
          return void this.draw();
        }
        this.swap(view, run, model, t, theme);
        if (error) this.fail(error);
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

  /** The run of the request. If it fails, as for a text that is too long, views that need no run are drawn without. */
  private async runOf(request: RunRequest): Promise<{ run: Run; error?: SourceError }> {
    const none = { id: "", model: request.model, sides: [], attention: [], values: [], milliseconds: 0 };
    const interventions = { ablate: { heads: [], tokens: [] }, steer: [] };
    const noRun: Run = { ...none, interventions, output: { kind: "none" } };
    if (this.state.view === "chat") return { run: noRun };
    try {
      return { run: await this.source.run(request) };
    } catch (error) {
      if (error instanceof SourceError && request.steer) {
        const run = await this.source.run({ ...request, steer: [] });
        if (!run.values.includes(request.steer[0]!.point)) {
          this.note({ steerAt: "" }); // the address names a point that the model does not have
          return { run };
        }
      }
      if (!(error instanceof SourceError) || !kWithoutRun.includes(this.state.view)) throw error;
      return { run: noRun, error };
    }
  }

  /** The model of the state. Replaces a model that does not exist, and a view that the model does not have. */
  private mendModel(info: Info): Model {
    const found = info.models.find((one) => one.id === this.state.model);
    const model = found ?? info.models[0]!;
    const offered = offeredViews(model, this.source);
    if (!found && this.state.model) this.note({ model: "" });
    if (!offered.includes(this.state.view)) this.note({ view: offered[0]! });
    return model;
  }

  /** Moves a selection that lies outside the run to its end. */
  private mendSelection(run: Run): void {
    if (run.attention.length === 0) return;
    const { state } = this;
    const within = (value: number, count: number) => Math.min(value, count - 1);
    const layer = within(state.layer, run.attention.length);
    const attention = attentionOf(run, layer);
    const change: Partial<State> = {
      layer,
      head: within(state.head, attention.heads),
      query: within(state.query, attention.queries),
      key: within(state.key, attention.keys),
      heads: state.heads.filter((head) => head < attention.heads),
    };
    const differs = (Object.keys(change) as (keyof State)[]).some((key) => String(change[key]) !== String(state[key]));
    if (differs) this.note(change);
  }

  private context(run: Run, selection: Selection | null, model: Model, t: Messages, theme: Theme): Context {
    return {
      source: this.source,
      info: this.info!,
      model,
      run,
      selection: selection!, // views of models without attention do not use it
      t,
      theme,
      state: { ...this.state },
      update: (change) => this.update(change),
      note: (change) => this.note(change),
      fail: (error) => this.fail(error),
    };
  }

  /** Replaces the old view by the new one, and restores the focus. */
  private swap(view: View, run: Run, model: Model, t: Messages, theme: Theme): void {
    this.view?.close?.();
    this.view = view;
    const { name, text } = t.views[this.state.view];
    const title = el("h2", { attributes: { id: "view-title", tabindex: -1 } }, name);
    this.chrome!.settle(run, t);
    const saving = exportButtons({ view, state: this.state, info: this.info!, model, run, t, theme }, (error) => this.fail(error));
    const lead = el("p", { class: "lead" }, view.lead ?? text);
    keepingFocus(() => replaceChildren(this.chrome!.main, title, lead, view.element, saving));
    this.chrome!.main.dataset.view = this.state.view;
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
        : error instanceof Unreachable
          ? t.unreachable
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
