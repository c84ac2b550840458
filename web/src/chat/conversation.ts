import type { Source } from "../data/source";
import type { Model } from "../data/types";
import type { ChatMessage, WriteRequest, WrittenPiece, WrittenToken } from "../data/write";
import { divide, type Word } from "./words";

export interface Settings {
  system: string;
  temperature: number;
  topP: number;
  topK: number;
  length: number; // maximum number of tokens of an answer
  seed: number | null; // null: random
  stop: string;
  beam: number;
  looks: boolean;
}

export interface Message {
  role: "user" | "assistant";
  content: string;
  // An answer that the model wrote, and nobody edited, also has:
  tokens?: WrittenToken[];
  words?: Word[];
  prompt?: number[]; // token ids that the model read
  finish?: string; // "stop", "length", or "stopped" by the user
  milliseconds?: number;
}

/** What the model does with messages: its template makes a conversation of them, it continues them as one text, or it
 * translates each. */
export type Mode = "chat" | "continue" | "translate";

export function modeOf(model: Model): Mode {
  if (model.kind === "translation") return "translate";
  return model.serves?.chat ? "chat" : "continue";
}

type Watcher = (change: "text" | "all") => void;

/** The conversation with one model. It does not depend on the Chat view: an answer continues while another view is
 * open, and the messages survive a reload of the page. */
export class Conversation {
  messages: Message[] = [];
  settings: Settings;
  draft = "";
  error: unknown = null;
  removed: Message[] | null = null; // the messages before the last cut, to undo it
  watch: Watcher = () => {};
  private stopper: AbortController | null = null;

  constructor(
    readonly model: Model,
    private readonly source: Source,
  ) {
    this.settings = {
      system: "",
      temperature: model.kind === "translation" ? 0 : 0.7,
      topP: 1,
      topK: 0,
      length: 256,
      seed: null,
      stop: "",
      beam: 1,
      looks: false,
    };
    this.restore();
  }

  get mode(): Mode {
    return modeOf(this.model);
  }

  get isBusy(): boolean {
    return this.stopper !== null;
  }

  /** Sends a message. An empty one only continues a text. */
  send(text: string): Promise<void> {
    this.removed = null;
    if (text !== "") this.messages.push({ role: "user", content: text });
    return this.answer(this.messages.length);
  }

  /** Replaces a message. A new question is answered; messages after it go, unless each stands alone. */
  async edit(index: number, text: string): Promise<void> {
    const { role } = this.messages[index]!;
    this.keepForUndo();
    if (this.mode === "translate") this.messages.splice(index, role === "user" ? 2 : 1, { role, content: text });
    else this.messages.splice(index, Infinity, { role, content: text });
    if (role === "user") return this.answer(index + 1);
    this.changed();
  }

  /** Writes an answer again. */
  retry(index: number): Promise<void> {
    const isAnswer = this.messages[index]?.role === "assistant";
    if (isAnswer) this.keepForUndo();
    this.messages.splice(index, isAnswer ? (this.mode === "translate" ? 1 : Infinity) : 0);
    return this.answer(index);
  }

  clear(): void {
    this.stop();
    this.keepForUndo();
    this.messages = [];
    this.error = null;
    this.changed();
  }

  undo(): void {
    if (!this.removed) return;
    this.stop();
    this.messages = this.removed;
    this.removed = null;
    this.changed();
  }

  stop(): void {
    this.stopper?.abort();
    this.stopper = null;
  }

  note(change: Partial<Settings>): void {
    Object.assign(this.settings, change);
    this.store();
  }

  /** The messages as OpenAI's API takes them. */
  plain(end = this.messages.length): ChatMessage[] {
    const system = this.mode === "chat" ? this.settings.system.trim() : "";
    return [
      ...(system ? [{ role: "system" as const, content: system }] : []),
      ...this.messages.slice(0, end).map(({ role, content }) => ({ role, content })),
    ];
  }

