// The only place that creates elements. Children are nodes or text, never markup, so a token such as <script> is text.

type Child = Node | string | null | undefined | false;

export interface Props {
  class?: string;
  attributes?: Record<string, string | number | boolean>;
  on?: Partial<{ [K in keyof HTMLElementEventMap]: (event: HTMLElementEventMap[K]) => void }>;
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (props.class) element.className = props.class;
  for (const [name, value] of Object.entries(props.attributes ?? {})) {
    if (value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const [name, listener] of Object.entries(props.on ?? {}))
    element.addEventListener(name, listener as EventListener);
  append(element, children);
  return element;
}

export function append(parent: Node, children: Child[]): void {
  for (const child of children)
    if (child) parent.appendChild(typeof child === "string" ? document.createTextNode(child) : child);
}

export function replaceChildren(parent: Element, ...children: Child[]): void {
  parent.textContent = "";
  append(parent, children);
}

/** The language of a text, for fonts and screen readers: Han characters without kana are Chinese. */
export function languageOf(text: string): string {
  if (/[\u3040-\u30ff]/.test(text)) return "ja";
  return /[\u3400-\u9fff\uf900-\ufaff]/.test(text) ? "zh-Hans" : "";
}

/** Replaces elements. The focus stays on the element with the same id, and so does a text that is being typed there. */
export function keepingFocus(replace: () => void): void {
  const before = document.activeElement;
  replace();
  const after = before?.id ? document.getElementById(before.id) : null;
  if (!after || after === document.activeElement) return;
  after.focus({ preventScroll: true });
  const isText = (one: Element | null) => one instanceof HTMLInputElement && one.type === "text";
  if (!isText(before) || !isText(after)) return;
  const [old, now] = [before as HTMLInputElement, after as HTMLInputElement];
  if (old.defaultValue !== now.defaultValue || old.value === now.value) return; // the text has been taken
  now.value = old.value;
  now.setSelectionRange(old.selectionStart, old.selectionEnd);
}
