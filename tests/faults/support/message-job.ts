// The jobs that send messages and execute decisions, in a separate process that can be killed.
import { startNamedJobs } from '../../support/job-runs.ts';
import { openMessageServer } from '../../support/message-jobs.ts';

const [url = '', smtpUrl = '', messagingUrl = ''] = process.argv.slice(2);
const { pools, services } = await openMessageServer(url, smtpUrl, messagingUrl);
startNamedJobs(['messages', 'run-decisions'], pools, { messages: services });
// The intervals are unreferenced and keep no process alive.
setInterval(() => undefined, 60_000);
