// Describes deprecated parameters and fields in the OpenAPI document.
// Uses the extension from which the server sets its deprecation headers.

const headers = ['Deprecation', 'Sunset', 'Link'];

/** Adds deprecation notices to the description of an operation, and deprecation headers to its 2xx responses. */
export function describeDeprecatedUses(operation) {
  const notices = operation['x-deprecated-use'].map(({ parameter, field, since, sunset, note }) => {
    const subject = parameter ? `The query parameter \`${parameter}\`` : `The field \`${field}\` of the body`;
    return `**Deprecated.** ${subject} is deprecated since ${since} and stops working on ${sunset}. ${note}`;
  });
  const headerNotice = 'Responses to calls that use it include the headers `Deprecation`, `Sunset` and `Link`.';
  operation.description = [operation.description.trimEnd(), ...notices, headerNotice].join('\n\n');
  for (const [status, response] of Object.entries(operation.responses)) {
    if (!status.startsWith('2')) continue;
    response.headers ??= {};
    for (const name of headers) response.headers[name] = { $ref: `#/components/headers/${name}` };
  }
}
