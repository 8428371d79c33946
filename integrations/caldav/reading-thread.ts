// The worker thread that parses responses of CalDAV servers.
import { parentPort } from 'node:worker_threads';
import { readBusyTimes } from './busy-times.ts';
import { readEvents, readProperties } from './multistatus.ts';
import type { Reading, ThreadMessage } from './reader.ts';
import { Unreadable } from './unreadable.ts';

function read(reading: Reading): unknown {
  const text = new TextDecoder('utf-8', { fatal: true }).decode(reading.body);
  return reading.kind === 'properties' ? readProperties(text) : readBusyTimes(readEvents(text), reading);
}

parentPort?.on('message', (reading: Reading) => {
  const { user, system } = process.threadCpuUsage();
  parentPort?.postMessage({ beganAt: (user + system) / 1000 } satisfies ThreadMessage);
  let answer: ThreadMessage;
  try {
    answer = { result: read(reading) };
  } catch (error) {
    // Error messages of libraries may quote the response.
    answer = {
      why: error instanceof Unreadable ? error.message : `the calendar data is invalid (${reading.kind})`,
    };
  }
  parentPort?.postMessage(answer);
});
