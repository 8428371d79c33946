// Formats of the document as the server can hold them: the validator's own also take spellings that the database refuses.

const earliest = Date.parse('0001-01-01T00:00:00.000Z');
const latest = Date.parse('9999-12-31T23:59:59.999Z');

function isDay(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false;
  const time = Date.parse(`${text}T00:00:00.000Z`);
  // The parser carries a 30 February over into March.
  return time >= earliest && new Date(time).toISOString().startsWith(text);
}

function isTime(text: string): boolean {
  const parts = /^(.{10})T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/.exec(text);
  const time = Date.parse(text);
  return parts !== null && isDay(parts[1] ?? '') && time >= earliest && time <= latest;
}

/** By the name in the document. */
export const strictFormats: Readonly<Record<string, RegExp | ((text: string) => boolean)>> = {
  uuid: /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i,
  date: isDay,
  'date-time': isTime,
};
