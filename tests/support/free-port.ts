// A free port for programs that tests start.
export { freePort } from '../../app/embedded-postgres/free-port.ts';
