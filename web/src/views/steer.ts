import type { Context, View } from "../context";
import { button, controls, select, slider } from "../controls";
import { el } from "../dom";
import { requestOf, withTarget } from "../request";
import { outputTable } from "./ablate";
import { note, section } from "./common";
import { pointName } from "./points";
import { textField } from "./tool";

const kStrongest = 20;

/** Adds a direction to the residual stream of a layer. The whole page then shows the steered run. */
export async function steerView(context: Context): Promise<View> {
  const { source, model, run, state, t, update } = context;
  if (!source.has("runs")) return { element: note(t.missing("runs")), pictures: [], data: () => null };
  const points = run.values.filter((name) => /(layers\.\d+:output|:embedded|encoder:states|:outputs)$/.test(name));
  if (model.kind === "image" || points.length === 0)
    return { element: note(t.tools.steerNone), pictures: [], data: () => null };
  const stackOf = (point: string) => point.split(/[.:]/)[0] ?? "";
  const several = new Set(points.map(stackOf)).size > 2;
  const middle = points[Math.floor(points.length / 2)]!;
  const point = points.includes(state.steerAt) ? state.steerAt : middle;
  if (state.steer && state.steerAt !== point) context.note({ steerAt: point }); // an address without, or with a wrong one
  const plain = run.interventions.steer.length
    ? await source.run(withTarget(requestOf({ ...state, steer: "" }, model)!, run))
    : run;
  const bar = controls(
    textField("steer", t.tools.toward, state.steer, t.tools.towardHint, (steer) => update({ steer, steerAt: point })),
    textField("away", t.tools.away, state.away, t.tools.awayHint, (away) => update({ away })),
    select(
      "steer-at",
      t.layer,
      points.map((name) => ({
        value: name,
        text: pointName(t, name),
        ...(several ? { group: t.stack(stackOf(name) as "encoder") } : {}),
      })),
      point,
      (steerAt) => update({ steerAt }),
    ),
    slider("strength", t.tools.strength, {
      min: -kStrongest,
      max: kStrongest,
      step: 0.5,
      value: state.strength,
      format: (value) => value.toFixed(1),
      change: (strength) => update({ strength }),
    }),
    button("steer-reset", t.reset, () => update({ steer: "", away: "", steerAt: "", strength: 4 })),
  );
  const element = el(
    "div",
    {},
    bar,
    run.interventions.steer.length
      ? section(t.outputBeforeAfter, outputTable(context, plain.output, run.output))
      : note(t.tools.steerStart),
    note(t.tools.steerHelp),
  );
  return {
    element,
    pictures: [],
    data: () => ({ interventions: run.interventions, before: plain.output, after: run.output }),
  };
}
