// Children of records for tests: accounts with notes, tasks and lists of each kind.
import { expect } from 'vitest';
import { type Answer, expectStatus, type Json } from './client.ts';
import { createRecord, recordsPath } from './records.ts';

export type Child = 'notes' | 'tags' | 'tasks' | 'activities' | 'messages';

export function childrenPath(object: string, id: string, child: Child): string {
  return `${recordsPath(object, id)}/${child}`;
}

/**
 * Creates an account.
 * @returns its id
 */
export async function newAccount(key: string): Promise<string> {
  return (await createRecord(key, 'accounts', { name: 'A' })).id;
}

/** Returns one page of children of a record. */
export async function listChildren(
  key: string,
  object: string,
  id: string,
  child: Child,
  query: Record<string, string | number> = {},
): Promise<Json> {
  return (await expectStatus(200, 'GET', childrenPath(object, id, child), { key, query })).body.data;
}

/** Returns all ids of a list page by page, while a new child is added. */
export async function walkChildren(
  key: string,
  object: string,
  id: string,
  child: Child,
  limit: number,
  between: () => Promise<unknown> = async () => undefined,
): Promise<string[]> {
  const seen: string[] = [];
  let cursor: string | null = null;
  do {
    const query = { limit, ...(cursor === null ? {} : { cursor }) };
    const data: Json = await listChildren(key, object, id, child, query);
    seen.push(...listIds(data[child]));
    expect(data.has_more).toBe(data.next_cursor !== null);
    cursor = data.next_cursor;
    await between();
  } while (cursor !== null);
  return seen;
}

export function listIds(items: readonly Json[]): string[] {
  return items.map((item) => item.id);
}

/**
 * Creates a note on a record.
 * @returns the note
 */
export async function addNote(key: string, object: string, id: string, content = 'N'): Promise<Json> {
  return (await expectStatus(201, 'POST', childrenPath(object, id, 'notes'), { key, body: { content } })).body.data
    .note;
}

/** Returns the minimal body of a task with more fields. */
export function task(more: object = {}): object {
  return { title: 'Call back', scheduled_at: '2036-01-01T09:00:00Z', ...more };
}

/** Creates a task on an account, and expects a status. */
export function addTask(key: string, status: number, id: string, body: object): Promise<Answer> {
  return expectStatus(status, 'POST', childrenPath('accounts', id, 'tasks'), { key, body });
}

/** Expects that every limit out of range is clamped. */
export async function expectClampedLimits(key: string, child: Child): Promise<void> {
  const on = await newAccount(key);
  for (const limit of [-1, 0, 101, 1000])
    await expectStatus(200, 'GET', childrenPath('accounts', on, child), { key, query: { limit } });
}
