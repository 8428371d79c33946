// A port that nobody listens on, for programs that tests start.
export { freePort } from '../../app/embedded-postgres/free-port.ts';
