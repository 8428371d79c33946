// Validates strings: strict formats, normalized dates and times, and cheap length checks.
import { _, type Ajv2020, type CodeKeywordDefinition, type KeywordCxt } from 'ajv/dist/2020.js';
import formatVocabulary from 'ajv/dist/vocabularies/format/format.js';
import { readDay, readTime } from '../../domain/objects/times.ts';

/** By format name. Ajv's own formats also accept values that the database rejects. */
export const strictFormats: Readonly<Record<string, RegExp>> = {
  uuid: /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i,
  'entity-tags': /^\s*(?:\*|(?:W\/)?"[^"]*"(?:\s*,\s*(?:W\/)?"[^"]*")*)\s*$/,
};

/**
 * Replaces the placeholder of the checkout session id in a return URL, but only after the host.
 * Other braces stay, and make the URL invalid.
 */
export function replaceSessionId(address: string): string {
  const [, start = '', rest = ''] = /^([^/]*\/\/[^/?#]*)(.*)$/s.exec(address) ?? [];
  return start === '' ? address : start + rest.replaceAll('{CHECKOUT_SESSION_ID}', 'id');
}

/** Returns the normalized string, or undefined if it is invalid. */
type Reader = (text: string) => string | undefined;

const startOfDay: Reader = (text) => inRange(readTime(text));
const endOfDay: Reader = (text) => inRange(readTime(text, 'end'));

const inRange = (time: ReturnType<typeof readTime>) => (time === 'out of range' ? undefined : time);

/**
 * @param ofDay the schema's `x-bare-date`: whether a bare date means the start or the end of the
 * day
 */
function findReader(format: string, ofDay: unknown): Reader | undefined {
  if (format === 'date') return readDay;
  if (format === 'date-time') return ofDay === 'end' ? endOfDay : startOfDay;
  return undefined;
}

/** Accepts dates and times in every form that records accept, and normalizes them for handlers. */
export function readTimes(ajv: Ajv2020): void {
  const standard = formatVocabulary.default as CodeKeywordDefinition;
  ajv.removeKeyword('format');
  ajv.addKeyword({
    ...standard,
    code(context: KeywordCxt, type) {
      const { gen, data, it, schema, parentSchema } = context;
      const reader = type === 'string' ? findReader(schema, parentSchema['x-bare-date']) : undefined;
      if (!reader) return standard.code(context, type);
      const read = gen.const('read', _`${gen.scopeValue('func', { ref: reader })}(${data})`);
      context.fail(_`${read} === undefined`);
      gen.if(_`${read} !== undefined`, () => gen.assign(_`${it.parentData}[${it.parentDataProperty}]`, read));
    },
  });
}

type LengthRule = (text: string, limit: number) => boolean;

// A string has at most as many characters as code units, and at least half as many, so few strings
// must be counted.
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
