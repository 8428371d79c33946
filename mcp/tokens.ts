// Counts the tokens of a text as models do: with the vocabulary o200k.
import { lazily } from '../runtime/lazily.ts';

/** The most tokens that the text of one result may have. */
export const maxResultTokens = 8000;

/**
 * Characters that are encoded at once. Encoding an unbroken run takes time that grows with the square of its length:
 * 100,000 letters took 10 seconds in one piece and take less than 0.1 seconds in pieces.
 */
const maxPiece = 128;

/** Distinct pieces of words whose encoding is kept; the library's default of 100,000 would keep customers' data. */
const cachedMerges = 2000;

/** Counts until `limit` is exceeded: a larger result means "more than `limit`", not how many. */
export type TokenCounter = (text: string, limit: number) => number;

/** Loads the vocabulary when a result may be too large: it takes about 0.3 s and 70 MB of a process, once. */
export const loadTokenCounter = lazily(async (): Promise<TokenCounter> => {
  const { countTokens, setMergeCacheSize } = await import('gpt-tokenizer/encoding/o200k_base');
  setMergeCacheSize(cachedMerges);
  // Texts that look like control tokens, such as <|endoftext|>, are texts like any other.
  const options = { disallowedSpecial: new Set<string>() };
  return (text, limit) => {
    let count = 0;
    for (let start = 0; start < text.length && count <= limit; ) {
      const { end, isExact } = endOfPiece(text, start);
      count += countTokens(text.slice(start, end), options) + (isExact ? 0 : 1);
      start = end;
    }
    return count;
  };
});

/** Whether a text needs no counting: a token stands for at least one byte. */
export const surelyFits = (text: string, limit: number): boolean => Buffer.byteLength(text) <= limit;

const wordEnd = /[a-z0-9]/i;
const wordGap = /[\s"{}[\]:,]/;

/**
 * The end of the piece that starts at `start`. Between a word and what follows it the encoder splits a text anyway, so that
 * a cut there changes no count; a cut anywhere else may.
 */
function endOfPiece(text: string, start: number): { end: number; isExact: boolean } {
  const most = start + maxPiece;
  if (most >= text.length) return { end: text.length, isExact: true };
  for (let end = most; end > start; end -= 1)
    if (wordGap.test(text.charAt(end)) && wordEnd.test(text.charAt(end - 1))) return { end, isExact: true };
  const splitsPair = (text.codePointAt(most - 1) ?? 0) > 0xffff;
  return { end: splitsPair ? most - 1 : most, isExact: false };
}
