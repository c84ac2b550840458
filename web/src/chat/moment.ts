import type { Model } from "../data/types";
import type { State, ViewName } from "../state";
import type { Message } from "./conversation";

/** The state in which another view shows how a token of an answer was chosen. A language model has then read the tokens
 * before it, and the last of them is the query. For a translation, the whole target is shown, and the query is the
 * token before. */
export function momentOf(model: Model, question: string, answer: Message, token: number, view: ViewName): Partial<State> {
  const written = answer.tokens!.map((one) => one.id);
  const common = { view, model: model.id, key: -1, layer: -1, head: -1, heads: [], held: "", off: "", zoom: "", second: "", target: "" };
  if (model.kind === "translation")
    return { ...common, text: question === model.example.text ? "" : question, ids: written.join(","), query: token };
  const before = [...answer.prompt!, ...written.slice(0, token)];
  return { ...common, text: "", ids: before.join(","), query: before.length - 1 };
}

/** The views that can show a moment. */
export function momentViews(model: Model): ViewName[] {
  return model.kind === "translation" ? ["alignment", "heads", "steps"] : ["heads", "steps", "matrix"];
}
