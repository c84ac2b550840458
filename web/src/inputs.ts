import type { Furnishing } from "./chrome";
import type { Model, Run } from "./data/types";
import { el, languageOf, replaceChildren } from "./dom";
import { requestOf } from "./request";
import { kUnpinned, type State } from "./state";
import { labelNumber } from "./views/common";

/** The input form: a text with its target or second sentence; or a picture, chosen or dropped on the page. */
export class Inputs {
  readonly form = el("form", { class: "inputs", attributes: { id: "inputs" } });
  private readonly prediction = el("output", { attributes: { id: "prediction" } });
  private now: Furnishing | null = null;

  constructor(
    private readonly update: (change: Partial<State>) => void,
    private readonly fail: (error: unknown) => void,
  ) {
    this.takeDrops();
  }

  show(now: Furnishing): void {
    this.now = now;
    if (now.model.kind === "image") this.showPicture(now);
    else this.showTexts(now);
  }

  /** Shows the model's output after a run. A translation appears in the target field. */
  settle(run: Run): void {
    const target = run.sides.find((side) => side.name === "target");
    const field = this.form.querySelector<HTMLTextAreaElement>("#target");
    if (target && field) field.value = field.dataset.shown = target.text;
    const text = this.form.querySelector<HTMLTextAreaElement>("#text");
    if (text && this.now!.state.ids !== "" && this.now!.model.kind === "language")
      text.value = text.dataset.shown = run.sides[0]!.text;
    const method = this.form.querySelector("#target-method");
    if (method) method.textContent = this.method();
    const name = this.form.querySelector("#picture-name");
    if (name) name.textContent = run.sides[0]!.text;
    const output = run.output;
    if (output.kind !== "labels") return;
    const best = output.items.slice(0, 3).map(({ label, p }) => `${label} ${labelNumber(output, p)}`);
    this.prediction.textContent = this.now!.t.prediction(best.join(" · "));
    this.form.append(this.prediction);
  }

  private showTexts({ model, state, t, source }: Furnishing): void {
    const own = state.text !== "";
    const field = (id: string, label: string, value: string, hint: string) => {
      const box = el("textarea", {
        attributes: {
          id,
          rows: 2,
          placeholder: hint,
          spellcheck: "false",
          lang: languageOf(value),
          ...(source.kind === "file" ? { readonly: true } : {}),
        },
      });
      box.value = value;
      box.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        this.form.requestSubmit();
      });
      const method = id === "target" && el("small", { attributes: { id: "target-method" } });
      return el("label", { class: "field" }, el("span", {}, label, method), box);
    };
    const fields = [field("text", t.text, own ? state.text : model.example.text, "")];
    if (model.kind === "translation")
      fields.push(field("target", t.target, state.target || (own ? "" : (model.example.target ?? "")), t.targetHint));
    if (model.kind === "classification") fields.push(field("second", t.second, state.second, t.secondHint));
    const go = el("button", { class: "primary", attributes: { id: "run", type: "submit" } }, t.run);
    replaceChildren(this.form, ...fields, source.kind === "file" ? null : go);
    this.form.onsubmit = (event) => {
      event.preventDefault();
      this.submit(model, state);
    };
  }

  /** How the target was found, if the model wrote it. */
  private method(): string {
    const { state, model, t, source } = this.now!;
    const request = requestOf(state, model);
    if (source.kind === "file" || !request) return "";
    return ` · ${request.target ? t.givenTarget : t.decodedBy(request.beam ?? 1)}`;
  }

  private showPicture({ model, state, t, source }: Furnishing): void {
    const name = el("output", { attributes: { id: "picture-name" } }, state.picture ? "" : model.example.text);
    const choice = el("input", {
      class: "unseen",
      attributes: { id: "picture", type: "file", accept: "image/png,image/jpeg" },
      on: { change: () => choice.files?.[0] && this.take(choice.files[0]) },
    });
    const parts =
      source.kind === "file"
        ? [el("span", { class: "field" }, el("span", {}, t.picture), name)]
        : [el("label", { class: "choose" }, t.choosePicture, choice), name, el("span", {}, t.pictureHint)];
    replaceChildren(this.form, el("div", { class: "drop" }, ...parts));
    this.form.onsubmit = (event) => event.preventDefault();
  }

  /** Keeps the target if the user typed it or the text is unchanged. Otherwise the model translates again. */
  private submit(model: Model, state: State): void {
    const field = (id: string) => this.form.querySelector<HTMLTextAreaElement>(`#${id}`);
    const text = field("text")?.value ?? "";
    const target = field("target")?.value ?? "";
    const typed = target !== (field("target")?.dataset.shown ?? "");
    const shown = field("text")?.dataset.shown; // the text of token ids
    const same = text === (shown ?? (state.text || model.example.text));
    if (same && !typed && state.ids !== "") return this.update({});
    this.update({
      ids: "",
      text: text === model.example.text ? "" : text,
      target: typed ? target : same ? state.target : "",
      second: field("second")?.value ?? "",
      ...kUnpinned,
    });
  }

  private take(file: File): void {
    this.now!.source
      .upload(file, file.name)
      .then((picture) => this.update({ ...kUnpinned, picture }))
      .catch(this.fail);
  }

  /** Uploads a file dropped anywhere on the page. Without this the browser would navigate to the file. */
  private takeDrops(): void {
    const wanted = () => this.now?.model.kind === "image" && this.now.source.kind === "server";
    window.addEventListener("dragover", (event) => {
      if (!wanted()) return;
      event.preventDefault();
      this.form.classList.add("over");
    });
    window.addEventListener("dragleave", () => this.form.classList.remove("over"));
    window.addEventListener("drop", (event) => {
      if (!wanted()) return;
      event.preventDefault();
      this.form.classList.remove("over");
      const file = event.dataTransfer?.files[0];
      if (file) this.take(file);
    });
  }
}
