// What the head of a request must be: sizes, version, Host, and how the body is framed.
import type { IncomingMessage } from 'node:http';
import { headLimits } from '../../domain/service/request-limits.ts';
import { type ApiError, unreadable } from '../errors.ts';

/** Characters of the address and of all headers that the parser takes; room is left to tell which of them is too long. */
export const mostOfHead = headLimits.addressBytes + 2 * headLimits.headerBytes;

/** RFC 3986: a name, an IPv4 address or an IPv6 address in brackets, and perhaps a port. */
const hostForm = /^(?:\[[0-9a-f:.]+\]|(?:[\w.~!$&'()*+,;=-]|%[0-9a-f]{2})*)(?::\d*)?$/i;

/** @throws ApiError with the reason; what follows on the connection must then not be trusted either */
export function checkHead({ url = '', httpVersion, rawHeaders, headers }: IncomingMessage): void {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') throw malformed('Send the request as HTTP/1.1.');
  if (url.length > headLimits.addressBytes)
    throw unreadable('uri_too_long', `The URL must be at most ${headLimits.addressBytes} bytes.`);
  let bytes = 0;
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string;
    bytes += name.length + (rawHeaders[index + 1] as string).length;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  if (bytes > headLimits.headerBytes)
    throw unreadable('headers_too_large', `The headers must be at most ${headLimits.headerBytes} bytes in total.`);
  if (hosts > 1) throw malformed('Send the Host header only once.');
  if (hosts === 0 && httpVersion === '1.1') throw malformed('Send the Host header.');
  if (!hostForm.test(headers.host ?? ''))
    throw malformed('The Host header must be a host name or an IP address, optionally with a port.');
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked')
    throw malformed('Send the body with Content-Length, or with Transfer-Encoding: chunked and no other encoding.');
}

/** The refusal of what the parser gave up. @param code what Node says went wrong */
export function unreadableRequest(code: string | undefined): ApiError {
  if (code === 'HPE_HEADER_OVERFLOW')
    return unreadable('headers_too_large', `The URL and the headers must be at most ${mostOfHead} bytes in total.`);
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return unreadable('request_timeout', 'The request was not completed in time.');
  return malformed('The request is not valid HTTP.');
}

const malformed = (message: string): ApiError => unreadable('malformed_request', message);
