// The calendar job as servers run it, in a process that can be killed.
import { openCalendarServer } from '../../support/calendar-jobs.ts';
import { startNamedJobs } from '../../support/job-runs.ts';

const { pools, services } = openCalendarServer(process.argv[2] ?? '');
startNamedJobs(['calendars'], pools, { calendars: services });
// The intervals are unreferenced and keep no process alive.
setInterval(() => undefined, 60_000);
