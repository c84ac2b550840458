import { en } from "./en";
import { zh } from "./zh";

export interface ViewText {
  name: string;
  text: string;
}

export interface StepText {
  title: string;
  text: string;
}

/** Every text of the page. The compiler checks that the Chinese version has every text of the English one. */
export type Messages = typeof en;

export type Language = "en" | "zh";
export const kLanguages: Record<Language, Messages> = { en, zh };

/** The requested language, or else the browser's. */
export function languageFor(wanted: string): Language {
  if (wanted === "en" || wanted === "zh") return wanted;
  return navigator.languages.some((name) => /^zh\b/i.test(name)) && !/^en\b/i.test(navigator.language) ? "zh" : "en";
}
