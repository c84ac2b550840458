import { announce } from "../a11y/announce";
import { Answer } from "../chat/answer";
import { Card, type CardContent } from "../chat/card";
import { conversationWith, type Message } from "../chat/conversation";
import { momentOf, momentViews } from "../chat/moment";
import { settingsElement } from "../chat/settings";
import type { Context, View } from "../context";
import { button } from "../controls";
import { Unreachable, Unavailable } from "../data/source";
import type { WrittenToken } from "../data/write";
import { el, languageOf, replaceChildren } from "../dom";
import { formatState } from "../state";

/** A conversation with the model: candidates for each word, and a way from each word to the views that explain it. */
export async function chatView(context: Context): Promise<View> {
  const { model, source } = context;
  if (!model.serves) throw new Unavailable("chat");
  return new ChatView(context, conversationWith(model, source)).view();
}

class ChatView {
  private readonly list = el("ol", { class: "talk", attributes: { id: "talk" } });
  private readonly status = el("p", { class: "note", attributes: { role: "status", id: "chat-status" } });
  private readonly alert = el("p", { class: "error", attributes: { role: "alert", id: "chat-error" } });
  private readonly undo: HTMLButtonElement;
  private readonly stop: HTMLButtonElement;
  private readonly send: HTMLButtonElement;
  private readonly box: HTMLTextAreaElement;
  private readonly card: Card;
  private readonly pieces = new Map<number, string>(); // texts of tokens of prompts
  private last: Answer | null = null; // the answer that is being written
  private editing = -1;

  constructor(
    private readonly context: Context,
    private readonly talk: ReturnType<typeof conversationWith>,
  ) {
    const { t } = context;
    const texts = t.chat[talk.mode];
    this.list.setAttribute("aria-label", t.chat.conversation);
    this.card = new Card(t);
    this.undo = button("chat-undo", t.chat.undo, () => this.talk.undo());
    this.stop = button("chat-stop", t.stop, () => this.talk.stop());
    this.send = el("button", { class: "primary", attributes: { id: "chat-send", type: "submit" } }, texts.send);
    this.box = this.textarea("message", talk.draft, () => this.submit());
    this.box.placeholder = texts.hint;
    this.box.addEventListener("input", () => {
      this.talk.draft = this.box.value;
      this.enable();
    });
  }

  view(): View {
    const { t } = this.context;
    const { talk } = this;
    const form = el(
      "form",
      {
        class: "composer",
        on: {
          submit: (event) => {
            event.preventDefault();
            this.submit();
          },
        },
      },
      el("label", { class: "field" }, el("span", {}, t.chat[talk.mode].message), this.box),
      el("div", { class: "buttons" }, this.stop, this.send),
    );
    const tools = el(
      "div",
      { class: "tools" },
      button("chat-new", t.chat.fresh, () => this.restart()),
      button("chat-copy", t.chat.copy, () => void this.copy(JSON.stringify(talk.plain(), null, 2))),
      this.undo,
    );
    const element = el(
      "div",
      { class: "chat" },
      settingsElement(talk, t),
      el("div", { class: "stage" }, this.list, this.card.element),
      this.alert,
      this.status,
      form,
      tools,
    );
    const watch: typeof talk.watch = (change) => (change === "text" ? this.grow() : this.draw());
    talk.watch = watch;
    const outside = (event: MouseEvent) => {
      const target = event.target instanceof Element ? event.target : null;
      if (this.card.isPinned && !target?.closest(".word, .card")) this.card.hide();
    };
    document.addEventListener("click", outside);
    this.draw();
    return {
      element,
      pictures: [],
      more: () => ({ messages: talk.plain() }), // where `attend chat` looks for them
      data: () => talk.data(),
      close: () => {
        document.removeEventListener("click", outside);
        if (talk.watch === watch) talk.watch = () => {}; // a newer view of the conversation may be watching already
      },
    };
  }

  private submit(): void {
    const { talk } = this;
    const text = this.box.value;
    const continues = talk.mode === "continue" && talk.messages.length > 0;
    if (talk.isBusy || (text.trim() === "" && !continues)) return;
    this.box.value = talk.draft = "";
    void talk.send(talk.mode === "continue" ? text : text.trim());
  }

