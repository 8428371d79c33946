// Behind `make rotate-signing-key`: performs one step of a rotation of the signing key.
import type { JWK } from 'jose';
import { findRunning } from '../app/embedded-postgres/database.ts';
import { changeSigningKeys } from '../db/client/server-secrets.ts';
import { readConfig } from '../runtime/config.ts';
import { readSecretKey } from '../runtime/credentials/secret-key.ts';
import { Secrets } from '../runtime/credentials/secrets.ts';
import { newSigningKey } from '../runtime/credentials/session-tokens.ts';

type Keys = readonly [JWK, ...JWK[]];

/** The change of each step, and what to do before the next. The first key signs. */
const steps: Readonly<Record<string, { change(keys: Keys): Promise<Keys>; next: string }>> = {
  publish: {
    async change(keys) {
      if (keys.length > 1) throw new Error('A rotation is in progress. Continue with STEP=sign or STEP=retire.');
      return [...keys, await newSigningKey(`session-${Date.now()}`)];
    },
    next: 'The new key is published. Restart all servers, wait ten minutes, and continue with STEP=sign.',
  },
  sign: {
    async change([first, second, ...rest]) {
      if (!second) throw new Error('There is only one key. Start with STEP=publish.');
      return [second, first, ...rest];
    },
    next: 'The new key signs tokens. Restart all servers, wait two hours until all tokens of the old key have expired, and continue with STEP=retire.',
  },
  retire: {
    async change([first, second]) {
      if (!second) throw new Error('There is only one key. Start with STEP=publish.');
      return [first];
    },
    next: 'The old key is removed. Restart all servers. Tokens that it signed are rejected from then on.',
  },
};

async function run(): Promise<void> {
  const step = steps[process.env.STEP?.trim() ?? ''];
  if (!step) throw new Error(`STEP must be one of ${Object.keys(steps).join(', ')}, used in this order.`);
  const config = readConfig(process.env);
  const url = config.databaseUrl ?? findRunning(config.dataDir);
  if (url === undefined) throw new Error('The embedded database only runs with the server. Start the server first.');
  const secrets = new Secrets(readSecretKey(config.secretKey, config.dataDir));
  await changeSigningKeys<JWK>(url, secrets, (keys) => step.change(keys));
  process.stderr.write(`${step.next}\n`);
}

run().catch((error: unknown) => {
  process.stderr.write(`Nothing was changed. ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
