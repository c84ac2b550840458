import type { Context, View } from "../context";
import { button, controls, select } from "../controls";
import { grouped } from "../data/words";
import type { Training, TrainingEvent } from "../data/types";
import { el, keepingFocus, replaceChildren } from "../dom";
import { drawChart, nearestTo, stepAt, type ChartOptions, type Series } from "../draw/chart";
import { drawHeatmap, drawLegend, heatmapLayout } from "../draw/heatmap";
import { legend } from "../draw/legend";
import { Picture } from "../draw/picture";
import { scaleFor } from "../draw/theme";
import { selectionOf } from "../selection";
import { attentionOptions, axes, note, section } from "./common";

/** Loss, learning rate and speed, live, and the attention of one sentence over the course of training. */
export async function trainingView(context: Context): Promise<View> {
  const { source, t, theme, state } = context;
  const training = source.has("training") ? await source.training(context.model.id) : null;
  if (!training || (training.steps.length === 0 && !training.running))
    return { element: el("div", {}, note(t.trainingNone)), pictures: [], data: () => training };
  let cursor: number | null = null;
  const status = el("p", { class: "readout", attributes: { id: "training-status" } });
  const say = () =>
    (status.textContent = cursor === null ? statusLine(context, training) : atCursor(context, training, cursor));
  const charts = chartsOf(
    context,
    training,
    () => cursor,
    (step) => {
      cursor = step;
      say();
      charts.forEach((chart) => chart.redraw());
    },
  );
  const history = el("div", {});
  const time = timeSlider(context, training, () => showSnapshot().catch(context.fail));
  const maps: Picture[] = [];
  let shows = 0; // number of the latest call: the result of an older one that finishes late is dropped
  const showSnapshot = async () => {
    const turn = ++shows;
    const made = await snapshotOf(context, training, showSnapshot);
    if (turn !== shows) return;
    time.show();
    maps.splice(0, maps.length, ...made.pictures);
    keepingFocus(() => replaceChildren(history, made.element));
  };
  say();
  await showSnapshot();
  const form = training.running ? sentenceForm(context, training) : null;
  const unfollow = training.running
    ? source.follow((event) => {
        take(training, event);
        say();
        charts.forEach((chart) => chart.redraw());
        if (event.type === "sentence") context.note({ step: (state.step = -1) }); // the old steps are of another sentence
        if (event.type === "sentence" || (event.type === "snapshot" && state.step < 0))
          void showSnapshot().catch(context.fail);
        else time.show();
      })
    : () => {};
  const element = el(
    "div",
    {},
    status,
    section(
      t.loss,
      legend([
        [t.trainingLoss, theme.accent],
        [t.validationLoss, theme.warm],
      ]),
      charts[0]!.element,
      training.labelSmoothing ? note(t.smoothed(training.labelSmoothing)) : null,
    ),
    el("div", { class: "columns" }, section(t.learningRate, charts[1]!.element), section(t.speed, charts[2]!.element)),
    section(t.throughTime, time.element, history, form),
    note(t.trainingHelp),
  );
  return {
    element,
    get pictures() {
      return [...charts, ...maps];
    },
    data: () => training,
    follows: () => training.running,
    close: unfollow,
  };
}

function take(training: Training, event: TrainingEvent): void {
  if (event.type === "step") {
    training.steps.push(event);
    training.secondsLeft = event.secondsLeft ?? training.secondsLeft;
  } else if (event.type === "validation") training.validation.push(event);
  else if (event.type === "snapshot") training.snapshots.push({ run: event.run, step: event.step });
  else if (event.type === "sentence") Object.assign(training, { snapshots: [], text: event.text, target: event.target });
  else training.running = false;
}

function statusLine({ t }: Context, training: Training): string {
  const last = training.steps[training.steps.length - 1];
  return t.trainingStatus({
    running: training.running,
    step: last?.step ?? 0,
    total: training.total,
    loss: last?.loss ?? NaN,
    secondsLeft: training.secondsLeft,
    bleu: training.validation[training.validation.length - 1]?.bleu,
  });
}

function atCursor({ t }: Context, training: Training, step: number): string {
  const at = nearestTo(
    training.steps.map((one) => [one.step, one.loss]),
    step,
  );
  const validation = nearestTo(
    training.validation.map((one) => [one.step, one.loss]),
    step,
  );
  return t.trainingAt(at?.[0] ?? 0, at?.[1] ?? NaN, validation?.[1]);
}

function chartsOf(
  { t, theme }: Context,
  training: Training,
  cursor: () => number | null,
  point: (step: number | null) => void,
): Picture[] {
  const series = (of: (step: Training["steps"][number]) => number, colour: string, name: string): Series => ({
    name,
    colour,
    points: training.steps.map((one) => [one.step, of(one)]),
  });
  const make = (id: string, title: string, height: number, lines: () => Series[], log = false): Picture => {
    const options = (width: number): ChartOptions => ({
      width,
      height,
      series: lines(),
      theme,
      log,
      cursor: cursor(),
      end: training.running ? training.total : undefined,
    });
    return new Picture({
      id,
      title,
      label: t.chartLabel(title),
      size: (available) => ({ width: available, height }),
      draw: (pen, sight) => drawChart(pen, options(sight.width)),
      hover: (x) => point(Math.max(0, stepAt(options(picture(id).size.width), x))),
      leave: () => point(null),
      key: (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
        if (by === undefined) return false;
        const steps = training.steps.map((one) => one.step);
        const now = cursor() === null ? steps.length - 1 : steps.findIndex((step) => step >= cursor()!);
        point(steps[Math.min(steps.length - 1, Math.max(0, now + by))] ?? null);
        return true;
      },
      table: () => ({
        columns: [t.step, ...lines().map((line) => line.name)],
        rows: (lines()[0]?.points ?? []).map(([step, value]) => [
          step,
          value,
          ...lines()
            .slice(1)
            .map((line) => line.points.find(([at]) => at === step)?.[1] ?? ""),
        ]),
      }),
      summary: t.asTable,
    });
  };
  const made: Picture[] = [];
  const picture = (id: string) => made.find((one) => one.options.id === id)!;
  made.push(
    make(
      "loss-picture",
      t.loss,
      240,
      () => [
        series((s) => s.loss, theme.accent, t.trainingLoss),
        {
          name: t.validationLoss,
          colour: theme.warm,
          dots: true,
          points: training.validation.map((v) => [v.step, v.loss]),
        },
      ],
      true,
    ),
    make("rate-picture", t.learningRate, 150, () => [series((s) => s.lr, theme.good, t.learningRate)]),
    make("speed-picture", t.speed, 150, () => [series((s) => s.tokensPerSecond, theme.accent, t.speed)]),
  );
  return made;
}

