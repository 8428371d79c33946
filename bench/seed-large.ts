// make seed-large: fills the database for the figures search and list-page.
import { openLarge } from './large.ts';

const start = performance.now();
const database = await openLarge((text) => void process.stdout.write(`${text}\n`));
await database.stop();
process.stdout.write(`ready after ${((performance.now() - start) / 1000).toFixed(1)} s\n`);
