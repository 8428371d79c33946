// The lint rule for dry runs: writes of certain paths offer them, or are listed here with a reason.

/** The beginnings of paths whose writes offer dry runs. */
const offered = [
  '/v1/objects',
  '/v1/links:',
  '/v1/link-types',
  '/v1/leads',
  '/v1/deals',
  '/v1/customers',
  '/v1/activities',
  '/v1/notes',
  '/v1/tasks',
  '/v1/merges',
  '/v1/settings',
  '/v1/users',
  '/v1/branches',
  '/v1/teams',
];

/** Writes of these paths that offer none, with the reason. */
const exceptions = {
  createAttachment: 'stores a file before its transaction begins',
  connectCalendar: 'calls an external calendar',
};

/** Returns the path of an operation, whose JSON pointer is `#/paths/<path>/<method>`. */
const readPath = ({ pointer }) => pointer.split('/')[2].replaceAll('~1', '/').replaceAll('~0', '~');

export const dryRuns = () => ({
  Operation(operation, ctx) {
    const { operationId: id } = operation;
    const offers = operation['x-dry-run'] === true;
    const resolved = (operation.parameters ?? []).map((each) => (each.$ref ? ctx.resolve(each).node : each));
    if (resolved.some((each) => each?.in === 'header' && each.name === 'Dry-Run') !== offers)
      ctx.report({ message: `${id} must have both x-dry-run and the parameter Dry-Run, or neither` });
    const writes = ctx.key !== 'get' && !operation['x-only-reads'];
    if (offers && (!writes || operation['x-acts-outside'] || operation['x-answer']))
      ctx.report({ message: `${id} must not have x-dry-run: it only reads, acts outside, or has no envelope` });
    const isOffered = writes && offered.some((beginning) => readPath(ctx.location).startsWith(beginning));
    if (isOffered && offers === Object.hasOwn(exceptions, id))
      ctx.report({
        message: offers
          ? `${id} has x-dry-run: remove it from the exceptions in spec/rules/dry-runs.js`
          : `${id} must have x-dry-run, or a reason in spec/rules/dry-runs.js`,
      });
  },
});
