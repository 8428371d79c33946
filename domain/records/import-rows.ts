// Reads rows from the bytes of an import's file, CSV or NDJSON, with the exact place of each row.
//
// A row that cannot be read fails alone: reading goes on at the next line of the file. CSV parsers
// on npm give up there, and none of them says where a row with quoted line ends lies.
import { bodyLimits } from '../service/request-limits.ts';

/** Where a row begins: in bytes of the UTF-8 text, and by its number and line from 1. */
export interface RowPlace {
  byte: number;
  row: number;
  line: number;
}

/** A row of the file. */
export interface FileRow {
  place: RowPlace;
  /** Where the next row begins. */
  next: RowPlace;
  /** The cells of a CSV row; undefined for NDJSON, and if the row cannot be read. */
  cells?: string[];
  /** The text of an NDJSON line, or of a row that cannot be read. */
  text?: string;
  /** Why the row cannot be read. */
  flaw?: string;
}

const newline = 10;
const carriageReturn = 13;
const quote = 34;

/** The most bytes of a row, as of any other body. */
const rowLimit = bodyLimits.bytes;
/** Characters that are kept of a row that cannot be read. */
const keptText = 1000;

/** Splits a stream of UTF-8 bytes into rows. Push bytes, and take rows until there is none. */
export class RowReader {
  /** The byte of the delimiter; undefined for NDJSON. */
  readonly #delimiter: number | undefined;
  #bytes: Buffer = Buffer.alloc(0);
  /** Where the next row begins in #bytes. */
  #at = 0;
  #place: RowPlace;
  #isEnded = false;
  /** The first quote at or after #at, or a place before it that is outdated. */
  #nextQuote = -1;
  /** A line that is too long, while the rest of it is skipped. */
  #long: { place: RowPlace; text: string } | undefined;

  /** @param delimiter one character, or undefined for NDJSON */
  constructor(delimiter: string | undefined, place: RowPlace) {
    this.#delimiter = delimiter?.charCodeAt(0);
    this.#place = place;
  }

  push(bytes: Buffer): void {
    const rest = this.#bytes.subarray(this.#at);
    this.#bytes = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    this.#at = 0;
    this.#nextQuote = -1;
  }

  /** Says that no more bytes come. */
  end(): void {
    this.#isEnded = true;
  }

  /** Returns the next row; undefined if more bytes are needed, or if there are no more rows. */
  next(): FileRow | undefined {
    for (;;) {
      if (this.#long) return this.#skipLong();
      const bytes = this.#bytes;
      const start = this.#at;
      if (start >= bytes.length) return undefined;
      const found = bytes.indexOf(newline, start);
      if (found === -1 && !this.#isEnded) {
        if (bytes.length - start <= rowLimit) return undefined;
        this.#long = { place: this.#place, text: bytes.toString('utf8', start, start + keptText) };
        continue;
      }
      const end = found === -1 ? bytes.length : found;
      const isEmpty = end === start || (end === start + 1 && bytes[start] === carriageReturn);
      if (isEmpty) {
        this.#advance(found === -1 ? end : end + 1, 1, 0);
        continue;
      }
      if (this.#delimiter !== undefined && this.#quoteFrom(start) < end) return this.#takeQuoted(start, end);
      if (end - start > rowLimit) return this.#fail(start, end, tooLong);
      const text = bytes.toString('utf8', start, bytes[end - 1] === carriageReturn ? end - 1 : end);
      if (this.#delimiter === undefined) return this.#take(end, 1, { text });
      return this.#take(end, 1, { cells: text.split(String.fromCharCode(this.#delimiter)) });
    }
  }

  /** @param end of the row, before its line end */
  #take(end: number, lines: number, content: Pick<FileRow, 'cells' | 'text' | 'flaw'>): FileRow {
    const place = this.#place;
    this.#advance(Math.min(end + 1, this.#bytes.length), lines, 1);
    return { place, next: this.#place, ...content };
  }

  /** Fails one line. */
  #fail(start: number, end: number, flaw: string): FileRow {
    const text = this.#bytes.toString('utf8', start, Math.min(end, start + keptText));
    return this.#take(end, 1, { text, flaw });
  }

  /** Fails a line that is too long, once its end has arrived. */
  #skipLong(): FileRow | undefined {
    const { place, text } = this.#long as { place: RowPlace; text: string };
    const found = this.#bytes.indexOf(newline, this.#at);
    if (found === -1 && !this.#isEnded) {
      this.#advance(this.#bytes.length, 0, 0);
      return undefined;
    }
    this.#long = undefined;
    this.#advance(found === -1 ? this.#bytes.length : found + 1, 1, 1);
    return { place, next: this.#place, text, flaw: tooLong };
  }

  #advance(to: number, lines: number, rows: number): void {
    const { byte, row, line } = this.#place;
    this.#place = { byte: byte + to - this.#at, row: row + rows, line: line + lines };
    this.#at = to;
  }

  /** Returns where the first quote at or after a place is; Infinity without one. */
  #quoteFrom(start: number): number {
    if (this.#nextQuote < start) {
      const found = this.#bytes.indexOf(quote, start);
      this.#nextQuote = found === -1 ? Number.POSITIVE_INFINITY : found;
    }
    return this.#nextQuote;
  }

