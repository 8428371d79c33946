// Keeps V8's compiler threads from blocking the exit of a server.
import { setFlagsFromString } from 'node:v8';

/**
 * Stops compilation. Call it while requests still finish, so that compilations under way end before the exit. A compilation that needs
 * memory waits for the main thread, and the main thread's exit waits for the compilation: the process never ends (Node's issue 54918).
 */
export function compileNothingMore(): void {
  for (const compiler of ['sparkplug', 'maglev', 'turbofan']) setFlagsFromString(`--no-${compiler}`);
}
