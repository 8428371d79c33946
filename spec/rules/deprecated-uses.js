// Describes deprecated forms in the OpenAPI document.
// The server's deprecation headers come from the same extension.

const headers = ['Deprecation', 'Sunset', 'Link'];

/** Adds the deprecated forms of an operation to its description, and their headers to its 2xx responses. */
export function describeDeprecatedUses(operation) {
  const notes = operation['x-deprecated-use'].map(({ parameter, field, since, sunset, note }) => {
    const name = parameter ? `The query parameter \`${parameter}\`` : `The field \`${field}\` of the body`;
    return `**Deprecated.** ${name} has been deprecated since ${since} and stops working on ${sunset}. ${note}`;
  });
  const headersNote = 'Every response to a call that uses it has the headers `Deprecation`, `Sunset` and `Link`.';
  operation.description = [operation.description.trimEnd(), ...notes, headersNote].join('\n\n');
  for (const [status, response] of Object.entries(operation.responses)) {
    if (!status.startsWith('2')) continue;
    response.headers ??= {};
    for (const name of headers) response.headers[name] = { $ref: `#/components/headers/${name}` };
  }
}
