import type { Source } from "./data/source";
import type { Attention, Info, Model, Run } from "./data/types";
import type { Picture } from "./draw/picture";
import type { Theme } from "./draw/theme";
import type { Messages } from "./i18n";
import type { State } from "./state";

/** What a view is given. */
export interface Context {
  source: Source;
  info: Info;
  model: Model;
  run: Run;
  state: State;
  t: Messages;
  theme: Theme;
  /** Changes the state and draws the view anew. */
  update(change: Partial<State>): void;
  /** Changes the address only: the view has already drawn it. */
  note(change: Partial<State>): void;
  /** Shows one line above the view; an empty one takes it away. */
  fail(error: unknown): void;
}

/** What a view gives back. */
export interface View {
  element: HTMLElement;
  pictures: Picture[];
  /** Everything shown, for the export as JSON. */
  data(): unknown;
  close?(): void;
}

export type MakeView = (context: Context) => Promise<View>;

/** The attention looked at: the state's, or the nearest there is; -1 is the one that tells most, the last between two
 * texts, else the first. */
export function attentionOf(run: Run, index: number): Attention {
  if (index < 0) return run.attention.filter((one) => one.kind === "cross").pop() ?? run.attention[0]!;
  return run.attention[Math.min(Math.max(0, index), run.attention.length - 1)]!;
}

export function headOf(attention: Attention, head: number): number {
  return Math.min(Math.max(0, head), attention.heads - 1);
}

export function clamp(value: number, count: number): number {
  return Math.min(Math.max(0, value), Math.max(0, count - 1));
}
