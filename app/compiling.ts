// What V8 compiles beside a server that ends.
import { setFlagsFromString } from 'node:v8';

/**
 * Has V8 compile nothing more: to be called while requests still finish, so that what is being compiled is done before the exit. A compilation
 * that needs memory then waits for the main thread, which waits in its exit for the compilation: such a process never ends (Node's issue 54918).
 */
export function compileNothingMore(): void {
  for (const compiler of ['sparkplug', 'maglev', 'turbofan']) setFlagsFromString(`--no-${compiler}`);
}
