// Changed fields with their values before and after.
import { type Html, html } from '../../runtime/pages/html.ts';

/** Returns the name of a field as people write it: first_name becomes “First name”. */
const formatFieldName = (name: string): string =>
  `${name.charAt(0).toUpperCase()}${name.slice(1)}`.replaceAll('_', ' ');

/** Builds a table of changed fields. On a small screen each field is a card. */
export const changesTable = (
  caption: string,
  changes: Readonly<Record<string, { from?: unknown; to?: unknown }>>,
): Html =>
  html`<table class="changed" aria-label="${caption}">
<thead><tr><th scope="col">Field</th><th scope="col">Before</th><th scope="col">After</th></tr></thead>
<tbody>
${Object.entries(changes).map(
  ([name, { from, to }]) =>
    html`<tr><td data-label="Field">${formatFieldName(name)}</td><td data-label="Before">${renderValue(from, 'del')}</td><td data-label="After">${renderValue(to, 'ins')}</td></tr>`,
)}
</tbody>
</table>`;

function renderValue(value: unknown, element: 'del' | 'ins'): Html {
  if (value === undefined || value === null || value === '') return html`<span class="note">empty</span>`;
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 1);
  return element === 'del' ? html`<del>${text}</del>` : html`<ins>${text}</ins>`;
}