  /** Everything, for the JSON export. */
  data(): unknown {
    return {
      model: this.model.serves!.name,
      settings: this.settings,
      messages: this.plain(),
      answers: this.messages.flatMap(({ tokens, prompt, finish, content }) =>
        tokens ? [{ content, finish, promptTokens: prompt, tokens }] : [],
      ),
    };
  }

  private keepForUndo(): void {
    this.stop();
    this.removed = this.messages.length > 0 ? [...this.messages] : null;
  }

  /** Writes the answer that becomes the message with this index. */
  private async answer(index: number): Promise<void> {
    const stopper = (this.stopper = new AbortController());
    const started = performance.now();
    const answer: Message = { role: "assistant", content: "", tokens: [], words: [] };
    this.messages.splice(index, 0, answer);
    this.error = null;
    this.watch("all");
    const isMine = () => this.stopper === stopper;
    try {
      await this.source.write(
        this.requestAt(index),
        (piece) => {
          add(answer, piece);
          if (isMine()) this.watch("text");
        },
        stopper.signal,
      );
      if (this.settings.beam > 1) await this.name(answer);
    } catch (error) {
      if (stopper.signal.aborted) answer.finish = "stopped";
      else this.error = error;
    }
    answer.milliseconds = performance.now() - started;
    if (answer.content === "" && (!answer.finish || answer.finish === "stopped"))
      this.messages = this.messages.filter((one) => one !== answer);
    if (!isMine() && !stopper.signal.aborted) return;
    if (isMine()) this.stopper = null;
    this.changed();
  }

  private requestAt(index: number): WriteRequest {
    const { length, system: _system, ...settings } = this.settings;
    const before = this.messages.slice(0, index);
    const input = {
      chat: () => ({ messages: this.plain(index) }),
      continue: () => ({ prompt: before.map((one) => one.content).join("") }),
      translate: () => ({ prompt: before[index - 1]!.content }),
    }[this.mode]();
    const beam = this.mode === "translate" ? settings.beam : 1;
    return { model: this.model.serves!.name, ...input, ...settings, beam, maxTokens: length };
  }

  /** Beam search returns only ids: asks for the texts of the tokens. */
  private async name(answer: Message): Promise<void> {
    const tokens = answer.tokens!;
    if (tokens.length === 0) return;
    const texts = await this.source.tokenTexts(
      this.model.serves!.name,
      tokens.map((token) => token.id),
    );
    answer.tokens = tokens.map((token, i) => ({ ...token, text: texts[i] ?? "" }));
    answer.words = divide(answer.content, answer.tokens, 0);
  }

  private changed(): void {
    this.store();
    this.watch("all");
  }

  private get key(): string {
    return `attend-chat ${this.model.serves!.name}`;
  }

  private store(): void {
    const { messages, settings } = this;
    try {
      sessionStorage.setItem(this.key, JSON.stringify({ messages, settings }));
    } catch {
      sessionStorage.removeItem(this.key); // too large: the page keeps it as long as it is open
    }
  }

  private restore(): void {
    try {
      const kept = JSON.parse(sessionStorage.getItem(this.key) ?? "{}") as Partial<Conversation>;
      this.messages = kept.messages ?? [];
      Object.assign(this.settings, kept.settings);
    } catch {
      // a storage that is switched off or full
    }
  }
}

function add(answer: Message, piece: WrittenPiece): void {
  answer.words!.push(...divide(piece.text, piece.tokens, answer.tokens!.length));
  answer.tokens!.push(...piece.tokens);
  answer.content += piece.text;
  if (piece.prompt) answer.prompt = piece.prompt;
  if (piece.finish) answer.finish = piece.finish;
}

const conversations = new Map<string, Conversation>();

/** The conversation of this page with a model. */
export function conversationWith(model: Model, source: Source): Conversation {
  const found = conversations.get(model.id) ?? new Conversation(model, source);
  conversations.set(model.id, found);
  return found;
}