/** The index of the chosen snapshot; without a choice, the last one. */
function chosenSnapshot({ state }: Context, { snapshots }: Training): number {
  if (state.step < 0) return snapshots.length - 1;
  return Math.max(0, snapshots.findIndex((one) => one.step >= state.step));
}

/** The slider over the snapshots. It stays the same element while it is dragged and while snapshots are added. */
function timeSlider(context: Context, training: Training, chosen: () => void): { element: HTMLElement; show(): void } {
  const { state, t, note: remember } = context;
  const shown = el("output", { attributes: { for: "snapshot" } });
  const box = el("input", {
    attributes: { id: "snapshot", type: "range", min: 0, max: 0, step: 1, value: 0 },
    on: {
      input: () => {
        const index = Number(box.value);
        const isLast = index === training.snapshots.length - 1;
        remember({ step: (state.step = isLast ? -1 : training.snapshots[index]!.step) });
        chosen();
      },
    },
  });
  const element = controls(el("label", { class: "control slider" }, el("span", {}, t.step), box, shown));
  const show = () => {
    const index = chosenSnapshot(context, training);
    element.style.display = index < 0 ? "none" : "";
    box.max = String(Math.max(0, training.snapshots.length - 1));
    box.value = String(index);
    shown.textContent = training.snapshots[index]?.step.toLocaleString("en") ?? "";
  };
  return { element, show };
}

/** The sentence's attention at the chosen training step. */
async function snapshotOf(
  context: Context,
  training: Training,
  again: () => Promise<void>,
): Promise<{ element: HTMLElement; pictures: Picture[] }> {
  const { source, state, t, theme, note: remember } = context;
  if (training.snapshots.length === 0)
    return { element: note(training.running ? t.noSnapshotYet : t.noSnapshots), pictures: [] };
  const { run: id, step } = training.snapshots[chosenSnapshot(context, training)]!;
  const run = await source.runById(id);
  const chosen = await selectionOf(source, run, state);
  if (!chosen) return { element: el("div", {}), pictures: [] };
  const { attention, head } = chosen;
  const { rows, columns } = axes(run, attention, state.words);
  const weights = grouped(await source.array(run.id, `weights/${attention.index}/${head}`), rows, columns);
  const options = { theme, rows, columns, scale: scaleFor(columns.length), cell: 26 };
  const layout = (available: number) => heatmapLayout(Math.min(760, available), options);
  const change = (part: Partial<typeof state>) => {
    remember(part);
    Object.assign(state, part);
    void again().catch(context.fail);
  };
  const picture: Picture = new Picture({
    id: "snapshot-picture",
    title: `${t.stepNumber(step)} · ${t.attentionFull(attention)} · ${t.head(head)}`,
    label: t.matrixLabel(rows.length, columns.length),
    size: (available) => ({ width: layout(available).width, height: layout(available).height + 36 }),
    draw: (pen, sight) => {
      const at = layout(picture.element.clientWidth || sight.width);
      drawHeatmap(pen, at, weights, options);
      drawLegend(pen, at.left, at.height + 8, theme, options.scale);
    },
    table: () => ({
      columns: [t.query, ...columns.map((l) => l.text)],
      rows: rows.map((label, r) => [label.text, ...weights.row(r)]),
    }),
    summary: t.asTable,
  });
  const bar = controls(
    select("layer", t.layer, attentionOptions(run, t), String(attention.index), (value) =>
      change({ layer: Number(value) }),
    ),
    select(
      "head",
      t.headLabel,
      Array.from({ length: attention.heads }, (_, i) => ({ value: String(i), text: t.head(i) })),
      String(head),
      (value) => change({ head: Number(value), heads: [] }),
    ),
  );
  return {
    element: el("div", {}, bar, note(run.sides.map((side) => `${t.side(side.name)}: ${side.text}`).join(" · ")), picture.element),
    pictures: [picture],
  };
}

function sentenceForm({ source, model, t, fail }: Context, training: Training): HTMLElement {
  const text = el("input", { attributes: { id: "follow-text", type: "text", value: training.text } });
  const target = el("input", {
    attributes: { id: "follow-target", type: "text", value: training.target ?? "", placeholder: t.targetHint, size: 32 },
  });
  return controls(
    el("label", { class: "control" }, el("span", {}, t.followSentence), text),
    model.kind === "translation" ? el("label", { class: "control" }, el("span", {}, t.target), target) : null,
    button("follow", t.follow, () => void source.followSentence(text.value, target.value).catch(fail)),
  );
}
