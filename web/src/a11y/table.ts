import { el, languageOf } from "../dom";

/** The numbers of a picture, for users who cannot see it or want to copy them. */
export interface Table {
  columns: string[];
  rows: (string | number)[][]; // the first cell of each row is its name
  note?: string;
}

const kMostRows = 1000;

export function tableElement(caption: string, table: Table): HTMLElement {
  const head = el("tr", {}, ...table.columns.map((name) => el("th", { attributes: { scope: "col" } }, name)));
  const rows = table.rows
    .slice(0, kMostRows)
    .map((cells) =>
      el(
        "tr",
        {},
        ...cells.map((cell, i) =>
          i === 0
            ? el("th", { attributes: { scope: "row", ...language(cell) } }, shown(cell))
            : el("td", { attributes: language(cell) }, shown(cell)),
        ),
      ),
    );
  const box = el(
    "div",
    { class: "table", attributes: { tabindex: 0, role: "region", "aria-label": caption } },
    el("table", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, ...rows)),
  );
  return el("div", {}, table.note ? el("p", { class: "note" }, table.note) : null, box);
}

/** A collapsed table of a picture's numbers. It is built when it is first opened. */
export function tableBehind(summary: string, caption: string, table: () => Table): HTMLElement {
  const details = el(
    "details",
    {
      class: "behind",
      on: {
        toggle: () => {
          if (details.open && details.childElementCount === 1) details.append(tableElement(caption, table()));
        },
      },
    },
    el("summary", {}, summary),
  );
  return details;
}

function language(cell: string | number): Record<string, string> {
  const name = typeof cell === "string" ? languageOf(cell) : "";
  return name ? { lang: name } : {};
}

export function shown(cell: string | number): string {
  if (typeof cell === "string") return cell;
  if (Number.isInteger(cell)) return String(cell);
  if (cell === -Infinity) return "−∞";
  return cell.toFixed(6);
}
