// Applies the migrations to DATABASE_URL, or to the embedded database, and ends.
import { borrowEmbedded } from '../app/embedded-postgres/database.ts';
import { explainFailure } from '../app/start-failure.ts';
import { migrate } from '../db/client/migrate.ts';
import { readConfig } from '../runtime/config.ts';

const say = (text: string): void => void process.stdout.write(`${text}\n`);

try {
  const { databaseUrl, dataDir } = readConfig(process.env);
  const borrowed = databaseUrl === undefined ? await borrowEmbedded(dataDir, say) : undefined;
  try {
    const applied = await migrate(databaseUrl ?? (borrowed?.url as string));
    say(applied.length > 0 ? `Applied ${applied.join(', ')}` : 'The database is up to date');
  } finally {
    await borrowed?.giveBack();
  }
} catch (error) {
  process.stderr.write(`Applying the migrations failed. ${explainFailure(error)}\n`);
  process.exitCode = 1;
}
