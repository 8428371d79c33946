// Loaded into a server first: limits the interval of every job to JOB_INTERVAL_MS.
import { createRequire } from 'node:module';

const mostMs = Number(process.env.JOB_INTERVAL_MS);

// Resolves next to the program, which may be a copy of the project.
const load = createRequire(process.argv[1] ?? '');
const { backgroundJobs, servingJobs } = load('./jobs/index.ts') as typeof import('../../jobs/index.ts');

for (const job of [...backgroundJobs, ...servingJobs]) job.intervalMs = Math.min(job.intervalMs, mostMs);
