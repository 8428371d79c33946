// Settings of servers in fault tests.
import { testSettings } from '../../support/setup.ts';

export const secretKey = '5e'.repeat(32);

export const settingsFor = (databaseUrl: string, folder: string): Record<string, string> => ({
  ...testSettings,
  DATABASE_URL: databaseUrl,
  SECRET_KEY: secretKey,
  DATA_DIR: folder,
});
