import { numberField, toggle } from "../controls";
import { el } from "../dom";
import type { Messages } from "../i18n";
import type { Conversation } from "./conversation";

/** The settings of a conversation in a collapsible section whose heading summarises them. */
export function settingsElement(talk: Conversation, t: Messages): HTMLElement {
  const { settings, mode } = talk;
  const summary = el("summary", {});
  const sumUp = () => (summary.textContent = t.chat.settings(settings.temperature, settings.length, settings.beam));
  const note = (change: Parameters<Conversation["note"]>[0]) => {
    talk.note(change);
    sumUp();
  };
  sumUp();
  const number = (
    id: string,
    label: string,
    range: [number, number, number],
    value: number,
    changed: (value: number) => void,
  ) => numberField(`chat-${id}`, label, range, value, changed);
  const seed = el("input", {
    attributes: { id: "chat-seed", type: "number", min: 0, step: 1, value: settings.seed ?? "", placeholder: t.chat.random },
    on: { change: () => note({ seed: seed.value === "" ? null : Math.max(0, Math.round(Number(seed.value))) }) },
  });
  const stop = el("input", {
    attributes: { id: "chat-stop-text", type: "text", value: settings.stop, placeholder: t.chat.none },
    on: { change: () => note({ stop: stop.value.replaceAll("\\n", "\n") }) },
  });
  const system = el("textarea", {
    attributes: { id: "system", rows: 2, placeholder: t.chat.systemHint },
    on: { change: () => note({ system: system.value }) },
  });
  system.value = settings.system;
  return el(
    "details",
    { class: "settings", attributes: { id: "chat-settings" } },
    summary,
    mode === "chat" ? el("label", { class: "field" }, el("span", {}, t.chat.system), system) : null,
    el(
      "div",
      { class: "controls" },
      number("temperature", t.temperature, [0, 2, 0.1], settings.temperature, (temperature) => note({ temperature })),
      number("top-p", t.chat.topP, [0.01, 1, 0.01], settings.topP, (topP) => note({ topP })),
      number("top-k", t.chat.topK, [0, 1000, 1], settings.topK, (topK) => note({ topK })),
      number("length", t.chat.length, [1, 100000, 1], settings.length, (length) => note({ length })),
      el("label", { class: "control" }, el("span", {}, t.seed), seed),
      el("label", { class: "control" }, el("span", {}, t.chat.stopText), stop),
      mode === "translate" ? number("beam", t.beam, [1, 16, 1], settings.beam, (beam) => note({ beam })) : null,
      toggle("chat-looks", t.chat.recordLooks, settings.looks, (looks) => note({ looks })),
    ),
  );
}
