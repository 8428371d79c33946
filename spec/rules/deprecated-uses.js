// What readers of the document see of a deprecated form.
// Written from the same extension that the server answers by.

const headers = ['Deprecation', 'Sunset', 'Link'];

/** Adds the deprecated forms of an operation to its description, and their headers to its successes. */
export function describeDeprecatedUses(operation) {
  const told = operation['x-deprecated-use'].map(({ parameter, field, since, sunset, note }) => {
    const what = parameter ? `The query parameter \`${parameter}\`` : `The field \`${field}\` of the body`;
    return `**Deprecated.** ${what} is deprecated since ${since} and stops working on ${sunset}. ${note}`;
  });
  const answered = 'Every answer to a call that uses it carries the headers `Deprecation`, `Sunset` and `Link`.';
  operation.description = [operation.description.trimEnd(), ...told, answered].join('\n\n');
  for (const [status, response] of Object.entries(operation.responses)) {
    if (!status.startsWith('2')) continue;
    response.headers ??= {};
    for (const name of headers) response.headers[name] = { $ref: `#/components/headers/${name}` };
  }
}
