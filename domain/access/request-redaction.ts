// Removes secrets from what the request log stores of rejected requests.

/** Names of fields with secret values, such as `password`, `client_secret` and `slot_token`. */
const secretName = /pass(?:word|phrase|code)|secret|token|credential|authorization|api[-_]?key|private[-_]?key|cookie/i;
/** Names of fields whose values are HTTP headers: any of them may be a secret, however it is named. */
const headersName = /^headers?$/i;
/** Keys of this API, credentials as headers carry them, and JSON Web Tokens, in any text. */
const secretText =
  /\b(?:(?:svc|legacy)_(?:live|test)_[0-9a-f]{32}|whsec_[A-Za-z0-9+/=_-]{8,}|(?:Bearer|Basic) +[\w.~+/=-]+|eyJ[\w-]{8,}\.[\w-]+\.[\w-]+)/g;
/** The user and password in front of the host of a URL. */
const urlUser = /(:\/\/)[^\s/?#@]{1,256}@/g;
/** Parameters of a URL with secret values. */
const urlSecret = /([?&][\w-]{0,40}(?:token|secret|key|sig|password)[\w-]{0,20}=)[^&\s#]+/gi;

const removed = '[removed]';

/** Maximum bytes of a stored body or error. */
const maxLoggedBytes = 8192;

/** Levels of objects and lists that are stored. Valid bodies have fewer. */
const maxDepth = 20;

/** Returns a text without keys of this API, credentials of headers, and secrets of URLs. */
export function redactText(text: string): string {
  return text.replace(secretText, removed).replace(urlUser, `$1${removed}@`).replace(urlSecret, `$1${removed}`);
}

/** Returns a copy of a JSON value without secrets, and without what is nested too deep. */
function redact(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return redactText(value);
  if (value === null || typeof value !== 'object') return value;
  if (depth === maxDepth) return removed;
  if (Array.isArray(value)) return value.map((each) => redact(each, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      if (headersName.test(name)) return [name, removeValues(inner, depth + 1)];
      if (secretName.test(name) && inner !== null && typeof inner !== 'boolean') return [name, removed];
      return [name, redact(inner, depth + 1)];
    }),
  );
}

/** Returns a copy of a JSON value that keeps only the names of its fields, and nulls. */
function removeValues(value: unknown, depth: number): unknown {
  if (value === null) return value;
  if (typeof value !== 'object' || depth === maxDepth) return removed;
  if (Array.isArray(value)) return value.map((each) => removeValues(each, depth + 1));
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, removeValues(inner, depth + 1)]));
}

/**
 * Returns the JSON text of a request body without secrets, cut off after 8 KB; null if the text is
 * not JSON, whose secrets cannot be found.
 */
export function toLoggedBody(text: string): string | null {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return null;
  }
  const bytes = new TextEncoder().encode(JSON.stringify(redact(body)));
  if (bytes.length <= maxLoggedBytes) return new TextDecoder().decode(bytes);
  // A character that was cut in half is removed.
  return new TextDecoder().decode(bytes.subarray(0, maxLoggedBytes)).replace(/\ufffd$/, '');
}

/** The error of a response. */
export interface LoggedError {
  code: string;
  message: string;
  details?: unknown;
}

/** Returns the JSON text of an error without secrets, and without its details if they exceed 8 KB. */
export function toLoggedError(error: LoggedError): string {
  const { code, message, details } = redact({
    code: error.code,
    // Not enumerable in an Error.
    message: error.message,
    details: error.details,
  }) as LoggedError;
  const whole = JSON.stringify({ code, message, details });
  return whole.length <= maxLoggedBytes ? whole : JSON.stringify({ code, message: message.slice(0, 1000) });
}
