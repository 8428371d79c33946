// The job that tells calendars, as servers run it, in a process of its own that can be killed.
import { startCalendars } from '../../../jobs/scheduling/calendars.ts';
import { openParts } from '../../support/calendar-jobs.ts';

startCalendars(openParts(process.argv[2] ?? '').parts);
// The rounds alone keep no process alive.
setInterval(() => undefined, 60_000);