  /**
   * Takes a row with quotes, whose cells may contain line ends.
   * @param lineEnd the end of its first line
   */
  #takeQuoted(start: number, lineEnd: number): FileRow | undefined {
    const bytes = this.#bytes;
    const delimiter = this.#delimiter as number;
    const cells: string[] = [];
    let lines = 1;
    let at = start;
    for (;;) {
      if (bytes[at] !== quote) {
        const end = this.#lineEndFrom(at);
        if (end === undefined) return this.#await(start, lineEnd);
        const next = bytes.indexOf(delimiter, at);
        const isLast = next === -1 || next >= end;
        const to = isLast ? end : next;
        cells.push(bytes.toString('utf8', at, isLast && bytes[to - 1] === carriageReturn && to > at ? to - 1 : to));
        if (isLast) return this.#takeWithin(start, lineEnd, end, lines, cells);
        at = to + 1;
        continue;
      }
      const close = this.#closingQuote(at);
      if (close === undefined) return this.#await(start, lineEnd);
      const content = bytes.toString('utf8', at + 1, close).replaceAll('""', '"');
      for (let seen = bytes.indexOf(newline, at); seen !== -1 && seen < close; seen = bytes.indexOf(newline, seen + 1))
        lines += 1;
      cells.push(content);
      const after = bytes[close + 1] === carriageReturn && bytes[close + 2] !== undefined ? close + 2 : close + 1;
      if (bytes[close + 1] === delimiter) at = close + 2;
      else if (after >= bytes.length || bytes[after] === newline)
        return this.#takeWithin(start, lineEnd, Math.min(after, bytes.length), lines, cells);
      else return this.#fail(start, lineEnd, afterQuote);
    }
  }

  #takeWithin(start: number, lineEnd: number, end: number, lines: number, cells: string[]): FileRow {
    if (end - start > rowLimit) return this.#fail(start, lineEnd, tooLong);
    return this.#take(end, lines, { cells });
  }

  /** Returns the end of the line, or of the file; undefined if it has not arrived. */
  #lineEndFrom(at: number): number | undefined {
    const found = this.#bytes.indexOf(newline, at);
    if (found !== -1) return found;
    return this.#isEnded ? this.#bytes.length : undefined;
  }

  /**
   * Returns the quote that closes a cell; undefined if it has not arrived together with what
   * follows it.
   */
  #closingQuote(open: number): number | undefined {
    const bytes = this.#bytes;
    let at = open + 1;
    for (;;) {
      const found = bytes.indexOf(quote, at);
      if (found === -1 || (found + 2 >= bytes.length && !this.#isEnded)) return undefined;
      if (bytes[found + 1] !== quote) return found;
      at = found + 2;
    }
  }

  /** Waits for the rest of a row, unless it is too long or there is none: then its first line fails. */
  #await(start: number, lineEnd: number): FileRow | undefined {
    if (!this.#isEnded && this.#bytes.length - start <= rowLimit) return undefined;
    return this.#fail(start, lineEnd, unclosed);
  }
}

const tooLong = `The row has more than ${rowLimit} bytes.`;
const unclosed = 'A quoted cell is not closed. Write a quote inside of a cell twice.';
const afterQuote = 'A closing quote must be followed by a delimiter. Write a quote inside of a cell twice.';

/** The delimiters that `auto` chooses from. */
const delimiters = [',', ';', '\t', '|'];

/** Returns the delimiter that separates most columns of a header. */
export function detectDelimiter(text: string): string {
  const counts = new Map(delimiters.map((each) => [each, 0]));
  let isQuoted = false;
  for (const character of text) {
    if (character === '"') isQuoted = !isQuoted;
    else if (!isQuoted && character === '\n') break;
    else if (!isQuoted && counts.has(character)) counts.set(character, (counts.get(character) ?? 0) + 1);
  }
  const [most] = [...counts].toSorted(([, a], [, b]) => b - a);
  return most && most[1] > 0 ? most[0] : ',';
}

export type FileEncoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'windows-1252';

/**
 * Recognizes the encoding of a file.
 * @param asked the encoding that the caller named
 * @param sample the first bytes of the file
 * @param isUtf8 returns true if bytes are UTF-8
 * @returns the encoding and the length of the byte order mark
 */
export function detectEncoding(
  asked: 'auto' | 'utf-8' | 'utf-16' | 'windows-1252',
  sample: Buffer,
  isUtf8: (bytes: Buffer) => boolean,
): { encoding: FileEncoding; markBytes: number } {
  const [first, second, third] = sample;
  const isMarkedUtf8 = first === 0xef && second === 0xbb && third === 0xbf;
  if (asked === 'windows-1252') return { encoding: asked, markBytes: 0 };
  if (asked !== 'utf-8') {
    if (first === 0xff && second === 0xfe) return { encoding: 'utf-16le', markBytes: 2 };
    if (first === 0xfe && second === 0xff) return { encoding: 'utf-16be', markBytes: 2 };
    // Without a mark, the empty halves of Latin letters tell the order.
    const zeros = [0, 0] as [number, number];
    for (let index = 0; index < Math.min(sample.length, 2000); index += 1)
      if (sample[index] === 0) zeros[(index % 2) as 0 | 1] += 1;
    const isWide =
      Math.max(...zeros) * 4 > Math.min(sample.length, 2000) && Math.min(...zeros) * 8 < Math.max(...zeros);
    if (asked === 'utf-16' || isWide) return { encoding: zeros[0] > zeros[1] ? 'utf-16be' : 'utf-16le', markBytes: 0 };
  }
  if (asked === 'utf-8' || isMarkedUtf8 || isUtf8(wholeCharacters(sample)))
    return { encoding: 'utf-8', markBytes: isMarkedUtf8 ? 3 : 0 };
  return { encoding: 'windows-1252', markBytes: 0 };
}

/** Returns the sample without a character at its end that may continue behind it. */
function wholeCharacters(sample: Buffer): Buffer {
  for (let back = 1; back <= Math.min(3, sample.length); back += 1) {
    const byte = sample[sample.length - back] ?? 0;
    if (byte >= 0xc0) return sample.subarray(0, sample.length - back);
    if (byte < 0x80) break;
  }
  return sample;
}
