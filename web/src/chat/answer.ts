import { announce } from "../a11y/announce";
import { el, languageOf } from "../dom";
import type { Messages } from "../i18n";
import { percent } from "../views/common";
import type { Card, CardContent } from "./card";
import type { Message } from "./conversation";

export interface AnswerOptions {
  index: number; // of the message
  message: Message;
  card: Card;
  t: Messages;
  content: (word: number) => CardContent;
}

/** The words of an answer. Pointing at a word shows its candidates; a click or Enter pins them. Screen readers read the
 * text as a whole, and the words as a list. */
export class Answer {
  readonly element: HTMLElement;
  private readonly list: HTMLElement;
  private readonly whole: HTMLElement;
  private spans: HTMLElement[] = [];
  private active = -1;

  constructor(private readonly options: AnswerOptions) {
    const { t, index } = options;
    this.whole = el("p", { class: "unseen" });
    this.list = el("div", {
      class: "words",
      attributes: { id: `words-${index}`, role: "listbox", tabindex: 0, "aria-label": t.chat.wordsLabel },
      on: {
        mouseover: (event) => this.point(event.target),
        mouseleave: () => !options.card.isPinned && options.card.hide(),
        click: (event) => this.pin(event.target),
        keydown: (event) => this.key(event),
        blur: () => !options.card.isPinned && options.card.hide(),
      },
    });
    this.element = el("div", { class: "text" }, this.whole, this.list);
    this.grow();
  }

  /** Adds the words that are new. */
  grow(): void {
    const { words = [], content } = this.options.message;
    for (let i = this.spans.length; i < words.length; ++i) {
      const span = el(
        "span",
        { class: "word", attributes: { id: `word-${this.options.index}-${i}`, role: "option", "aria-selected": "false" } },
        i === 0 ? words[i]!.text.trimStart() : words[i]!.text,
      );
      this.spans.push(span);
      this.list.append(span);
    }
    const language = languageOf(content);
    this.list.lang = language;
    this.whole.lang = language;
  }

  /** Called when the answer is complete: the text for screen readers. */
  settle(): void {
    this.whole.textContent = this.options.message.content;
    for (const span of [...this.spans].reverse()) {
      span.textContent = span.textContent!.trimEnd(); // models often end with empty lines
      if (span.textContent !== "") break;
    }
  }

  private indexOf(target: EventTarget | null): number {
    const span = target instanceof Element ? target.closest<HTMLElement>(".word") : null;
    return span ? this.spans.indexOf(span) : -1;
  }

  private point(target: EventTarget | null): void {
    const index = this.indexOf(target);
    if (this.options.card.isPinned) return;
    if (index >= 0) this.show(index, false);
    else this.options.card.hide();
  }

  private pin(target: EventTarget | null): void {
    const index = this.indexOf(target);
    if (index < 0 || window.getSelection()?.isCollapsed === false) return;
    this.active = index;
    this.show(index, true);
  }

  private show(index: number, isPinned: boolean): void {
    if (this.options.message.words![index]!.tokens.length > 0)
      this.options.card.show(this.spans[index]!, this.options.content(index), isPinned);
  }

  private select(index: number): void {
    this.spans[this.active]?.setAttribute("aria-selected", "false");
    this.active = index;
    const span = this.spans[index]!;
    span.setAttribute("aria-selected", "true");
    this.list.setAttribute("aria-activedescendant", span.id);
    span.scrollIntoView({ block: "nearest" });
    this.show(index, false);
    announce(this.spoken(index));
  }

  private spoken(index: number): string {
    const { words, tokens } = this.options.message;
    const token = tokens?.[words![index]!.tokens[0] ?? -1];
    if (!token || token.logp === null) return words![index]!.text;
    const best = token.candidates.slice(0, 3).map((one) => `${one.text.trim()} ${percent(Math.exp(one.logp))}`);
    return this.options.t.chat.spokenWord(words![index]!.text.trim(), percent(Math.exp(token.logp)), best.join(", "));
  }

  private key(event: KeyboardEvent): void {
    const last = this.spans.length - 1;
    const moves: Record<string, number> = {
      ArrowRight: Math.min(last, this.active + 1),
      ArrowDown: Math.min(last, this.active + 1),
      ArrowLeft: Math.max(0, this.active - 1),
      ArrowUp: Math.max(0, this.active - 1),
      Home: 0,
      End: last,
    };
    const next = moves[event.key];
    if (next !== undefined && last >= 0) {
      this.options.card.hide();
      this.select(next);
    } else if ((event.key === "Enter" || event.key === " ") && this.active >= 0) {
      this.show(this.active, true);
      this.options.card.enter();
    } else if (event.key === "Escape") this.options.card.hide();
    else return;
    event.preventDefault();
  }
}
