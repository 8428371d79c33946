// Names and labels from tenants: normalization, and reserved names.

const longestName = 60;

/** Names with a special meaning in requests, responses, filters or in JavaScript. */
export const reservedNames: ReadonlySet<string> = new Set([
  'id',
  'object',
  'object_id',
  'record',
  'record_id',
  'records',
  'company_id',
  'tenant_id',
  'branch_id',
  'team_id',
  'created_at',
  'updated_at',
  'deleted_at',
  'created_by',
  'updated_by',
  'deleted_by',
  'merged_into',
  'test_mode',
  'is_test',
  'version',
  'etag',
  'module',
  'kind',
  'type',
  'label',
  'fields',
  'custom',
  'custom_fields',
  'tags',
  'sla',
  'sla_due_at',
  'sla_status',
  'metadata',
  'data',
  'meta',
  'error',
  'success',
  'details',
  'filter',
  'sort',
  'limit',
  'cursor',
  'next_cursor',
  'has_more',
  'include',
  'expand',
  'expanded',
  'and',
  'or',
  'not',
  'null',
  'true',
  'false',
  'password',
  'token',
  'secret',
  // Writes accept it instead of assigned_to.
  'assigned_to_email',
  'constructor',
  'prototype',
]);

/**
 * Returns the name trimmed, without accents and in lower case. Everything but letters and digits
 * becomes one `_`. At most 60 characters.
 */
export function normalizeName(text: string): string {
  return text
    .trim()
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .slice(0, longestName);
}

/** Returns true if a normalized name can be the name of a field. */
export function isFieldName(name: string): boolean {
  return /^[a-z][a-z0-9_]*$/.test(name);
}

/** Returns true for names that no field may have, including all that begin with an underscore. */
export function isReservedName(text: string): boolean {
  return text.trim().startsWith('_') || reservedNames.has(normalizeName(text));
}

/**
 * Returns a name that a field can have instead of a reserved one.
 * @param isTaken returns true if the object has a field with a name
 */
export function suggestName(reserved: string, isTaken: (name: string) => boolean): string {
  // Leaves room for a prefix and a number.
  const bare = normalizeName(reserved)
    .slice(0, longestName - 12)
    .replace(/^_+|_+$/g, '');
  const candidates = [
    bare,
    `custom_${bare}`,
    ...Array.from({ length: 100 }, (_, index) => `custom_${bare}_${index + 2}`),
  ];
  const isFree = (name: string): boolean => isFieldName(name) && !isReservedName(name) && !isTaken(name);
  // An object has at most 100 fields, so one of the candidates is free unless nothing but underscores was sent.
  return candidates.find(isFree) ?? 'custom_field';
}

// A comment or a tag, as HTML reads them: `>` within quotes does not end a tag, and an unfinished one reaches to the end.
const markup = /<(?:!--[\s\S]*?(?:-->|$)|[a-z/!?](?:"[^"]*(?:"|$)|'[^']*(?:'|$)|[^"'>])*(?:>|$))/gi;

/**
 * Returns a text without markup and control characters, on one line; empty if nothing else was in
 * it.
 */
export function toPlainText(text: string): string {
  let plain = text.replace(/[\s\p{Cc}]+/gu, ' ');
  for (let before = ''; before !== plain; ) {
    // The text around a tag can form another tag, as in <<b>script>.
    before = plain;
    plain = plain.replace(markup, '');
  }
  return plain.replace(/ +/g, ' ').trim();
}
