// The operations of a change set on a page: in words, and their fields before and after.
import { type Html, html } from '../../runtime/pages/html.ts';
import { isEmpty, isThing, listLeaves, separator, type Thing } from '../pages/changes.ts';
import { table } from '../pages/components.ts';
import type { PersonalRequest } from '../pages/requests.ts';
import {
  type ChangeSet,
  describeOperation,
  findExistingRecord,
  findTarget,
  type Names,
  type Operation,
  splitAfter,
  unwrapData,
} from './change-set-names.ts';
import { showField, toPathLabel } from './change-set-values.ts';
import { recordLink } from './record-names.ts';

/** Fields that the server sets with every change. */
const ownFields = new Set(['created_at', 'updated_at', 'created_by', 'updated_by', 'version']);
/** Returns true for a field that the server sets. */
const isOwn = (path: string): boolean =>
  /(?:^|\n)id$/.test(path) || path.split(separator).some((name) => ownFields.has(name));

/**
 * Shows each operation of a set.
 * @param stale the indexes of operations whose records have changed since
 */
export function showOperations(
  set: ChangeSet,
  names: Names,
  stale: ReadonlySet<number>,
  { testMode }: Pick<PersonalRequest, 'testMode'>,
): Html {
  return html`${set.operations.map(
    (operation, index) => html`<article class="change" aria-labelledby="change-${index + 1}">
<h3 id="change-${index + 1}">${index + 1}. ${describeOperation(operation, names)}</h3>
${stale.has(index) ? html`<p class="problem">The record has changed since this was proposed.</p>` : null}
${showOutcome(set, operation)}
${linkToRecord(operation, names, testMode)}
${showFields(operation, index, names)}
<details><summary>Request</summary>
<p><code>${operation.method} ${operation.path}</code></p>
${operation.body === null ? null : html`<pre tabindex="0">${JSON.stringify(operation.body, null, 1)}</pre>`}
</details>
</article>`,
  )}`;
}

function linkToRecord(operation: Operation, names: Names, testMode: boolean): Html | null {
  const found = findExistingRecord(operation, names);
  return found ? html`<p class="note">Record: ${recordLink(found.record, found.name, testMode)}</p>` : null;
}

function showOutcome({ status: whole }: ChangeSet, { status, error }: Operation): Html | null {
  if (status === 'failed') return html`<p class="problem">Failed: ${error?.message ?? 'it could not be applied.'}</p>`;
  if (status === 'applied') return html`<p><strong>Applied.</strong></p>`;
  return status === 'skipped' && ['applied', 'failed'].includes(whole)
    ? html`<p><strong>Not applied.</strong></p>`
    : null;
}

function showFields(operation: Operation, index: number, names: Names): Html {
  const { method, path, body } = operation;
  const name = `Change ${index + 1}`;
  const object = findTarget(names.findOperation, operation)?.object;
  const show: ShowCell = (leaf, data) => showField(leaf, data, object, names);
  const label = (leaf: string): string => toPathLabel(leaf, object, names);
  const requested = isThing(body) ? body : body === null ? {} : { items: body };
  const requestedRows = (data: Thing): Row[] =>
    [...listLeaves(data).keys()].map((leaf) => [label(leaf), show(leaf, data)]);
  const showRequested = (): Html =>
    Object.keys(requested).length === 0
      ? html`<p class="note">No fields to show.</p>`
      : table(name, ['Field', 'Requested'], requestedRows(requested));
  if (/:batch[a-z-]*$/.test(path)) return html`${showRequested()}${countFailed(operation.after)}`;
  const before = unwrapData(operation.before);
  const { after, others } = splitAfter(operation);
  const sides = [...(before && (after || method === 'DELETE') ? [before] : []), ...(after ? [after] : [])];
  const paths = sides.length === 2 ? listChanged(before ?? {}, after ?? {}) : listShown(sides[0] ?? {});
  if (paths.length === 0) return showRequested();
  const columns = [...(sides[0] === before ? ['Before'] : []), ...(after ? ['After'] : [])];
  const results = listShown(others);
  const covered = new Set(paths.map((leaf) => leaf.split(separator)[0]));
  // An empty value of something new is what it would have anyway. A name stands for the ID of a setting.
  const further = Object.entries(requested).filter(
    ([member, value]) =>
      !covered.has(member) && !covered.has(member.replace(/_id$/, '')) && !(before === null && isEmpty(value)),
  );
  return html`${table(
    name,
    ['Field', ...columns],
    paths.map((leaf) => [label(leaf), ...sides.map((side) => show(leaf, side))]),
  )}
${
  results.length === 0
    ? null
    : table(
        `${name}, further results`,
        ['Field', 'After'],
        results.map((leaf) => [label(leaf), show(leaf, others)]),
      )
}
${further.length === 0 ? null : table(`${name}, also requested`, ['Field', 'Also requested'], requestedRows(Object.fromEntries(further)))}`;
}

type Row = (Html | string)[];
type ShowCell = (leaf: string, data: Thing) => Html;

/** Returns true for the ID of a setting next to its name, such as `stage_id` next to `stage`. */
const isNamed = (path: string, paths: { has(path: string): boolean }): boolean =>
  path.endsWith('_id') && paths.has(path.slice(0, -'_id'.length));

/** Returns the paths of values that differ. */
function listChanged(before: Thing, after: Thing): string[] {
  const [old, next] = [listLeaves(before), listLeaves(after)];
  const changed = [...new Set([...next.keys(), ...old.keys()])].filter((path) => {
    const [one, other] = [old.get(path), next.get(path)];
    return !isOwn(path) && JSON.stringify(one) !== JSON.stringify(other) && !(isEmpty(one) && isEmpty(other));
  });
  const all = new Set(changed);
  return changed.filter((path) => !isNamed(path, all));
}

/** Returns the paths of values that are not empty. */
function listShown(data: Thing): string[] {
  const leaves = listLeaves(data);
  return [...leaves.keys()].filter((path) => !isOwn(path) && !isNamed(path, leaves) && !isEmpty(leaves.get(path)));
}

/** Says which items of a batch failed when they were tried out. */
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
