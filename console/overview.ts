// The first page: what there is, for whoever is signed in.
import { html } from '../runtime/html.ts';
import { consolePage, placesFor } from './frame.ts';
import { inMode, type Show } from './requests.ts';

export const showOverview: Show = async (_, request) => {
  const { person, testMode } = request;
  const listed = placesFor(person.caller).filter(({ about }) => about !== '');
  const body = html`<p>What is decided by people, and not by programs. The <a href="/docs">documentation</a> says what programs can do.</p>
<ul class="cards">
${listed.map(({ path, name, about }) => html`<li><a href="${inMode(path, testMode)}">${name}</a><p>${about}</p></li>`)}
</ul>`;
  return consolePage(request, 200, 'Overview', body);
};
