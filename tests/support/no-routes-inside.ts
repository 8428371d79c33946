// Loaded into a server without routes: forwards tests and the database, and answers DNS queries.
import { createSocket } from 'node:dgram';
import { join } from 'node:path';
import { forward } from './socket-forwarding.ts';

const {
  NO_ROUTES_FOLDER: folder = '',
  NO_ROUTES_DATABASE_PORT: databasePort = '',
  NO_ROUTES_PORT: port = '',
} = process.env;

forward({ path: join(folder, 'database.sock') })
  .listen(Number(databasePort), '127.0.0.1')
  .unref();
forward({ port: Number(port), host: '127.0.0.1' })
  .listen(join(folder, 'server.sock'))
  .unref();

/** Type codes of DNS questions. */
const kinds = { A: 1, AAAA: 28 };
const four = Buffer.from([8, 8, 8, 8]);
const six = Buffer.from('26064700000000000000000000001111', 'hex');
/** By the first label of the requested name. */
const addresses: Readonly<Record<string, Readonly<Record<number, Buffer>>>> = {
  six: { [kinds.AAAA]: six },
  four: { [kinds.A]: four },
  both: { [kinds.A]: four, [kinds.AAAA]: six },
};

/** Answers a DNS question (RFC 1035, 4.1). */
function answer(question: Buffer): Buffer {
  const labels: string[] = [];
  let at = 12;
  for (let length = question.readUInt8(at); length > 0; length = question.readUInt8(at)) {
    labels.push(question.toString('latin1', at + 1, at + 1 + length).toLowerCase());
    at += 1 + length;
  }
  const kind = question.readUInt16BE(at + 1);
  const asked = question.subarray(12, at + 5);
  const found = labels.at(-1) === 'test' ? addresses[labels.at(-2) ?? '']?.[kind] : undefined;
  const head = Buffer.alloc(12);
  question.copy(head, 0, 0, 2);
  head.writeUInt16BE(0x8180, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(found ? 1 : 0, 6);
  if (!found) return Buffer.concat([head, asked]);
  const record = Buffer.alloc(12);
  record.writeUInt16BE(0xc00c, 0);
  record.writeUInt16BE(kind, 2);
  record.writeUInt16BE(1, 4);
  record.writeUInt32BE(60, 6);
  record.writeUInt16BE(found.length, 10);
  return Buffer.concat([head, asked, record, found]);
}

const names = createSocket('udp4', (question, { port: to, address }) => names.send(answer(question), to, address));
names.bind(53, '127.0.0.1').unref();
