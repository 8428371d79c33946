// The sample receivers of the guide accept genuine webhooks and reject others.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { composeTestBody, toEventId } from '../../domain/automation/webhook-bodies.ts';
import { buildSignatures, newSigningKeyPair, newSigningSecret } from '../../runtime/outbound/signed-posts.ts';
import { document } from '../support/document.ts';
import { findFreePort } from '../support/free-port.ts';
import { findProgram, skipNote } from '../support/programs.ts';

const { tags } = document as unknown as { tags: { name: string; description: string }[] };
const guide = tags.find(({ name }) => name === 'Webhooks')?.description ?? '';
const sampleIn = (language: string): string =>
  new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``).exec(guide)?.[1] ?? '';

const folder = resolve(process.env.TEST_DATA_DIR ?? '.test-data', `guide-${process.pid}`);
const sdk = resolve('sdk/src/index.ts');
let child: ChildProcess | undefined;

afterEach(() => {
  child?.kill('SIGKILL');
});

/** Starts a receiver. @returns its output, and a function that sends it a request */
async function start(program: string, file: string, source: string, secret: string) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, file), source);
  const port = await findFreePort();
  const started = spawn(program, [join(folder, file)], {
    env: { PATH: process.env.PATH ?? '', PORT: String(port), WEBHOOK_SECRET: secret, WEBHOOK_PUBLIC_KEY: secret },
  });
  child = started;
  let printed = '';
  started.stdout.on('data', (chunk: Buffer) => {
    printed += chunk.toString();
  });
  const post = async (headers: Record<string, string>, body: string): Promise<number> =>
    (await fetch(`http://127.0.0.1:${port}/crm`, { method: 'POST', headers, body })).status;
  await vi.waitFor(() => post({}, '{}'));
  return { printed: () => printed.trim().split('\n'), post };
}

test('accepts genuine webhooks and rejects others in the receiver with a public key', async () => {
  const source = [...guide.matchAll(/```ts\n([\s\S]*?)```/g)][1]?.[1] ?? '';
  const { signingKey, publicKey } = newSigningKeyPair();
  const code = source.replace("'@headless-crm/sdk'", JSON.stringify(sdk));
  const { printed, post } = await start(findProgram('node') ?? '', 'public-key.ts', code, publicKey);
  const id = '019a9f2e-7c41-7b20-9c4d-3e7d6f5c2b18';
  const body = composeTestBody('record.created', id, true, new Date());
  const signed = (key: string): Record<string, string> =>
    buildSignatures({ secrets: [], signingKeys: [key], messageId: toEventId(id), body, sentAt: new Date() });
  expect(await post(signed(signingKey), body)).toBe(204);
  expect(await post(signed(newSigningKeyPair().signingKey), body)).toBe(400);
  expect(await post(signed(signingKey), body.replace('record.created', 'record.deleted'))).toBe(400);
  await vi.waitFor(() => expect(printed()).toEqual([`record.created ${toEventId(id)}`]));
});

const programs = [
  { language: 'ts', program: 'node', file: 'receiver.ts' },
  { language: 'python', program: 'python', file: 'receiver.py' },
] as const;

describe.each(programs)('the receiver in $language', ({ language, program, file }) => {
  test.skipIf(!findProgram(program))(
    `accepts genuine webhooks once and rejects others in the receiver of the guide${skipNote(program)}`,
    async () => {
      const secret = newSigningSecret();
      const source = sampleIn(language).replace("'@headless-crm/sdk'", JSON.stringify(sdk));
      const { printed, post } = await start(findProgram(program) ?? '', file, source, secret);
      const id = '019a9f2e-7c41-7b20-9c4d-3e7d6f5c2b18';
      const body = composeTestBody('record.created', id, true, new Date());
      const signed = (key: string, sentAt = new Date()): Record<string, string> =>
        buildSignatures({ secrets: [key], messageId: toEventId(id), body, sentAt });
      expect(await post(signed(secret), body)).toBe(204);
      expect(await post(signed(secret), body)).toBe(204);
      const both = buildSignatures({
        secrets: [newSigningSecret(), secret],
        messageId: toEventId(id),
        body,
        sentAt: new Date(),
      });
      expect(await post(both, body)).toBe(204);
      const old = new Date(Date.now() - 302_000);
      for (const [headers, sent] of [
        [signed(secret), body.replace('record.created', 'record.deleted')],
        [signed(newSigningSecret()), body],
        [signed(secret, old), body],
        [{}, body],
        [{ 'service-signature': 'nonsense' }, body],
      ] as const)
        expect(await post(headers, sent)).toBe(400);
      await sleep(50);
      expect(printed()).toEqual([`record.created ${toEventId(id)}`]);
    },
  );
});
