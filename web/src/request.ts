import type { Model, Run, RunRequest } from "./data/types";
import type { State } from "./state";

/** How the page decodes, in every view. */
export function decodingOf(state: State, model: Model): { beam: number; length: number } {
  const length = model.kind === "translation" ? 256 : 64;
  return { beam: state.beam || (model.beam ?? 4), length: state.length || length };
}

/** A request of the state with the target that the page shows: its text, unless the request has its token ids. */
export function withTarget<R extends RunRequest>(request: R, run: Run): R {
  const target = run.sides.find((side) => side.name === "target");
  return target && !request.target_ids ? { ...request, target: target.text } : request;
}

/** The run request of a state. null for an image model without a picture. */
export function requestOf(state: State, model: Model): RunRequest | null {
  if (model.kind === "image") {
    if (!state.picture && !model.example.text) return null;
    return { model: model.id, ...(state.picture ? { picture: state.picture } : {}) };
  }
  const ids = state.ids.split(",").filter((id) => /^\d+$/.test(id)).map(Number).filter((id) => id < model.vocab_size);
  const own = state.text !== "";
  const request: RunRequest =
    model.kind === "language" && ids.length > 0
      ? { model: model.id, ids }
      : { model: model.id, text: own ? state.text : model.example.text };
  const target = state.target || (own ? "" : (model.example.target ?? ""));
  if (model.kind === "translation") {
    if (ids.length > 0) request.target_ids = ids;
    else if (target) request.target = target;
    else Object.assign(request, decodingOf(state, model));
  }
  if (state.second && model.kind === "classification") request.second = state.second;
  if (state.steer && state.steerAt)
    request.steer = [{ point: state.steerAt, toward: state.steer, away: state.away, strength: state.strength }];
  return request;
}
