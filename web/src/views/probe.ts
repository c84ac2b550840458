import type { Context, View } from "../context";
import { controls } from "../controls";
import type { Word } from "../data/tools";
import { visible } from "../data/words";
import { append, el, languageOf } from "../dom";
import { attentionSelect, headSelect, note, section } from "./common";
import { badgesOf, whenDetected } from "./detect";
import { textField, useTool } from "./tool";

/** What a head's OV circuit writes and its QK circuit looks for, in words. */
export async function probeView(context: Context): Promise<View> {
  const { source, model, run, state, t, update } = context;
  if (!source.has("tools")) return { element: note(t.missing("tools")), pictures: [], data: () => null };
  if (model.kind === "image" || run.attention.length === 0 || run.attention[0]!.stack === "rnn")
    return { element: note(t.tools.probeNone), pictures: [], data: () => null };
  const { attention, head } = context.selection;
  const words = state.wordList.split(/\s+/).filter(Boolean);
  const bar = controls(
    attentionSelect(context),
    headSelect(context),
    textField("word-list", t.tools.words, state.wordList, t.tools.wordsHint, (wordList) => update({ wordList })),
  );
  const tool = useTool(context, "probe", { module: attention.path, head, top: 8, ...(words.length ? { words } : {}) });
  if (!tool.result)
    return { element: el("div", {}, bar, tool.pending), pictures: [], data: () => null, close: tool.close };
  const found = tool.result;
  const badges = el("span", {});
  const hint = el("p", { class: "note", attributes: { role: "status" } });
  whenDetected(context, (kinds) =>
    append(badges, badgesOf(context, kinds, attention.index, head, (text) => (hint.textContent = text))),
  );
  const table = (title: string, help: string, id: string, more: keyof Row, less: keyof Row, names: [string, string]) =>
    section(
      title,
      note(help),
      el(
        "div",
        { class: "table", attributes: { tabindex: 0, role: "region", "aria-label": title } },
        el(
          "table",
          { attributes: { id } },
          el("thead", {}, el("tr", {}, ...[t.tools.token, ...names].map((name) => el("th", { attributes: { scope: "col" } }, name)))),
          el(
            "tbody",
            {},
            ...found.tokens.map((one) =>
              el(
                "tr",
                {},
                el("th", { attributes: { scope: "row", lang: languageOf(one.token.text) } }, visible(one.token.text)),
                el("td", {}, wordsList(one[more])),
                el("td", {}, wordsList(one[less])),
              ),
            ),
          ),
        ),
      ),
    );
  const element = el(
    "div",
    {},
    bar,
    el(
      "p",
      { class: "lead" },
      found.copying === null ? t.tools.noCopying : t.tools.copying(found.copying, found.sampled),
      " ",
      badges,
    ),
    hint,
    table(t.tools.ovTitle, t.tools.ovHelp, "ov-table", "raises", "lowers", [t.tools.raises, t.tools.lowers]),
    table(t.tools.qkTitle, t.tools.qkHelp, "qk-table", "seeks", "avoids", [t.tools.seeks, t.tools.avoids]),
    note(t.tools.probeHelp),
  );
  return { element, pictures: [], data: () => found };
}

interface Row {
  raises: Word[];
  lowers: Word[];
  seeks: Word[];
  avoids: Word[];
}

function wordsList(words: Word[]): HTMLElement {
  return el(
    "span",
    { class: "word-list" },
    ...words.map((word) =>
      el("span", { attributes: { lang: languageOf(word.text), title: word.value.toFixed(3) } }, visible(word.text) || "∅"),
    ),
  );
}
