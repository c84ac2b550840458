import type { Context } from "../context";
import { controls, slider } from "../controls";
import { visible } from "../data/words";
import { el, languageOf, replaceChildren } from "../dom";
import { labelNumber, note, percent } from "./common";

const kShown = 12;

/** The next token's probabilities after temperature, top-k and top-p, in this order, as the sampler applies them. */
export interface Sampling {
  temperature: number; // 0: only the best
  topK: number; // 0: all
  topP: number; // 1: all
}

/** `sorted`: all logits in descending order. Returns as many probabilities; those that cannot be drawn are 0. */
export function sampled(sorted: ArrayLike<number>, { temperature, topK, topP }: Sampling): Float64Array {
  const result = new Float64Array(sorted.length);
  if (temperature === 0) {
    result[0] = 1;
    return result;
  }
  const count = topK > 0 ? Math.min(topK, sorted.length) : sorted.length;
  let sum = 0;
  for (let i = 0; i < count; ++i) sum += result[i] = Math.exp((sorted[i]! - sorted[0]!) / temperature);
  let kept = 0;
  let end = 0;
  while (end < count && (end === 0 || kept / sum < topP)) kept += result[end++]!;
  for (let i = 0; i < count; ++i) result[i] = i < end ? result[i]! / kept : 0;
  return result;
}

/** The probabilities of the token after `place`, with sliders that change them at once. */
export async function probabilities(context: Context, place: number): Promise<{ element: HTMLElement; data: () => unknown }> {
  const { source, run, t } = context;
  const { output } = run;
  if (output.kind === "labels") {
    const bars = output.items.slice(0, kShown).map((item) => bar(item.label, output.values ? 0 : item.p, labelNumber(output, item.p), false));
    return { element: el("div", {}, ...bars), data: () => output };
  }
  if (output.kind === "none") return { element: note(t.flow.noOutput), data: () => null };
  if (!source.has("logits")) {
    const bars = (output.rows[place] ?? []).map((one) => bar(one.text, one.p, percent(one.p), false));
    return { element: el("div", {}, ...bars, note(t.flow.fileOnly)), data: () => output.rows[place] };
  }
  const { top, sorted } = await source.logits(run.id, place);
  const { state, note: remember } = context;
  const now: Sampling = { temperature: state.heat, topK: state.topK, topP: state.topP };
  const list = el("div", { attributes: { id: "flow-probabilities" } });
  const draw = () => {
    const shares = sampled(sorted, now);
    const possible = shares.reduce((count, share) => count + (share > 0 ? 1 : 0), 0);
    replaceChildren(
      list,
      ...top.slice(0, kShown).map((one, i) => bar(one.text, shares[i]!, percent(shares[i]!), i === 0)),
      note(t.flow.possible(possible, sorted.length)),
    );
  };
  const change = (part: Partial<Sampling>) => {
    Object.assign(now, part);
    draw();
  };
  draw();
  const element = el(
    "div",
    {},
    controls(
      slider("heat", t.temperature, {
        min: 0,
        max: 3,
        step: 0.05,
        value: now.temperature,
        format: (value) => value.toFixed(2),
        input: (temperature) => change({ temperature }),
        change: (heat) => remember({ heat }),
      }),
      slider("top-k", t.flow.topK, {
        min: 0,
        max: 100,
        step: 1,
        value: now.topK,
        format: (value) => (value === 0 ? t.flow.off : String(value)),
        input: (topK) => change({ topK }),
        change: (topK) => remember({ topK }),
      }),
      slider("top-p", t.flow.topP, {
        min: 0.05,
        max: 1,
        step: 0.01,
        value: now.topP,
        format: (value) => (value >= 1 ? t.flow.off : value.toFixed(2)),
        input: (topP) => change({ topP }),
        change: (topP) => remember({ topP }),
      }),
    ),
    list,
  );
  return {
    element,
    data: () => ({ ...now, probabilities: top.map((one, i) => ({ ...one, p: sampled(sorted, now)[i] })) }),
  };
}

function bar(text: string, share: number, shown: string, chosen: boolean): HTMLElement {
  const filled = el("span", { class: "bar" });
  filled.style.width = `${share * 100}%`;
  return el(
    "div",
    { class: chosen ? "candidate chosen" : "candidate" },
    el("span", { class: "word", attributes: { lang: languageOf(text) } }, visible(text) || "∅"),
    el("span", { class: "track" }, filled),
    el("span", { class: "number" }, shown),
  );
}