  private restart(): void {
    this.editing = -1;
    this.talk.clear();
    this.box.focus();
  }

  /** Draws the whole conversation. */
  private draw(): void {
    const { talk } = this;
    const { t } = this.context;
    const wasBusy = this.stop.hidden === false;
    this.card.hide();
    this.last = null;
    const items = talk.messages.map((message, index) => this.item(message, index));
    replaceChildren(this.list, ...(items.length > 0 ? items : [this.welcome()]));
    const error = talk.error;
    this.alert.hidden = error === null;
    this.alert.textContent = error === null ? "" : this.errorText(error);
    const unanswered = talk.messages.at(-1)?.role === "user" && !talk.isBusy;
    if (error !== null && unanswered)
      this.alert.append(" ", button("chat-again", t.chat.again, () => void talk.retry(talk.messages.length)));
    this.status.textContent = talk.isBusy ? t.chat.writing : talk.removed ? t.chat.removed : "";
    this.enable();
    if (wasBusy && !talk.isBusy && error === null) this.finished();
    if (talk.isBusy) this.list.lastElementChild?.scrollIntoView({ block: "nearest" });
  }

  private enable(): void {
    const { talk } = this;
    const { t } = this.context;
    const isEmpty = this.box.value.trim() === "";
    const continues = talk.mode === "continue" && talk.messages.length > 0;
    this.stop.hidden = !talk.isBusy;
    this.send.hidden = talk.isBusy;
    this.send.disabled = isEmpty && !continues;
    this.undo.hidden = talk.removed === null || talk.isBusy;
    for (const id of ["chat-new", "chat-copy"]) {
      const one = this.send.ownerDocument.getElementById(id) as HTMLButtonElement | null;
      if (one) one.disabled = talk.messages.length === 0;
    }
    this.send.textContent = isEmpty && continues ? t.chat.more : t.chat[talk.mode].send;
  }

  /** Says the whole answer to screen readers, and gives the keyboard back to the message field. */
  private finished(): void {
    const { t } = this.context;
    const answer = this.talk.messages.at(-1);
    if (answer?.role !== "assistant") return;
    announce(t.chat.answered(answer.content));
    if (document.activeElement === document.body) this.box.focus({ preventScroll: true });
  }

  private grow(): void {
    const isNear = window.innerHeight + window.scrollY > document.documentElement.scrollHeight - 160;
    this.last?.grow();
    if (isNear) window.scrollTo({ top: document.documentElement.scrollHeight });
  }

  private welcome(): HTMLElement {
    const { t, model } = this.context;
    const texts = t.chat[this.talk.mode];
    const example = this.talk.mode === "chat" ? t.chat.greeting : model.example.text;
    const offer = example
      ? el("p", {}, t.chat.tryThis, " ", button("chat-example", example, () => this.fill(example), "offer"))
      : null;
    return el("li", { class: "welcome" }, el("p", {}, texts.welcome), offer, el("p", { class: "note" }, t.chat.help));
  }

  private fill(text: string): void {
    this.box.value = this.talk.draft = text;
    this.enable();
    this.box.focus();
  }

  private item(message: Message, index: number): HTMLElement {
    const { t } = this.context;
    const isLast = index === this.talk.messages.length - 1;
    const isWriting = this.talk.isBusy && message.tokens !== undefined && !message.milliseconds;
    const name = message.role === "user" ? t.chat.you : this.context.model.name;
    const act = (what: string, text: string, act: () => void) => {
      const one = button(`chat-${what}-${index}`, text, act);
      one.setAttribute("aria-label", t.chat.about(text, index + 1));
      return one;
    };
    const actions = isWriting
      ? []
      : [
          act("edit", t.chat.edit, () => this.edit(index)),
          act("copy", t.chat.copyText, () => void this.copy(message.content)),
          message.tokens && (isLast || this.talk.mode === "translate")
            ? act("retry", t.chat.retry, () => void this.talk.retry(index))
            : null,
        ];
    const body = this.editing === index ? this.editor(message, index) : this.body(message, index, isWriting);
    return el(
      "li",
      { class: `message ${message.role}${isWriting ? " writing" : ""}`, attributes: { id: `chat-message-${index}` } },
      el("div", { class: "who" }, el("span", {}, name), el("span", { class: "actions" }, ...actions)),
      body,
      message.tokens && !isWriting ? el("p", { class: "facts" }, this.facts(message)) : null,
    );
  }

