// Runs before each test file: resets what the previous file in this process has chosen.
import fc from 'fast-check';
import { expect, vi } from 'vitest';
import { useServer } from './client.ts';
import { patientlyPolling, patientlyWaiting } from './patience.ts';
import { readSeed } from './seed.ts';
import { forgetServer } from './sessions.ts';
import { useDatabase } from './tenants.ts';

useServer(undefined);
forgetServer();
await useDatabase(undefined);
Object.assign(vi, patientlyWaiting);
Object.assign(expect, patientlyPolling);
fc.configureGlobal({ seed: readSeed('SEED') });
