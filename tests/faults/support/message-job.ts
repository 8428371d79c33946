// The jobs that send messages and carry decisions out, in a process of its own that can be killed.
import { startMessageSending } from '../../../jobs/messaging/message-sending.ts';
import { startRunDecisions } from '../../../jobs/messaging/run-decisions.ts';
import { openMessageParts } from '../../support/message-jobs.ts';

const [url = '', smtpUrl = '', messagingUrl = ''] = process.argv.slice(2);
const { parts } = await openMessageParts(url, smtpUrl, messagingUrl);
startMessageSending(parts);
startRunDecisions(parts);
// The rounds alone keep no process alive.
setInterval(() => undefined, 60_000);
