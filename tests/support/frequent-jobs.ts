// Loaded into a server first: no job waits longer for its next run than JOB_INTERVAL_MS.
import { createRequire } from 'node:module';

const mostMs = Number(process.env.JOB_INTERVAL_MS);

// Beside the program, which may be a copy of the project's own.
const load = createRequire(process.argv[1] ?? '');
const { backgroundJobs, servingJobs } = load('./jobs/index.ts') as typeof import('../../jobs/index.ts');

for (const job of [...backgroundJobs, ...servingJobs]) job.intervalMs = Math.min(job.intervalMs, mostMs);
