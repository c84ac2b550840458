import { announce } from "../a11y/announce";
import type { Context, View } from "../context";
import { button, controls, numberField, select } from "../controls";
import type { BeamNode, GenerateLine } from "../data/types";
import { el, languageOf, replaceChildren } from "../dom";
import { visible } from "../data/words";
import { legend, weightLegend } from "../draw/legend";
import { Picture } from "../draw/picture";
import { weightColour, hex, inkOn } from "../draw/theme";
import { decodingOf, requestOf } from "../request";
import { note, percent, section } from "./common";
import { BeamTree, drawTree, treeSize } from "./generation_tree";

/** Shows the generation token by token: candidates, the attention of each token, and the beam as a tree. */
export async function generationView(context: Context): Promise<View> {
  const { model, run, state, source, t, theme, update } = context;
  if (model.kind === "classification" || model.kind === "image")
    return { element: el("div", {}, note(t.generationNone)), pictures: [], data: () => null };
  const decoding = decodingOf(state, model);
  const method = state.temperature > 0 ? t.sampledAt(state.temperature) : t.decodedBy(decoding.beam);
  const tree = new BeamTree();
  const lines: GenerateLine[] = [];
  let chosen: BeamNode | null = null;
  let picked = false; // whether the user chose a token; until then the newest is shown
  let looking = -1; // index into the node's list of attentions
  const sentence = el("div", { class: "sentence", attributes: { role: "list", "aria-label": t.generated } });
  const status = el("p", { class: "note", attributes: { role: "status" } });
  const candidates = el("div", { class: "candidates" });
  const looked = el("div", { class: "looked" });

  const choose = (node: BeamNode) => {
    chosen = node;
    for (const one of sentence.querySelectorAll("button"))
      one.setAttribute("aria-pressed", String(one.dataset.node === String(node.id)));
    replaceChildren(candidates, ...node.candidates.map((c) => candidateBar(c.text, c.p, c.id === node.token.id)));
    drawLooked();
    picture.redraw();
  };
  const pick = (node: BeamNode) => {
    picked = true;
    choose(node);
  };
  const drawLooked = () => {
    replaceChildren(looked);
    const list = chosen?.looked ?? [];
    if (list.length === 0) return;
    const at = list[looking < 0 ? list.length - 1 : looking] ?? list[list.length - 1]!;
    const attention = lines[0]?.attention?.[at.attention] ?? run.attention[at.attention];
    const keys = keyTexts(lines[0]!, attention?.keySide ?? 0, tree, chosen!);
    const choice = select(
      "looked",
      t.layer,
      list.map((one, i) => ({
        value: String(i),
        text: t.attentionFull(lines[0]?.attention?.[one.attention] ?? run.attention[one.attention]!),
      })),
      String(list.indexOf(at)),
      (value) => {
        looking = Number(value);
        drawLooked();
      },
    );
    looked.append(
      choice,
      el(
        "p",
        { class: "shaded" },
        ...at.weights.map((weight, i) =>
          shaded(keys[i] ?? "", weight, weightColour(theme, weight)),
        ),
      ),
      weightLegend(theme, t.weight),
    );
  };
  const redraw = () => {
    const path = tree.best();
    replaceChildren(sentence, ...path.map((node) => tokenButton(node, () => pick(node))));
    const shown = picked && chosen ? chosen : path[path.length - 1];
    if (shown) choose(shown);
    picture.layOut();
  };
  const picture: Picture = new Picture({
    id: "generation-picture",
    title: t.beamTree,
    label: t.beamLabel(decoding.beam),
    size: (available) => treeSize(tree, available),
    tallest: 520,
    draw: (pen, sight) => drawTree(pen, tree, sight, theme, chosen),
    press: (x, y) => {
      const node = tree.at(x, y);
      if (node) pick(node);
    },
    key: (event) => {
      const next = chosen && tree.neighbour(chosen, event.key);
      if (!next) return false;
      pick(next);
      announce(`${next.token.text} ${percent(next.p)}`);
      return true;
    },
    table: () => ({
      columns: [t.token, t.step, t.probability, t.logProbability, t.kept],
      rows: [...tree.nodes.values()].map((node) => [
        node.token.text,
        tree.depth(node),
        node.p,
        node.logp,
        node.kept ? "✓" : "—",
      ]),
    }),
    summary: t.asTable,
  });

  const stopper = new AbortController();
  const started = performance.now();
  let pending = 0;
  const read = (line: GenerateLine) => {
    lines.push(line);
    tree.add(line);
    if (line.done)
      status.textContent = `${t.generationDone(tree.best().length, line.milliseconds ?? performance.now() - started)} · ${method}`;
    pending ||= requestAnimationFrame(() => {
      pending = 0;
      redraw();
    });
  };
  const request = {
    model: model.id,
    text: requestOf(state, model)!.text!,
    ...decoding,
    candidates: 5,
    ...(state.temperature > 0 ? { temperature: state.temperature, seed: state.seed, beam: 1 } : {}),
  };
  status.textContent = t.generating;
  const stop = button("stop", t.stop, () => {
    stopper.abort();
    status.textContent = t.stopped;
  });
  void source
    .generate(request, read, stopper.signal)
    .catch((error: unknown) => {
      if (stopper.signal.aborted) return;
      status.textContent = "";
      context.fail(error);
    })
    .finally(() => (stop.disabled = true));

  const bar =
    source.kind === "file"
      ? null
      : controls(
          numberField("beam", t.beam, [1, 8, 1], decoding.beam, (beam) => update({ beam })),
          numberField("length", t.length, [1, 256, 1], decoding.length, (length) => update({ length })),
          numberField("temperature", t.temperature, [0, 2, 0.1], state.temperature, (temperature) =>
            update({ temperature }),
          ),
          state.temperature > 0
            ? numberField("seed", t.seed, [1, 1e6, 1], state.seed, (seed) => update({ seed }))
            : null,
          stop,
        );
  const colours: [string, string][] = [
    [t.bestPath, theme.accent],
    [t.otherPaths, theme.soft],
  ];
  const element = el(
    "div",
    {},
    bar,
    status,
    sentence,
    el("div", { class: "columns" }, section(t.candidates, candidates), section(t.whereLooked, looked)),
    section(t.beamTree, legend(colours), picture.element),
    note(t.generationHelp),
  );
  return { element, pictures: [picture], data: () => lines, caption: () => [method], legend: () => colours, close: () => stopper.abort() };
}

