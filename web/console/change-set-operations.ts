// The operations of a change set on a page: in words, and their fields before and after.
import { type Html, html } from '../../runtime/pages/html.ts';
import { isEmpty, isThing, listLeaves, separator, showValue, toLabel } from '../pages/changes.ts';
import { table } from '../pages/components.ts';
import { type ChangeSet, describeOperation, type Names, type Operation, unwrapData } from './change-set-names.ts';

/** Fields that the server sets with every change. */
const ownFields = new Set(['created_at', 'updated_at', 'created_by', 'updated_by', 'version']);
/** Returns true for a field that the server sets. */
const isOwn = (path: string): boolean => path === 'id' || path.split(separator).some((name) => ownFields.has(name));

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
  const isBatch = /:batch[a-z-]*$/.test(path);
  const before = isBatch ? null : unwrapData(operation.before);
  const after = isBatch ? null : unwrapData(operation.after);
  const name = `Change ${index + 1}`;
  if (before && after) {
    const rows = compareFields(before, after);
    if (rows.length > 0) return table(name, ['Field', 'Before', 'After'], rows);
  } else if (after) return showOneSide(name, 'After', after);
  else if (before && method === 'DELETE') return showOneSide(name, 'Before', before);
  if (body === null) return html`<p class="note">No fields to show.</p>`;
  const trial = isBatch ? countFailed(operation.after) : null;
  return html`${showOneSide(name, 'Requested', isThing(body) ? body : { items: body })}${trial}`;
}

function compareFields(before: Record<string, unknown>, after: Record<string, unknown>): Html[][] {
  const [old, next] = [listLeaves(before), listLeaves(after)];
  const paths = [...new Set([...next.keys(), ...old.keys()])];
  return paths.flatMap((path) => {
    const [one, other] = [old.get(path), next.get(path)];
    const isSame = JSON.stringify(one) === JSON.stringify(other) || (isEmpty(one) && isEmpty(other));
    return isSame || isOwn(path) ? [] : [[html`${toLabel(path)}`, showValue(one), showValue(other)]];
  });
}

function showOneSide(name: string, side: string, data: Record<string, unknown>): Html {
  const rows = [...listLeaves(data)]
    .filter(([path, value]) => !isOwn(path) && !isEmpty(value))
    .map(([path, value]) => [toLabel(path), showValue(value)]);
  return rows.length === 0 ? html`<p class="note">No fields to show.</p>` : table(name, ['Field', side], rows);
}

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
  return html`<p class="problem">${failed.length === 1 ? '1 item' : `${failed.length} items`} failed in the trial, and will not be written:</p>
<ul>${messages}</ul>`;
}
