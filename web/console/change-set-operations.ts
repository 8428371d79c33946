// The operations of a change set on a page: in words, and their fields before and after.
import { type Html, html } from '../../runtime/pages/html.ts';
import { isEmpty, isThing, listLeaves, separator, showValue, toLabel } from '../pages/changes.ts';
import { table } from '../pages/components.ts';
import {
  type ChangeSet,
  describeOperation,
  type Names,
  type Operation,
  splitAfter,
  unwrapData,
} from './change-set-names.ts';

/** Fields that the server sets with every change. */
const ownFields = new Set(['created_at', 'updated_at', 'created_by', 'updated_by', 'version']);
/** Returns true for a field that the server sets. */
const isOwn = (path: string): boolean =>
  /(?:^|\n)id$/.test(path) || path.split(separator).some((name) => ownFields.has(name));

/**
 * Shows each operation of a set.
 * @param stale the indexes of operations whose records have changed since
 */
export function showOperations(set: ChangeSet, names: Names, stale: ReadonlySet<number>): Html {
  return html`${set.operations.map(
    (operation, index) => html`<article class="change" aria-labelledby="change-${index + 1}">
<h3 id="change-${index + 1}">${index + 1}. ${describeOperation(operation, names)}</h3>
${stale.has(index) ? html`<p class="problem">The record has changed since this was proposed.</p>` : null}
${showOutcome(set, operation)}
${showFields(operation, index)}
<details><summary>Request</summary>
<p><code>${operation.method} ${operation.path}</code></p>
${operation.body === null ? null : html`<pre tabindex="0">${JSON.stringify(operation.body, null, 1)}</pre>`}
</details>
</article>`,
  )}`;
}

function showOutcome({ status: whole }: ChangeSet, { status, error }: Operation): Html | null {
  if (status === 'failed') return html`<p class="problem">Failed: ${error?.message ?? 'it could not be applied.'}</p>`;
  if (status === 'applied') return html`<p><strong>Applied.</strong></p>`;
  return status === 'skipped' && ['applied', 'failed'].includes(whole)
    ? html`<p><strong>Not applied.</strong></p>`
    : null;
}

function showFields(operation: Operation, index: number): Html {
  const { method, path, body } = operation;
  const name = `Change ${index + 1}`;
  const requested = isThing(body) ? body : body === null ? {} : { items: body };
  if (/:batch[a-z-]*$/.test(path)) return html`${showRequested(name, requested)}${countFailed(operation.after)}`;
  const before = unwrapData(operation.before);
  const { after, others } = splitAfter(operation);
  const side = before && after ? compareFields(before, after) : listSide(method === 'DELETE' ? before : after);
  if (side.rows.length === 0) return showRequested(name, requested);
  const columns = before && after ? ['Before', 'After'] : [after ? 'After' : 'Before'];
  const results = listSide(others).rows;
  // An empty value of something new is what it would have anyway.
  const further = Object.entries(requested).filter(
    ([member, value]) => !side.members.has(member) && !(before === null && isEmpty(value)),
  );
  return html`${table(name, ['Field', ...columns], side.rows)}
${results.length === 0 ? null : table(`${name}, further results`, ['Field', 'After'], results)}
${further.length === 0 ? null : table(`${name}, also requested`, ['Field', 'Also requested'], showMembers(Object.fromEntries(further)))}`;
}

/** Rows of a table, and the members of the body about which they are. */
interface Side {
  rows: (Html | string)[][];
  members: ReadonlySet<string>;
}

const findMember = (path: string): string => path.split(separator)[0] ?? '';

function compareFields(before: Record<string, unknown>, after: Record<string, unknown>): Side {
  const [old, next] = [listLeaves(before), listLeaves(after)];
  const paths = [...new Set([...next.keys(), ...old.keys()])].filter((path) => {
    const [one, other] = [old.get(path), next.get(path)];
    return !isOwn(path) && JSON.stringify(one) !== JSON.stringify(other) && !(isEmpty(one) && isEmpty(other));
  });
  return {
    rows: paths.map((path) => [toLabel(path), showValue(old.get(path)), showValue(next.get(path))]),
    members: new Set(paths.map(findMember)),
  };
}

function listSide(data: Record<string, unknown> | null): Side {
  const leaves = [...listLeaves(data ?? {})].filter(([path, value]) => !isOwn(path) && !isEmpty(value));
  return {
    rows: leaves.map(([path, value]) => [toLabel(path), showValue(value)]),
    members: new Set(leaves.map(([path]) => findMember(path))),
  };
}

function showRequested(name: string, body: Record<string, unknown>): Html {
  const rows = showMembers(body);
  return rows.length === 0 ? html`<p class="note">No fields to show.</p>` : table(name, ['Field', 'Requested'], rows);
}

const showMembers = (body: Record<string, unknown>): (Html | string)[][] =>
  [...listLeaves(body)].map(([path, value]) => [toLabel(path), showValue(value)]);

/** Says which items of a batch failed in the trial. */
function countFailed(answer: Operation['after']): Html | null {
  const batches = [answer, ...Object.values(answer ?? {})].filter(isThing);
  const failed = batches.flatMap((batch) => (Array.isArray(batch.failed) ? batch.failed : []));
  if (failed.length === 0) return null;
  const messages = failed.map((item) => {
    const { index, error } = isThing(item) ? item : {};
    const text = isThing(error) ? error.message : undefined;
    return html`<li>Item ${Number(index ?? 0) + 1}: ${typeof text === 'string' ? text : 'it cannot be written.'}</li>`;
  });
  return html`<p class="problem">${failed.length === 1 ? '1 item' : `${failed.length} items`} failed when tried out, and will not be written:</p>
<ul>${messages}</ul>`;
}
