import { el } from "./dom";

export interface Option {
  value: string;
  text: string;
  group?: string;
}

/** A labelled <select>. */
export function select(
  id: string,
  label: string,
  options: Option[],
  value: string,
  changed: (value: string) => void,
): HTMLElement {
  const box = el("select", { attributes: { id }, on: { change: () => changed(box.value) } });
  const groups = new Map<string, HTMLOptGroupElement>();
  for (const option of options) {
    const item = el("option", { attributes: { value: option.value, selected: option.value === value } }, option.text);
    if (!option.group) {
      box.append(item);
      continue;
    }
    let group = groups.get(option.group);
    if (!group) {
      group = el("optgroup", { attributes: { label: option.group } });
      groups.set(option.group, group);
      box.append(group);
    }
    group.append(item);
  }
  return el("label", { class: "control" }, el("span", {}, label), box);
}

export interface SliderOptions {
  min: number;
  max: number;
  step: number;
  value: number;
  format: (value: number) => string;
  input?: (value: number) => void; // while it is dragged
  change: (value: number) => void; // when it is released
}

export function slider(id: string, label: string, options: SliderOptions): HTMLElement {
  const shown = el("output", { attributes: { for: id } }, options.format(options.value));
  const { min, max, step, value } = options;
  const box = el("input", {
    attributes: { id, type: "range", min, max, step, value },
    on: {
      input: () => {
        shown.textContent = options.format(Number(box.value));
        options.input?.(Number(box.value));
      },
      change: () => options.change(Number(box.value)),
    },
  });
  return el("label", { class: "control slider" }, el("span", {}, label), box, shown);
}

export function numberField(
  id: string,
  label: string,
  range: [number, number, number],
  value: number,
  changed: (value: number) => void,
): HTMLElement {
  const [min, max, step] = range;
  const box = el("input", {
    attributes: { id, type: "number", min, max, step, value },
    on: { change: () => changed(Math.min(max, Math.max(min, Number(box.value) || min))) },
  });
  return el("label", { class: "control" }, el("span", {}, label), box);
}

export function toggle(id: string, label: string, on: boolean, changed: (on: boolean) => void): HTMLElement {
  const box = el("input", {
    attributes: { id, type: "checkbox", checked: on },
    on: { change: () => changed(box.checked) },
  });
  return el("label", { class: "control toggle" }, box, el("span", {}, label));
}

export function button(id: string, text: string, clicked: () => void, className = ""): HTMLButtonElement {
  return el("button", { class: className, attributes: { id, type: "button" }, on: { click: clicked } }, text);
}

export interface Chip {
  text: string;
  label: string;
  colour: string;
  on: boolean;
}

/** A row of toggle buttons, one per head. A click toggles one; a double click turns all others off. */
export function chips(
  id: string,
  label: string,
  list: Chip[],
  turned: (index: number, only: boolean) => void,
): HTMLElement {
  const buttons = list.map((chip, index) => {
    const one = el(
      "button",
      {
        class: "chip",
        attributes: {
          id: `${id}-${index}`,
          type: "button",
          "aria-pressed": String(chip.on),
          "aria-label": chip.label,
          title: chip.label,
        },
        on: { click: (event) => turned(index, event.shiftKey), dblclick: () => turned(index, true) },
      },
      chip.text,
    );
    one.style.setProperty("--chip", chip.colour);
    return one;
  });
  return el(
    "div",
    { class: "control", attributes: { role: "group", "aria-label": label } },
    el("span", {}, label),
    el("div", { class: "chips" }, ...buttons),
  );
}

export function controls(...items: (HTMLElement | null | false)[]): HTMLElement {
  return el("div", { class: "controls" }, ...items);
}