  private body(message: Message, index: number, isWriting: boolean): HTMLElement {
    if (!message.words?.length && !isWriting)
      return el("div", { class: "text", attributes: { lang: languageOf(message.content) } }, message.content);
    const answer = new Answer({
      index,
      message,
      card: this.card,
      t: this.context.t,
      content: (word) => this.content(message, index, word),
    });
    if (isWriting) this.last = answer;
    else answer.settle();
    return answer.element;
  }

  private facts({ tokens, milliseconds = 0, finish }: Message): string {
    const { t } = this.context;
    const count = tokens?.length ?? 0;
    const why = finish === "length" ? t.chat.cut : finish === "stopped" ? t.stopped : "";
    return [t.chat.speed(count, milliseconds), why].filter(Boolean).join(" · ");
  }

  private content(message: Message, index: number, word: number): CardContent {
    const { model, state, t, update } = this.context;
    const places = message.words![word]!.tokens;
    const question = this.talk.messages[index - 1]?.content ?? "";
    const moment = (view: ReturnType<typeof momentViews>[number]) =>
      momentOf(model, question, message, places[0]!, view);
    const canOpen = message.prompt !== undefined;
    return {
      tokens: places.map((place) => message.tokens![place]!),
      lookedAt: (token) => this.lookedAt(message, token),
      links: (canOpen ? momentViews(model) : []).map((view) => ({
        name: t.views[view].name,
        href: formatState({ ...state, ...moment(view) }),
        open: () => update(moment(view)),
      })),
    };
  }

  /** The texts of the positions that a token looked at. */
  private lookedAt(message: Message, token: WrittenToken): [string, number][] {
    if (!token.looks || !message.prompt) return [];
    const ids = [...message.prompt, ...message.tokens!.map((one) => one.id)];
    const missing = [...new Set(token.looks.map(([place]) => ids[place]!))].filter((id) => !this.pieces.has(id));
    if (missing.length > 0)
      void this.context.source
        .tokenTexts(this.context.model.serves!.name, missing)
        .then((texts) => missing.forEach((id, i) => this.pieces.set(id, texts[i]!)))
        .then(() => this.card.refresh())
        .catch(() => {}); // the server has gone: the candidates are still shown
    return token.looks.map(([place, weight]) => [this.pieces.get(ids[place]!) ?? "…", weight]);
  }

  private edit(index: number): void {
    this.editing = index;
    this.draw();
    document.getElementById("chat-edit-text")?.focus();
  }

  private editor(message: Message, index: number): HTMLElement {
    const { t } = this.context;
    const end = (text: string | null) => {
      this.editing = -1;
      if (text === null || (text.trim() === "" && message.role === "user")) this.draw();
      else void this.talk.edit(index, text);
      document.getElementById("message")?.focus({ preventScroll: true });
    };
    const box = this.textarea("chat-edit-text", message.content, () => end(box.value));
    box.setAttribute("aria-label", t.chat.about(t.chat.edit, index + 1));
    box.addEventListener("keydown", (event) => event.key === "Escape" && end(null));
    const done = message.role === "user" ? t.chat[this.talk.mode].send : t.chat.save;
    return el(
      "div",
      { class: "editor" },
      box,
      el(
        "div",
        { class: "buttons" },
        button("chat-edit-cancel", t.chat.cancel, () => end(null)),
        button("chat-edit-done", done, () => end(box.value), "primary"),
      ),
    );
  }

  /** A field that grows with its text. Enter sends, Shift+Enter starts a new line. */
  private textarea(id: string, value: string, send: () => void): HTMLTextAreaElement {
    const box = el("textarea", { attributes: { id, rows: 2 } });
    box.value = value;
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      send();
    });
    return box;
  }

  private async copy(text: string): Promise<void> {
    const { t } = this.context;
    const done = await navigator.clipboard
      ?.writeText(text)
      .then(() => true)
      .catch(() => false);
    this.status.textContent = (done ?? false) ? t.chat.copied : t.chat.notCopied;
  }

  private errorText(error: unknown): string {
    if (error instanceof Unreachable) return this.context.t.unreachable;
    return error instanceof Error ? error.message : String(error);
  }
}
