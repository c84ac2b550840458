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
