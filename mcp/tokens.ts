// Counts the tokens of a text with the vocabulary o200k.
import { makeLazy } from '../runtime/lazily.ts';

/** The maximum number of tokens in the text of one result. */
export const maxResultTokens = 8000;

/**
 * Characters that are encoded in one call. The time to encode an unbroken run grows with the square
 * of its length: 100,000 letters took 10 seconds in one piece and take less than 0.1 seconds in
 * pieces.
 */
const maxPiece = 128;

/**
 * The size of the encoder's cache of word pieces. The library's default of 100,000 would retain
 * customer data.
 */
const cachedMerges = 2000;

/**
 * Counts until `limit` is exceeded. A larger result means "more than `limit`", not the exact
 * number.
 */
export type TokenCounter = (text: string, limit: number) => number;

/**
 * Loads the vocabulary when a result may be too large. Loading takes about 0.3 s and 70 MB once per
 * process.
 */
export const loadTokenCounter = makeLazy(async (): Promise<TokenCounter> => {
  const { countTokens, setMergeCacheSize } = await import('gpt-tokenizer/encoding/o200k_base');
  setMergeCacheSize(cachedMerges);
  // Text that looks like a control token, such as <|endoftext|>, is encoded as plain text.
  const options = { disallowedSpecial: new Set<string>() };
  return (text, limit) => {
    let count = 0;
    for (let start = 0; start < text.length && count <= limit; ) {
      const { end, isExact } = findPieceEnd(text, start);
      count += countTokens(text.slice(start, end), options) + (isExact ? 0 : 1);
      start = end;
    }
    return count;
  };
});

/** Returns true if a text fits without counting. A token is at least one byte. */
export const fitsWithoutCounting = (text: string, limit: number): boolean => Buffer.byteLength(text) <= limit;

const wordEnd = /[a-z0-9]/i;
const wordGap = /[\s"{}[\]:,]/;

/**
 * Returns the end of the piece that starts at `start`. The encoder always splits between a word and
 * what follows, so a cut there does not change the count. A cut elsewhere may change it.
 */
function findPieceEnd(text: string, start: number): { end: number; isExact: boolean } {
  const most = start + maxPiece;
  if (most >= text.length) return { end: text.length, isExact: true };
  for (let end = most; end > start; end -= 1)
    if (wordGap.test(text.charAt(end)) && wordEnd.test(text.charAt(end - 1))) return { end, isExact: true };
  const splitsPair = (text.codePointAt(most - 1) ?? 0) > 0xffff;
  return { end: splitsPair ? most - 1 : most, isExact: false };
}
