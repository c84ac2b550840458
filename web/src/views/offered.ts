import type { Source } from "../data/source";
import type { Model } from "../data/types";
import { kViews, type ViewName } from "../state";

/** Views that show the model instead of a run. They work for a text that is too long for the model. */
export const kWithoutRun: ViewName[] = ["chat", "embeddings", "training"];

const attends = (model: Model) => model.architecture !== "rnn";
const hasResiduals = (model: Model) => !model.architecture.startsWith("rnn");

/** Whether a model has a view. A file lacks the views that need a server. */
const kOffered: Record<ViewName, (model: Model, source: Source) => boolean> = {
  flow: attends,
  heads: attends,
  model: attends,
  matrix: attends,
  neurons: attends,
  steps: attends,
  alignment: (model, source) => attends(model) && model.kind === "translation" && source.has("alignment"),
  generation: (model, source) =>
    (model.kind === "translation" || model.kind === "language") && source.has("generation"),
  chat: (model, source) =>
    (model.kind === "translation" || model.kind === "language") && source.kind === "server" && model.serves !== undefined,
  embeddings: (_, source) => source.has("embeddings"),
  compare: attends,
  training: (model, source) => source.has("training") && model.training !== false,
  ablate: (model, source) => attends(model) && source.has("runs"),
  lens: (model, source) => hasResiduals(model) && source.has("tools"),
  attribute: (model, source) => attends(model) && source.has("tools"),
  patch: (model, source) => attends(model) && source.has("tools"),
  probe: (model, source) => hasResiduals(model) && model.kind !== "image" && source.has("tools"),
  steer: (model, source) => attends(model) && model.kind !== "image" && source.has("runs"),
};

/** The views of a model, in the order of the menu. */
export function offeredViews(model: Model, source: Source): ViewName[] {
  return kViews.filter((view) => kOffered[view](model, source));
}
