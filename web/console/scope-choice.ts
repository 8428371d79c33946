// The choice of an API key's scopes: check boxes by module, presets, and a field for other scopes.
import { moduleActions } from '../../domain/access/scopes.ts';
import { type Html, html } from '../../runtime/pages/html.ts';
import { toLabel } from '../pages/changes.ts';
import { field, splitLines, type Typed } from '../pages/forms.ts';
import { buildAddress, type PersonalRequest } from '../pages/requests.ts';

/** Usual choices, offered as links. They work without JavaScript. */
const presets: Readonly<Record<string, { name: string; scopes: readonly string[] }>> = {
  read: {
    name: 'Read only',
    scopes: Object.keys(moduleActions).map((module) => `${module}:view`),
  },
  form: { name: 'Website form', scopes: ['leads:create'] },
  all: { name: 'Everything', scopes: ['*'] },
};

/** All scopes that have a check box. */
const offered = new Set(
  Object.entries(moduleActions).flatMap(([module, actions]) => actions.map((action) => `${module}:${action}`)),
);

/** Returns the scopes of a submitted form: the checked ones, and those of the text field. */
export const readScopes = (form: URLSearchParams): string[] => [
  ...new Set(form.getAll('scopes').flatMap((given) => splitLines(given))),
];

/** Links to the empty form with the scopes of a preset. They stand before the form. */
export const presetLinks = ({ testMode }: PersonalRequest, newKey: string): Html =>
  html`<p class="note">Start with:</p>
<ul class="presets">${Object.entries(presets).map(
    ([preset, { name }]) => html`<li><a href="${buildAddress(newKey, testMode, { preset })}">${name}</a></li>`,
  )}</ul>`;

/** Builds the fields. They keep what was submitted, or begin with the preset in the address. */
export function scopeFields({ query }: PersonalRequest, typed: Typed): Html {
  const chosen = typed.form ? readScopes(typed.form) : (presets[query.get('preset') ?? '']?.scopes ?? []);
  const others = chosen.filter((scope) => !offered.has(scope));
  const rows = Object.entries(moduleActions).map(
    ([module, actions]) =>
      html`<fieldset><legend>${toLabel(module)}</legend><div class="ticks">${actions.map((action) =>
        tick(`${module}:${action}`, toLabel(action), chosen.includes(`${module}:${action}`)),
      )}</div></fieldset>`,
  );
  return html`<fieldset><legend>Scopes</legend>
<p class="note">The key can do only this. Choose as little as possible.</p>
<div class="choices">${rows}</div>
${field(
  'scopes',
  'Other scopes',
  { ...typed, form: new URLSearchParams({ scopes: others.join('\n') }) },
  {
    long: true,
    hint: 'One per line: * grants everything, leads:* all actions on leads, object:visits:view reading the custom object visits.',
  },
)}
</fieldset>`;
}

const tick = (scope: string, text: string, isChecked: boolean): Html =>
  html`<label><input type="checkbox" name="scopes" value="${scope}"${isChecked ? checked : null}>${text}</label>`;
const checked = html` checked`;
