import type { MakeView } from "../context";
import type { ViewName } from "../state";
import { ablateView } from "./ablate";
import { alignmentView } from "./alignment";
import { chatView } from "./chat";
import { compareView } from "./compare";
import { embeddingsView } from "./embeddings";
import { generationView } from "./generation";
import { headsView } from "./heads";
import { matrixView } from "./matrix";
import { modelView } from "./model";
import { neuronsView } from "./neurons";
import { stepsView } from "./steps";
import { trainingView } from "./training";

export const kMakers: Record<ViewName, MakeView> = {
  heads: headsView,
  model: modelView,
  matrix: matrixView,
  neurons: neuronsView,
  steps: stepsView,
  alignment: alignmentView,
  chat: chatView,
  generation: generationView,
  embeddings: embeddingsView,
  compare: compareView,
  training: trainingView,
  ablate: ablateView,
};
