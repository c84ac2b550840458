import { el } from "../dom";

const region = el("div", {
  class: "unseen",
  attributes: { role: "status", "aria-live": "polite", id: "announcement" },
});
let waiting = 0;

export function announcer(): HTMLElement {
  return region;
}

/** Announces a text to screen readers. Of several calls within 120 ms only the last is announced. */
export function announce(text: string): void {
  clearTimeout(waiting);
  waiting = window.setTimeout(() => (region.textContent = text), 120);
}
