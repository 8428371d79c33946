// The overview page of the console.

import { hasRecords } from '../../db/records/presence.ts';
import { html } from '../../runtime/pages/html.ts';
import { consolePage, listPlaces } from '../pages/layout.ts';
import {
  act,
  buildAddress,
  buildHomeAddress,
  type ConsoleParts,
  type PersonalRequest,
  type Show,
} from '../pages/requests.ts';
import { showWaiting } from './change-sets.ts';

export const showOverview: Show = async (parts, request) => {
  const { person, testMode, query } = request;
  if (!query.has('mode') && (await hasTestDataOnly(parts, request))) return { redirect: buildHomeAddress(true) };
  const listed = listPlaces(person.caller).filter(({ about }) => about !== '');
  const body = html`${await showWaiting(parts, request)}
<p>Manage the parts of your workspace that require a person. For everything else, see the <a href="/docs">API documentation</a>.</p>
<ul class="cards">
${listed.map(({ path, name, about }) => html`<li><a href="${buildAddress(path, testMode)}">${name}</a><p>${about}</p></li>`)}
</ul>`;
  return consolePage(request, 200, 'Overview', body);
};

/** Returns true if the workspace has only test data. Live mode would show nothing. */
async function hasTestDataOnly(parts: ConsoleParts, request: PersonalRequest): Promise<boolean> {
  const hasDataIn = (testMode: boolean): Promise<boolean> =>
    act(parts, { ...request, testMode }, [], ({ caller, db: { sql } }) => hasRecords(sql, { ...caller, testMode }));
  return !(await hasDataIn(false)) && (await hasDataIn(true));
}
