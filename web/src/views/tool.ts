import type { Context } from "../context";
import { button } from "../controls";
import type { ToolName, ToolRequest, ToolResults } from "../data/tools";
import { el, replaceChildren } from "../dom";
import { requestOf, withTarget } from "../request";

/** A tool's result, or the element that computes it and then draws the view again. */
export type ToolState<N extends ToolName> =
  | { result: ToolResults[N]; pending: null; close: () => void }
  | { result: null; pending: HTMLElement; close: () => void };

export interface ToolStart<N extends ToolName> {
  /** Whether to wait for a click, because the tool is slow. */
  waits?: boolean;
  explanation?: string;
  /** Draws the part of the result that is known while the tool works. */
  partial?: (result: ToolResults[N]) => void;
}

/** Runs a tool on the page's input. Leaving the view cancels it. */
export function useTool<N extends ToolName>(
  context: Context,
  name: N,
  more: Partial<ToolRequest>,
  start: ToolStart<N> = {},
): ToolState<N> {
  const { source, run, state, model, t, update, fail } = context;
  const request: ToolRequest = { ...withTarget(requestOf(state, model)!, run), ...more };
  delete request.steer; // tools study the model as it is
  const known = source.toolResult(name, request);
  if (known) return { result: known, pending: null, close: () => undefined };

  const abort = new AbortController();
  const bar = el("progress", { attributes: { id: "tool-progress", max: 1, "aria-label": t.tools.computing } });
  const box = el("div", { class: "tool-pending" });
  const idle = () =>
    replaceChildren(box, start.explanation ? el("p", {}, start.explanation) : null, button("tool-start", t.tools.start, begin, "primary"));
  const step = (done: number, total: number) => (bar.value = total > 0 ? done / total : 0);
  const begin = () => {
    bar.removeAttribute("value");
    replaceChildren(box, el("span", {}, t.tools.computing), bar, button("tool-stop", t.stop, () => abort.abort()));
    source
      .tool(name, request, { step, partial: start.partial }, abort.signal)
      .then(() => update({}))
      .catch((error: unknown) => {
        idle();
        if (!abort.signal.aborted) fail(error);
      });
  };
  if (start.waits) idle();
  else begin();
  return { result: null, pending: box, close: () => abort.abort() };
}

/** A labelled text field that takes effect when it is left or Enter is pressed. */
export function textField(id: string, label: string, value: string, hint: string, changed: (text: string) => void): HTMLElement {
  const box = el("input", {
    attributes: { id, type: "text", value, placeholder: hint, autocomplete: "off", spellcheck: "false" },
    on: { change: () => changed(box.value) },
  });
  return el("label", { class: "control" }, el("span", {}, label), box);
}
