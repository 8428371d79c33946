// Opens connections for outgoing calls. Every socket has an error listener from the start.
import { connect as connectSocket, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { OutgoingError, settleOnce, type TimeLimit } from './faults.ts';

/**
 * Connects to one of the addresses.
 * @param host the name that resolved to them, or the address itself
 * @throws OutgoingError
 */
export function openConnection(
  host: string,
  port: number,
  addresses: readonly string[],
  limit: TimeLimit,
): Promise<Socket> {
  return settleOnce('connect', (resolve, reject) => {
    const socket = connectSocket({ host, port, lookup: lookUpPinned(addresses) });
    const fail = (error: Error): void => {
      reject(error);
      socket.destroy();
    };
    socket.on('error', fail);
    socket.once('close', () => reject(new OutgoingError('connect')));
    socket.once('connect', () => resolve(socket));
    limit.onTimeout(fail);
  });
}

/**
 * Starts TLS on an open connection. Given a host name, TLS would open its own socket, which has no
 * error listener yet if it fails immediately.
 * @throws OutgoingError
 */
export function startTls(connection: Socket, host: string, ca: string | undefined, limit: TimeLimit): Promise<Socket> {
  return settleOnce('tls', (resolve, reject) => {
    const secured = connectTls({
      socket: connection,
      // The certificate must match it. An IP address is not sent as server name.
      host,
      servername: isIP(host) === 0 ? host : '',
      ALPNProtocols: ['http/1.1'],
      ...(ca === undefined ? {} : { ca }),
    });
    const fail = (error: Error): void => {
      reject(error);
      secured.destroy();
    };
    secured.on('error', fail);
    secured.once('close', () => reject(new OutgoingError('tls')));
    secured.once('secureConnect', () => resolve(secured));
    limit.onTimeout(fail);
  });
}

/**
 * Returns a lookup function with the addresses that were checked, so that a changed DNS record
 * cannot bypass the check. Calls back asynchronously, as a real look-up does.
 */
function lookUpPinned(addresses: readonly string[]): LookupFunction {
  const found = addresses.map((address) => ({ address, family: isIP(address) }));
  const [first = { address: '', family: 0 }] = found;
  return (_, options, callback) => {
    if (options.all) process.nextTick(callback, null, found);
    else process.nextTick(callback, null, first.address, first.family);
  };
}
