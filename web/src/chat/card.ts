import { visible } from "../data/words";
import type { WrittenToken } from "../data/write";
import { button } from "../controls";
import { el, languageOf, replaceChildren } from "../dom";
import type { Messages } from "../i18n";
import { percent } from "../views/common";
import { candidateBar } from "../views/generation";

/** What a card shows about a word. */
export interface CardContent {
  tokens: WrittenToken[];
  lookedAt: (token: WrittenToken) => [text: string, weight: number][];
  links: { name: string; href: string; open: () => void }[];
}

/** The card beside a word: its candidates and, once it is pinned, links to other views. */
export class Card {
  readonly element = el("div", { class: "card", attributes: { id: "word-card", hidden: true } });
  isPinned = false;
  private at: HTMLElement | null = null;
  private again: () => void = () => {};

  constructor(private readonly t: Messages) {
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  show(word: HTMLElement, content: CardContent, isPinned: boolean): void {
    this.at?.classList.remove("pointed");
    this.at = word;
    this.isPinned = isPinned;
    this.again = () => this.show(word, content, isPinned);
    word.classList.add("pointed");
    const t = this.t.chat;
    const close = button("card-close", "×", () => this.close());
    close.setAttribute("aria-label", t.close);
    const links = content.links.map(({ name, href, open }) =>
      el(
        "a",
        {
          attributes: { href },
          on: {
            click: (event) => {
              if (event.metaKey || event.ctrlKey || event.shiftKey) return;
              event.preventDefault();
              open();
            },
          },
        },
        name,
      ),
    );
    replaceChildren(
      this.element,
      isPinned ? close : null,
      ...content.tokens.flatMap((token) => this.about(token, content.lookedAt(token), content.tokens.length > 1 ? 3 : 8)),
      isPinned
        ? el("p", { class: "open" }, el("span", {}, t.openHere), ...links)
        : el("p", { class: "hint" }, t.clickHint),
    );
    if (isPinned) {
      this.element.setAttribute("role", "dialog");
      this.element.setAttribute("aria-label", t.cardLabel(content.tokens.map((token) => token.text).join("")));
    } else this.element.removeAttribute("role");
    this.element.classList.toggle("pinned", isPinned);
    this.element.hidden = false;
    this.place(word);
  }

  /** Shows the same word again, whose data has changed. */
  refresh(): void {
    if (this.at) this.again();
  }

  /** Moves the focus to the first link. */
  enter(): void {
    this.element.querySelector("a")?.focus();
  }

  hide(): void {
    this.at?.classList.remove("pointed");
    this.at = null;
    this.isPinned = false;
    this.element.hidden = true;
  }

  /** Hides the card. The focus goes back to the words. */
  close(): void {
    const words = this.at?.closest<HTMLElement>(".words");
    const wasPinned = this.isPinned;
    this.hide();
    if (wasPinned) words?.focus();
  }

  private about(token: WrittenToken, looked: [string, number][], most: number): HTMLElement[] {
    const t = this.t.chat;
    const title = el(
      "p",
      { class: "word-title" },
      el("strong", { attributes: { lang: languageOf(token.text) } }, visible(token.text) || "∅"),
      el("span", {}, token.logp === null ? t.noCandidates : percent(Math.exp(token.logp))),
    );
    const shown = token.candidates.slice(0, most);
    const isListed = shown.some((one) => one.text === token.text);
    const own = token.logp === null || isListed ? [] : [{ text: token.text, logp: token.logp }];
    const bars = [...shown, ...own].map((one) =>
      candidateBar(one.text, Math.exp(one.logp), one.text === token.text),
    );
    const places = looked.map(([text, weight]) => candidateBar(text, weight, false));
    return [title, ...bars, ...(places.length > 0 ? [el("p", { class: "looked-at" }, t.lookedAt), ...places] : [])];
  }

  /** Below the word, or above it if there is no room below; never outside the page's width. */
  private place(word: HTMLElement): void {
    const frame = this.element.offsetParent?.getBoundingClientRect();
    const box = word.getClientRects()[0];
    if (!frame || !box) return;
    const { offsetWidth, offsetHeight, style } = this.element;
    const left = Math.min(box.left - frame.left, frame.width - offsetWidth - 4);
    const isBelow = box.bottom + offsetHeight + 8 < window.innerHeight || box.top - offsetHeight < 8;
    style.left = `${Math.max(4, left)}px`;
    style.top = `${isBelow ? box.bottom - frame.top + 6 : box.top - frame.top - offsetHeight - 6}px`;
  }
}
