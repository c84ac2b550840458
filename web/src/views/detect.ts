import type { Context } from "../context";
import type { DetectedHead, Detection, HeadKind } from "../data/tools";
import { el } from "../dom";
import { requestOf, withTarget } from "../request";

const pending = new Map<string, Promise<Detection>>();

/** Asks for the kinds of heads and calls back with them: at once if the page has them already. */
export function whenDetected(context: Context, show: (found: Detection) => void): void {
  const { source, run, state, model } = context;
  const request = requestOf(state, model);
  if (!request || !source.has("tools") || run.attention.length === 0) return;
  const wanted = withTarget(request, run);
  const known = source.toolResult("detect", wanted);
  if (known) return show(known);
  const key = JSON.stringify(wanted);
  const found =
    pending.get(key) ??
    source.tool("detect", wanted, { step: () => undefined }, new AbortController().signal).finally(() => pending.delete(key));
  pending.set(key, found);
  found.then(show, () => undefined); // badges are an extra: the view is complete without them
}

export function detectedHead(found: Detection | null, attention: number, head: number): DetectedHead | undefined {
  return found?.heads.find((one) => one.attention === attention && one.head === head);
}

/** The names of a head's detected kinds. */
export function kindNames({ t }: Context, found: Detection | null, attention: number, head: number): string[] {
  return (detectedHead(found, attention, head)?.kinds ?? []).map((kind) => t.tools.heads[kind]);
}

/** One badge for each detected kind of a head. Its hint, the scores, is shown when it is pointed at or pressed. */
export function badgesOf(context: Context, found: Detection | null, attention: number, head: number, say: (hint: string) => void): HTMLElement[] {
  const one = detectedHead(found, attention, head);
  return (one?.kinds ?? []).map((kind) => badge(context, one!, kind, say));
}

function badge({ t }: Context, head: DetectedHead, kind: HeadKind, say: (hint: string) => void): HTMLElement {
  const hint = t.tools.badgeHint(kind, head.text[kind], head.probe[kind], head.offset);
  return el(
    "button",
    {
      class: "badge",
      attributes: { type: "button", title: hint, "aria-label": hint },
      on: { click: () => say(`${t.head(head.head)}: ${hint}`), focus: () => say(`${t.head(head.head)}: ${hint}`) },
    },
    t.tools.heads[kind],
  );
}
