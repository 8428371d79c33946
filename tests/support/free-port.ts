// A free port for programs that tests start.
export { findFreePort } from '../../app/embedded-postgres/free-port.ts';
