import type { Context } from "../context";
import type { DetectedHead, Detection, HeadKind } from "../data/tools";
import { el } from "../dom";
import { requestOf } from "../request";

/** The detected kinds of heads, if the page has them already. The first call asks for them and draws the view again. */
export function useDetection(context: Context): Detection | null {
  const { source, run, state, model, update } = context;
  const request = requestOf(state, model);
  if (!request || !source.has("tools") || run.attention.length === 0) return null;
  const target = run.sides.find((side) => side.name === "target");
  const wanted = { ...request, ...(target ? { target: target.text } : {}) };
  const known = source.toolResult("detect", wanted);
  if (known) return known;
  const view = state.view;
  source
    .tool("detect", wanted, () => undefined, new AbortController().signal)
    .then(() => {
      if (location.hash === "" || location.hash.includes(`view=${view}`)) update({});
    })
    .catch(() => undefined); // badges are an extra: the view is complete without them
  return null;
}

export function detectedHead(found: Detection | null, attention: number, head: number): DetectedHead | undefined {
  return found?.heads.find((one) => one.attention === attention && one.head === head);
}

/** The score that decided about a kind. */
export function scoreOf(head: DetectedHead, kind: HeadKind): number {
  return head.probe[kind] ?? head.text[kind] ?? 0;
}

/** One badge for each detected kind of a head, with its scores as a hint. */
export function badgesOf({ t }: Context, found: Detection | null, attention: number, head: number): HTMLElement[] {
  const one = detectedHead(found, attention, head);
  return (one?.kinds ?? []).map((kind) =>
    el(
      "span",
      { class: "badge", attributes: { title: t.tools.badgeHint(kind, one!.text[kind], one!.probe[kind], one!.offset) } },
      t.tools.heads[kind],
    ),
  );
}
