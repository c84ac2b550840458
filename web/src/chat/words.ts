import type { WrittenToken } from "../data/write";

/** A part of an answer that is pointed at as a whole: a token, or several that form one character. */
export interface Word {
  text: string;
  tokens: number[]; // indices among the answer's tokens
}

/** Divides the text of a piece among its tokens, whose indices start at `first`. Tokens after the end of the text, and
 * special tokens, which have no text, belong to no word. */
export function divide(text: string, tokens: WrittenToken[], first: number): Word[] {
  const words: Word[] = [];
  let at = 0;
  let open: number[] = []; // indices of tokens that are not yet part of a word
  const add = (end: number, last: number[]) => {
    words.push({ text: text.slice(at, end), tokens: last });
    at = end;
  };
  tokens.forEach((token, i) => {
    const own = [token.text, token.text.trimStart()].find((one) => one !== "" && text.indexOf(one, at) >= 0);
    const place = own === undefined ? -1 : text.indexOf(own, at);
    if (own === undefined || (place > at && open.length === 0)) {
      open.push(first + i);
      return;
    }
    if (place > at) add(place, open);
    add(at + own.length, place > at || open.length === 0 ? [first + i] : [...open, first + i]);
    open = [];
  });
  if (at < text.length) {
    if (open.length > 0 || words.length === 0) add(text.length, open);
    else words[words.length - 1]!.text += text.slice(at);
  }
  return words;
}
