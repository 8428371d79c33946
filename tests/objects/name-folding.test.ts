// Case-insensitive names of configured lists, folded equally by the server and by PostgreSQL.
import { describe, expect, test } from 'vitest';
import { foldName } from '../../domain/objects/name-folding.ts';
import { call, expectStatus } from '../support/client.ts';
import { createRecord } from '../support/records.ts';
import { database, newTenant } from '../support/tenants.ts';

const same: readonly (readonly string[])[] = [
  ['İzmir', 'izmir', 'IZMIR', 'İZMİR', 'I\u0307zmir'],
  ['Isparta', 'ISPARTA', 'ısparta'],
  ['Straße', 'STRASSE', 'strasse'],
  ['Café', 'CAFÉ', 'Cafe\u0301'],
  ['ΟΔΟΣ', 'οδος'],
  ['ПОЧТА', 'почта'],
  ['ﬁle', 'FILE'],
  ['Ǆ', 'ǆ', 'ǅ'],
];

describe('names', () => {
  test('compares names without case in every script', () => {
    for (const spellings of same) expect([...new Set(spellings.map(foldName))]).toHaveLength(1);
    expect(foldName('Cafe')).not.toBe(foldName('Café'));
  });

  test('folds names in PostgreSQL exactly as in the server', async () => {
    // Excludes the Georgian capitals of Unicode 11, which the ICU of a PostgreSQL may not know yet.
    // The server compares names under the lock of the workspace, so the index is a second guard.
    const letters = Array.from({ length: 0x2c00 }, (_, code) => code)
      .filter((code) => code >= 0x20 && (code < 0x1c80 || code >= 0x1cc0))
      .map((code) => String.fromCodePoint(code));
    const texts = [...same.flat(), ...letters, ...letters.map((letter) => `a${letter}b`)];
    const rows = await database()<{ text: string; folded: string }[]>`
      select text, fold_name(text) as folded from unnest(${texts}::text[]) as text`;
    expect(rows.filter(({ text, folded }) => folded !== foldName(text))).toEqual([]);
    expect(rows).toHaveLength(texts.length);
  });

  test('finds a source in any case, and rejects a second source that differs only in case', async () => {
    const { key } = await newTenant();
    await expectStatus(201, 'POST', '/v1/settings/sources', { key, body: { name: 'İzmir' } });
    for (const source of ['izmir', 'İZMİR', 'IZMIR']) {
      const lead = await createRecord(key, 'leads', { first_name: 'Ada', email: 'ada@bluelake.example', source });
      expect(lead.source).toBe('İzmir');
    }
    const twin = await call('POST', '/v1/settings/sources', { key, body: { name: 'izmir' } });
    expect([twin.status, twin.body.error.code]).toEqual([409, 'ALREADY_EXISTS']);
  });
});
