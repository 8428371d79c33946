// Rules for what tenants add to their webhook requests: their own headers and their own secret.
import type { FieldProblem } from '../objects/field-values.ts';

/** Characters of a header name, and of all names and values together. */
const limits = { name: 100, all: 4096 };

/** The characters of a token, of which RFC 9110 builds header names. */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Printable ASCII, with spaces and tabs only inside. */
const text = /^[!-~]([\t -~]*[!-~])?$/;

/** Rejected names, each group with the rest of a sentence that says why. */
const rejected: readonly { names: RegExp; why: string }[] = [
  {
    names: /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|http2-settings)$/,
    why: 'belongs to the connection (hop-by-hop), so you cannot set it',
  },
  { names: /^host$/, why: 'is the host of url, so you cannot set it' },
  { names: /^(content-.*|expect)$/, why: 'describes the body, which the service writes, so you cannot set it' },
  { names: /^(webhook-.*|service-.*|user-agent)$/, why: 'is set by the service, so you cannot set it' },
];

/** Returns what is wrong with a tenant's own headers: their names, their values, and their size. */
export function findHeaderProblems(headers: Readonly<Record<string, string>>): FieldProblem[] {
  const seen = new Set<string>();
  const problems = Object.entries(headers).flatMap(([name, value]): FieldProblem[] => {
    const lower = name.toLowerCase();
    const isRepeated = seen.has(lower);
    seen.add(lower);
    const problem = isRepeated
      ? ({ code: 'DUPLICATE', message: 'is sent twice: header names ignore case' } as const)
      : (findNameProblem(name) ?? findValueProblem(value));
    const shown = name.length > 60 ? `${name.slice(0, 60)}…` : name;
    return problem
      ? [{ field: `headers.${shown}`, code: problem.code, message: `headers.${shown} ${problem.message}.` }]
      : [];
  });
  const size = Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  if (problems.length > 0 || size <= limits.all) return problems;
  const message = `headers must have at most ${limits.all} characters, names and values together.`;
  return [{ field: 'headers', code: 'TOO_LONG', message }];
}

type Problem = Pick<FieldProblem, 'code' | 'message'>;

function findNameProblem(name: string): Problem | undefined {
  if (name.length > limits.name)
    return { code: 'TOO_LONG', message: `must have a name of at most ${limits.name} characters` };
  if (!token.test(name))
    return { code: 'INVALID_FORMAT', message: 'must have a name of letters, digits and the characters of HTTP tokens' };
  const why = rejected.find(({ names }) => names.test(name.toLowerCase()))?.why;
  return why === undefined ? undefined : { code: 'INVALID_OPTION', message: why };
}

function findValueProblem(value: string): Problem | undefined {
  if (text.test(value)) return undefined;
  return {
    code: 'INVALID_FORMAT',
    message: 'must be printable ASCII, without line breaks, and without spaces at its start or end',
  };
}

/** Bytes of a tenant's own secret. */
const secretBytes = { min: 24, max: 64 };

/** Returns what is wrong with a tenant's own secret, of the pattern `whsec_…`. */
export function findSecretProblem(secret: string): FieldProblem | undefined {
  const bytes = decodeBase64(secret.slice('whsec_'.length));
  if (bytes === undefined) {
    const message = 'secret must be whsec_ and standard base64 with padding.';
    return { field: 'secret', code: 'INVALID_FORMAT', message };
  }
  const { min, max } = secretBytes;
  if (bytes >= min && bytes <= max) return undefined;
  const code = bytes < min ? 'TOO_SHORT' : 'TOO_LONG';
  return { field: 'secret', code, message: `secret must contain ${min} to ${max} bytes in base64. It has ${bytes}.` };
}

/** Returns the number of bytes; undefined if another text would decode to them, too. */
function decodeBase64(encoded: string): number | undefined {
  try {
    const bytes = atob(encoded);
    return btoa(bytes) === encoded ? bytes.length : undefined;
  } catch {
    return undefined;
  }
}
