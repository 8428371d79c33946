// Validates the head of a request: sizes, HTTP version, Host, and the framing of the body.
import type { IncomingMessage } from 'node:http';
import { headLimits } from '../../domain/service/request-limits.ts';
import { type ApiError, unreadable } from '../errors.ts';

/**
 * Maximum characters of URL and headers for Node's parser. Larger than each limit, so that the
 * error can say which part is too long.
 */
export const maxHeadSize = headLimits.addressBytes + 2 * headLimits.headerBytes;

/**
 * RFC 3986: a host name, an IPv4 address, or an IPv6 address in brackets, optionally with a port.
 */
const hostForm = /^(?:\[[0-9a-f:.]+\]|(?:[\w.~!$&'()*+,;=-]|%[0-9a-f]{2})*)(?::\d*)?$/i;

/**
 * @throws ApiError with the reason. The caller must then close the connection, since its framing
 * cannot be trusted.
 */
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

/**
 * Returns the error for a request that Node's parser rejected.
 * @param code Node's error code
 */
export function unreadableRequest(code: string | undefined): ApiError {
  if (code === 'HPE_HEADER_OVERFLOW')
    return unreadable('headers_too_large', `The URL and the headers must be at most ${maxHeadSize} bytes in total.`);
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return unreadable('request_timeout', 'The request was not completed in time.');
  return malformed('The request is not valid HTTP.');
}

const malformed = (message: string): ApiError => unreadable('malformed_request', message);