/** The texts of an attention's keys: the source, or the prompt and the tokens generated before. */
function keyTexts(first: GenerateLine, side: number, tree: BeamTree, node: BeamNode): string[] {
  const given = first.sides?.[side]?.tokens.map((token) => token.text) ?? [];
  const own = tree.path(node).map((one) => one.token.text);
  const pair = (first.sides?.length ?? 1) > 1;
  if (pair && side === 0) return given;
  return [...(pair ? given.slice(0, 1) : given), ...own];
}

export function candidateBar(text: string, p: number, chosen: boolean): HTMLElement {
  const bar = el("span", { class: "bar" });
  bar.style.width = `${Math.max(0.5, p * 100)}%`;
  return el(
    "div",
    { class: chosen ? "candidate chosen" : "candidate" },
    el("span", { class: "word", attributes: { lang: languageOf(text) } }, visible(text) || "∅"),
    el("span", { class: "track" }, bar),
    el("span", { class: "number" }, percent(p)),
  );
}

function tokenButton(node: BeamNode, clicked: () => void): HTMLElement {
  const text = (node.token.space ? "␣" : "") + (visible(node.token.text) || "∅");
  const one = el(
    "button",
    {
      class: "token",
      attributes: {
        type: "button",
        "data-node": node.id,
        "aria-pressed": "false",
        lang: languageOf(text),
        title: percent(node.p),
      },
      on: { click: clicked },
    },
    el("span", {}, text),
    el("small", {}, percent(node.p)),
  );
  return el("span", { attributes: { role: "listitem" } }, one);
}

function shaded(text: string, weight: number, colour: number): HTMLElement {
  const one = el("span", { attributes: { title: weight.toFixed(4), lang: languageOf(text) } }, visible(text) || "∅");
  one.style.background = hex(colour);
  one.style.color = inkOn(colour);
  return one;
}
