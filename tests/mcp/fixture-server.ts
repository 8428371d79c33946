// A server with the fixtures of the conformance suite; tests start it.

import { serve } from '../../app/serve.ts';
import { openServerSecrets } from '../../db/client/server-secrets.ts';
import { readConfig } from '../../runtime/config.ts';
import { readSecretKey } from '../../runtime/credentials/secret-key.ts';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { newSigningKey } from '../../runtime/credentials/session-tokens.ts';
import { openLog } from '../../runtime/telemetry/log.ts';
import { fixtures } from './fixtures.ts';

const config = readConfig(process.env);
const openedLog = openLog(config.logLevel);
const { databaseUrl = '' } = config;
const secrets = new Secrets(readSecretKey(config.secretKey, config.dataDir));
const { signingKeys } = await openServerSecrets(databaseUrl, secrets, { newSigningKey });
const prepared = { databaseUrl, signingKeys };
const serving = await serve(config, prepared, openedLog, () => undefined, undefined, fixtures);
openedLog.log.info({ port: serving.port }, 'listening');
process.on('SIGTERM', async () => {
  await serving.stop();
  process.exit(0);
});
