// Connections of outgoing calls, on which no error is without a listener.
import { connect as connectSocket, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { OutgoingError, settleOnce, type TimeLimit } from './faults.ts';

/**
 * Connects to one of the addresses.
 * @param host the name that they were found under, or the address itself
 * @throws OutgoingError
 */
export function openConnection(
  host: string,
  port: number,
  addresses: readonly string[],
  limit: TimeLimit,
): Promise<Socket> {
  return settleOnce('connect', (resolve, reject) => {
    const socket = connectSocket({ host, port, lookup: pinnedTo(addresses) });
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
 * Speaks TLS over a connection. It begins only once there is one: given a name, TLS would connect by itself, with a
 * socket that nobody listens to if that fails at once.
 * @throws OutgoingError
 */
export function secureConnection(
  connection: Socket,
  host: string,
  ca: string | undefined,
  limit: TimeLimit,
): Promise<Socket> {
  return settleOnce('tls', (resolve, reject) => {
    const secured = connectTls({
      socket: connection,
      // What the certificate must be for; an address is not sent as a server name.
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

/** Always the addresses that were checked, whatever the name leads to by now. It answers later, as a look-up does. */
function pinnedTo(addresses: readonly string[]): LookupFunction {
  const found = addresses.map((address) => ({ address, family: isIP(address) }));
  const [first = { address: '', family: 0 }] = found;
  return (_, options, callback) => {
    if (options.all) process.nextTick(callback, null, found);
    else process.nextTick(callback, null, first.address, first.family);
  };
}
