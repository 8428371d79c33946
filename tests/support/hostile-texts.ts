// Texts that keep careless patterns and parsers busy, and the places of a body that accept texts.
import type { DeclaredOperation } from './document.ts';
import { bodySchema, plain, type Schema } from './schemas.ts';

const long = 100_000;

/** By purpose. */
export const hostileTexts: Readonly<Record<string, string>> = {
  'one letter': 'a'.repeat(long),
  'one digit': '9'.repeat(long),
  'one space': ' '.repeat(long),
  'one at sign': '@'.repeat(long),
  'one dot': '.'.repeat(long),
  'one plus sign': '+'.repeat(long),
  'one accent on top of another': `a${'\u0301'.repeat(long / 2)}`,
  'accents out of their order': `a${'\u0301\u0323'.repeat(long / 4)}`,
  'markup within markup': '<'.repeat(long / 3) + 'b>'.repeat(long / 3),
  'one family of joined people': '👩‍👩‍👧‍👦'.repeat(4000),
  'an address that never ends': `${'a.'.repeat(long / 2)}@`,
  'an address of dots': `a@${'a.'.repeat(long / 2)}`,
  'a telephone number with many brackets': `+${'(1)'.repeat(long / 3)}`,
  'a telephone number with many extensions': `+49 30 1234567${';ext='.repeat(long / 5)}`,
  'a link with many slashes': `https://${'/'.repeat(long)}`,
  'a link with many labels': `https://${'a.'.repeat(long / 2)}com`,
  'a date with many digits': `2026-01-01T00:00:00.${'0'.repeat(long)}Z`,
  'an address of the Internet with many colons': ':'.repeat(long),
};

type Place = readonly (string | number)[];

/** Returns the places of texts in a body: every named text field, and every text in the example. */
export function textPlaces(operation: DeclaredOperation, example: unknown): Place[] {
  const places = new Map<string, Place>();
  const add = (place: Place): void => void places.set(place.join('.'), place);
  const visit = (given: Schema, place: Place): void => {
    const schema = plain(given);
    if (place.length > 4) return;
    if (([] as unknown[]).concat(schema.type).includes('string')) add(place);
    for (const [name, property] of Object.entries(schema.properties ?? {})) visit(property, [...place, name]);
    if (schema.items) visit(schema.items, [...place, 0]);
    for (const choice of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) visit(choice, place);
  };
  visit(bodySchema(operation) ?? {}, []);
  const look = (value: unknown, place: Place): void => {
    if (typeof value === 'string') add(place);
    else if (value !== null && typeof value === 'object')
      for (const [name, inner] of Object.entries(value))
        look(inner, [...place, Array.isArray(value) ? Number(name) : name]);
  };
  look(example, []);
  return [...places.values()];
}

/** Returns a body with a text in one place. */
export function withText(body: unknown, [step, ...rest]: Place, text: string): unknown {
  if (step === undefined) return text;
  if (typeof step === 'number') {
    const items = Array.isArray(body) ? body : [];
    return [...items.slice(0, step), withText(items[step], rest, text), ...items.slice(step + 1)];
  }
  const fields =
    body !== null && typeof body === 'object' && !Array.isArray(body) ? (body as Record<string, unknown>) : {};
  return { ...fields, [step]: withText(fields[step], rest, text) };
}
