// The label of a record for people.
import type { ShownRecord } from './view.ts';

/**
 * Returns the first of these that has a text: the name, the name of the person, the title, the
 * email address, the searched fields in their order. null if none has.
 * @param searched the searched fields of the object
 */
export function getRecordLabel(record: ShownRecord, searched: readonly { name: string }[]): string | null {
  const text = (name: string): string => (typeof record[name] === 'string' ? (record[name] as string).trim() : '');
  const person = [text('first_name'), text('last_name')].filter(Boolean).join(' ');
  const texts = [text('name'), person, text('title'), text('email'), ...searched.map(({ name }) => text(name))];
  return texts.find(Boolean) ?? null;
}
