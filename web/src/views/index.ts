import type { MakeView } from "../context";
import type { ViewName } from "../state";
import { ablateView } from "./ablate";
import { alignmentView } from "./alignment";
import { chatView } from "./chat";
import { attributeView } from "./attribute";
import { compareView } from "./compare";
import { embeddingsView } from "./embeddings";
import { flowView } from "./flow";
import { generationView } from "./generation";
import { headsView } from "./heads";
import { lensView } from "./lens";
import { matrixView } from "./matrix";
import { modelView } from "./model";
import { neuronsView } from "./neurons";
import { patchView } from "./patch";
import { probeView } from "./probe";
import { steerView } from "./steer";
import { stepsView } from "./steps";
import { trainingView } from "./training";

export const kMakers: Record<ViewName, MakeView> = {
  flow: flowView,
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
  lens: lensView,
  attribute: attributeView,
  patch: patchView,
  probe: probeView,
  steer: steerView,
};
