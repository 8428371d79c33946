// Strings of the document as the server can hold them, checked at little cost: the validator's own formats also take spellings that the
// database refuses, and its lengths count every character of every string.
import { _, type Ajv2020, type KeywordCxt } from 'ajv/dist/2020.js';

const earliest = Date.parse('0001-01-01T00:00:00.000Z');
const latest = Date.parse('9999-12-31T23:59:59.999Z');
const dayPattern = /^(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])$/;
const timePattern =
  /^(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/** @param text begins with a day that fits the pattern */
function dayExists(text: string): boolean {
  const day = text.slice(8, 10);
  // The parser carries a 30 February over into March.
  return day <= '28' || new Date(`${text.slice(0, 10)}T00:00:00.000Z`).getUTCDate() === Number(day);
}

function isTime(text: string): boolean {
  if (!timePattern.test(text) || !dayExists(text)) return false;
  // Only in these years can the offset lead out of what can be held.
  if (!text.startsWith('0001') && !text.startsWith('9999')) return true;
  const time = Date.parse(text);
  return time >= earliest && time <= latest;
}

/** By the name in the document. */
export const strictFormats: Readonly<Record<string, RegExp | ((text: string) => boolean)>> = {
  uuid: /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i,
  date: (text) => dayPattern.test(text) && dayExists(text),
  'date-time': isTime,
  'entity-tags': /^\s*(?:\*|(?:W\/)?"[^"]*"(?:\s*,\s*(?:W\/)?"[^"]*")*)\s*$/,
};

type LengthRule = (text: string, limit: number) => boolean;

// A string has at most as many characters as code units, and at least half as many: few must be counted.
const isLonger: LengthRule = (text, limit) => text.length > limit && characters(text) > limit;
const isShorter: LengthRule = (text, limit) =>
  text.length < limit || (text.length < 2 * limit && characters(text) < limit);

function characters(text: string): number {
  let count = 0;
  for (const _character of text) count += 1;
  return count;
}

/** Replaces the keywords maxLength and minLength of a validator. */
export function refineLengths(ajv: Ajv2020): void {
  refineLength(ajv, 'maxLength', isLonger);
  refineLength(ajv, 'minLength', isShorter);
}

function refineLength(ajv: Ajv2020, keyword: string, breaks: LengthRule): void {
  ajv.removeKeyword(keyword);
  ajv.addKeyword({
    keyword,
    before: 'pattern',
    type: 'string',
    schemaType: 'number',
    error: { message: keyword, params: ({ schemaCode }) => _`{limit: ${schemaCode}}` },
    code(context: KeywordCxt) {
      const rule = context.gen.scopeValue('func', { ref: breaks });
      context.fail(_`${rule}(${context.data}, ${context.schemaCode})`);
    },
  });
}
