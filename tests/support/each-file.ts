// Runs before each test file: what the one before it in this process had chosen is forgotten.
import fc from 'fast-check';
import { vi } from 'vitest';
import { useServer } from './client.ts';
import { patientlyWaiting } from './patience.ts';
import { readSeed } from './seed.ts';
import { forgetServer } from './sessions.ts';
import { useDatabase } from './tenants.ts';

useServer(undefined);
forgetServer();
await useDatabase(undefined);
Object.assign(vi, patientlyWaiting);
fc.configureGlobal({ seed: readSeed('SEED') });
