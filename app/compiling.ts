// Keeps V8's compiler threads from blocking the exit of a server.
import { setFlagsFromString } from 'node:v8';

/**
 * Stops JIT compilation. Call it while requests still finish, so that running compilations end
 * before the exit. A compilation that needs memory waits for the main thread, whose exit waits for
 * the compilation: the process never ends (Node's issue 54918).
 */
export function stopCompiling(): void {
  for (const compiler of ['sparkplug', 'maglev', 'turbofan']) setFlagsFromString(`--no-${compiler}`);
}
