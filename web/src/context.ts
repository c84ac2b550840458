import type { Source } from "./data/source";
import type { Attention, Info, Model, Run } from "./data/types";
import type { Picture } from "./draw/picture";
import type { Theme } from "./draw/theme";
import type { Messages } from "./i18n";
import type { Selection } from "./selection";
import type { State } from "./state";

/** The arguments of a view. */
export interface Context {
  source: Source;
  info: Info;
  model: Model;
  run: Run;
  state: State;
  selection: Selection; // views of models without attention must not use it
  t: Messages;
  theme: Theme;
  /** Changes the state and draws the view again. */
  update(change: Partial<State>): void;
  /** Changes only the address: the view has already drawn the change. */
  note(change: Partial<State>): void;
  /** Shows an error above the view; an empty one clears it. */
  fail(error: unknown): void;
}

/** The result of a view. */
export interface View {
  element: HTMLElement;
  /** Whether the view shows a training's changes by itself. */
  follows?(): boolean;
  pictures: Picture[];
  /** The sentence below the view's name, if the view's usual one does not fit this model. */
  lead?: string;
  /** The selected parts of the model, for the names and headings of exported files: layer, head. */
  caption?(): string[];
  /** The meaning of the pictures' colours, for exported pictures: names and colours. */
  legend?(): [string, string][];
  /** Further members of the exported JSON, beside `data`. */
  more?(): Record<string, unknown>;
  /** All data shown, for the JSON export. */
  data(): unknown;
  close?(): void;
}

export type MakeView = (context: Context) => Promise<View>;

/** The selected attention; an index out of range gives the nearest one. -1 selects the default: the last
 * cross-attention, or the first attention if there is none. */
export function attentionOf(run: Run, index: number): Attention {
  if (index < 0) return run.attention.filter((one) => one.kind === "cross").pop() ?? run.attention[0]!;
  return run.attention[Math.min(Math.max(0, index), run.attention.length - 1)]!;
}

export function clamp(value: number, count: number): number {
  return Math.min(Math.max(0, value), Math.max(0, count - 1));
}
