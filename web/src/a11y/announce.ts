import { el } from "../dom";

const region = el("div", {
  class: "unseen",
  attributes: { role: "status", "aria-live": "polite", id: "announcement" },
});
let waiting = 0;

export function announcer(): HTMLElement {
  return region;
}

/** Says it to a screen reader; of several within a moment only the last. */
export function announce(text: string): void {
  clearTimeout(waiting);
  waiting = window.setTimeout(() => (region.textContent = text), 120);
}
