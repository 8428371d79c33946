// The label of a record for people.
import type { ShownRecord } from './view.ts';

/**
 * Returns the name or title of a record, the name of the person, or otherwise its first text.
 * @param searched fields that are tried last, in this order
 */
export function getRecordLabel(record: ShownRecord, searched: readonly { name: string }[]): string | null {
  const text = (name: string): string => (typeof record[name] === 'string' ? (record[name] as string).trim() : '');
  const person = [text('first_name'), text('last_name')].filter(Boolean).join(' ');
  const texts = [text('name'), person, text('title'), text('email'), ...searched.map(({ name }) => text(name))];
  return texts.find(Boolean) ?? null;
}
