// The organization: branches and their teams, who belongs to them, and forms that change them.
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html, isolateText } from '../../runtime/pages/html.ts';
import { doneMessage, emptyState, formatNumber, table } from '../pages/components.ts';
import { checkbox, errorSummary, field, form, submitOrShowAgain, type Typed } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import {
  ask,
  buildAddress,
  type ConsoleParts,
  type Data,
  type PersonalRequest,
  type Show,
  toLiveMode,
} from '../pages/requests.ts';
import { buildKey } from './change-set-values.ts';
import { askIfAllowed } from './record-names.ts';

type Node = Data<'getOrgStructure'>['tree'];

const home = '/console/organization';
const doneMessages = {
  added: 'Added.',
  saved: 'Saved. Who sees which records changes with the next request.',
  deleted: 'Deleted.',
};

const mayChange = ({ person: { caller } }: PersonalRequest): boolean =>
  caller.grants.allows('users:configure') &&
  (caller.computeReach?.(['users:configure']) ?? caller.reach).kind === 'company';

const readTree = async (parts: ConsoleParts, request: PersonalRequest): Promise<Node> =>
  (await ask(parts, toLiveMode(request), 'getOrgStructure')).tree;

const linkNode = ({ kind, id, name }: Node, { testMode }: PersonalRequest): Html =>
  html`<a href="${buildAddress(`${home}/${kind === 'team' ? 'teams' : 'branches'}/${id}`, testMode)}">${isolateText(name)}</a>`;

export const showOrganization: Show = (parts, request) => organizationPage(parts, request, 200);

async function organizationPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const tree = await readTree(parts, request);
  const rows = tree.children.flatMap((branch) =>
    [branch, ...branch.children].map((node) => [
      linkNode(node, request),
      node.kind === 'team' ? html`Team of ${isolateText(branch.name)}` : 'Branch',
      node.manager === null ? 'none' : isolateText(node.manager.full_name),
      formatNumber(node.user_count),
    ]),
  );
  const body = html`${doneMessage(request, doneMessages)}${errorSummary(typed)}
<p>New people join the default branch. To move a person, open their page under <a href="${buildAddress('/console/people', request.testMode)}">People</a>.</p>
${rows.length === 0 ? emptyState('No branches.') : table('Branches and teams', ['Name', 'Kind', 'Manager', 'Active people'], rows)}
${mayChange(request) ? addForms(request, tree, typed) : null}`;
  return consolePage(request, status, 'Organization', body);
}

/** Forms to add a branch or a team. What was typed is shown in the form that was sent. */
function addForms(request: PersonalRequest, tree: Node, typed: Typed): Html {
  const kind = typed.form?.get('kind');
  const branches = Object.fromEntries(tree.children.map(({ id, name }) => [id, name]));
  const first = tree.children[0]?.id ?? '';
  return html`<h2>Add a branch</h2>
${form(
  request,
  home,
  html`<input type="hidden" name="kind" value="branch">
${field('name', 'Name of the branch', kind === 'branch' ? typed : {}, { required: true, maxlength: 100 })}<button>Add branch</button>`,
)}
<h2>Add a team</h2>
${form(
  request,
  home,
  html`<input type="hidden" name="kind" value="team">
${field('team_name', 'Name of the team', kind === 'team' ? typed : {}, { required: true, maxlength: 100, errorName: 'name' })}
${field('branch_id', 'Branch', kind === 'team' ? typed : {}, { choices: branches, value: first, required: true })}<button>Add team</button>`,
)}`;
}

export const addNode: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  return submitOrShowAgain(
    async () => {
      if (given.get('kind') === 'team') {
        const body = { name: given.get('team_name') ?? '', branch_id: given.get('branch_id') ?? '' };
        await ask(parts, toLiveMode(request), 'createTeam', { body });
      } else await ask(parts, toLiveMode(request), 'createBranch', { body: { name: given.get('name') ?? '' } });
      return { redirect: buildAddress(home, request.testMode, { done: 'added' }) };
    },
    (refused) => organizationPage(parts, request, refused.status, { form: given, refused }),
  );
};

export const showBranch: Show = (parts, request) => branchPage(parts, request, 200);

async function branchPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const { id = '' } = request.path;
  const { branch } = await ask(parts, toLiveMode(request), 'getBranch', { path: { id } });
  const address = `${home}/branches/${id}`;
  const fields = html`${field('name', 'Name', typed, { value: branch.name, required: true, maxlength: 100 })}
${field('code', 'Code', typed, { value: branch.code ?? '', maxlength: 50 })}
${field('city', 'City', typed, { value: branch.city ?? '', maxlength: 100 })}
${field('country', 'Country', typed, { value: branch.country ?? '', maxlength: 100 })}
${field('timezone', 'Time zone', typed, { value: branch.timezone ?? '', maxlength: 64, hint: 'For example Europe/London.' })}
${branch.is_default ? null : checkbox('is_default', 'New people join this branch', typed, false)}
<button>Save</button>`;
  const changes = html`<h2>Details</h2>${form(request, address, fields)}
${branch.is_default ? html`<p class="note">New people join this branch, so it cannot be deleted.</p>` : deleteForm(request, address, 'branch')}`;
  const body = html`${doneMessage(request, doneMessages)}${errorSummary(typed)}
${await membersTable(parts, request, id)}
${mayChange(request) ? changes : null}
${backLink(request)}`;
  return consolePage(request, status, isolateText(branch.name), body);
}

export const changeBranch: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const { id = '' } = request.path;
  const text = (name: string): string | null => given.get(name)?.trim() || null;
  return submitOrShowAgain(
    async () => {
      if (given.has('delete')) {
        await ask(parts, toLiveMode(request), 'deleteBranch', { path: { id } });
        return { redirect: buildAddress(home, request.testMode, { done: 'deleted' }) };
      }
      const body = {
        name: given.get('name') ?? '',
        code: text('code'),
        city: text('city'),
        country: text('country'),
        timezone: text('timezone'),
        ...(given.has('is_default') ? { is_default: true } : {}),
      };
      await ask(parts, toLiveMode(request), 'updateBranch', { path: { id }, body });
      return { redirect: buildAddress(`${home}/branches/${id}`, request.testMode, { done: 'saved' }) };
    },
    (refused) => branchPage(parts, request, refused.status, { form: given, refused }),
  );
};

export const showTeam: Show = (parts, request) => teamPage(parts, request, 200);

async function teamPage(
  parts: ConsoleParts,
  request: PersonalRequest,
  status: number,
  typed: Typed = {},
): Promise<PageResponse> {
  const { id = '' } = request.path;
  const { team } = await ask(parts, toLiveMode(request), 'getTeam', { path: { id } });
  const tree = await readTree(parts, request);
  const branches = Object.fromEntries(tree.children.map((branch) => [branch.id, branch.name]));
  const address = `${home}/teams/${id}`;
  const changes = html`<h2>Details</h2>
${form(
  request,
  address,
  html`${field('name', 'Name', typed, { value: team.name, required: true, maxlength: 100 })}
${field('branch_id', 'Branch', typed, { choices: branches, value: team.branch_id, hint: 'The members move along.' })}<button>Save</button>`,
)}
${deleteForm(request, address, 'team')}`;
  const body = html`${doneMessage(request, doneMessages)}${errorSummary(typed)}
${await membersTable(parts, request, id)}
${mayChange(request) ? changes : null}
${backLink(request)}`;
  return consolePage(request, status, isolateText(team.name), body);
}

export const changeTeam: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  const { id = '' } = request.path;
  return submitOrShowAgain(
    async () => {
      if (given.has('delete')) {
        await ask(parts, toLiveMode(request), 'deleteTeam', { path: { id } });
        return { redirect: buildAddress(home, request.testMode, { done: 'deleted' }) };
      }
      const body = { name: given.get('name') ?? '', branch_id: given.get('branch_id') ?? '' };
      await ask(parts, toLiveMode(request), 'updateTeam', { path: { id }, body });
      return { redirect: buildAddress(`${home}/teams/${id}`, request.testMode, { done: 'saved' }) };
    },
    (refused) => teamPage(parts, request, refused.status, { form: given, refused }),
  );
};

const deleteForm = (request: PersonalRequest, address: string, kind: string): Html => html`<h2>Delete</h2>
<p>Only a ${kind} to which nothing belongs can be deleted. Move its people first, and revoke API keys that see only it.</p>
${form(request, address, html`<input type="hidden" name="delete" value="yes"><button class="danger">Delete ${kind}</button>`)}`;

/** People on the page. There are more under People. */
const shownMembers = 100;

async function membersTable(parts: ConsoleParts, request: PersonalRequest, id: string): Promise<Html> {
  const query = { include_descendants: 'true', limit: `${shownMembers}` };
  const { users } = await ask(parts, toLiveMode(request), 'listOrgNodeUsers', { path: { id }, query });
  if (users.length === 0) return emptyState('No active people.');
  const rows = users.map((user) => [
    html`<a href="${buildAddress(`/console/people/${user.id}`, request.testMode)}">${isolateText(user.full_name)}</a>`,
    isolateText(user.email),
    user.team === null ? 'none' : isolateText(user.team.name),
  ]);
  return table('Active people', ['Name', 'Email', 'Team'], rows);
}

const backLink = ({ testMode }: PersonalRequest): Html =>
  html`<p><a href="${buildAddress(home, testMode)}">Back to the organization</a></p>`;

/** Returns the names of branches and teams, by `buildKey`; none if the person may not see them. */
export async function loadNodeNames(parts: ConsoleParts, request: PersonalRequest): Promise<[string, string][]> {
  const tree = await askIfAllowed(() => readTree(parts, request), undefined);
  const branches = tree?.children ?? [];
  return [
    ...branches.map(({ id, name }): [string, string] => [buildKey('branches', id), name]),
    ...branches.flatMap(({ children }) =>
      children.map(({ id, name }): [string, string] => [buildKey('teams', id), name]),
    ),
  ];
}

/** Returns the branches and teams to which a person can be moved, by the value of their choice. */
export async function readPlaces(parts: ConsoleParts, request: PersonalRequest): Promise<Record<string, string>> {
  const { children } = await readTree(parts, request);
  const places = children.flatMap((branch) => [
    [`branch ${branch.id}`, branch.name] as const,
    ...branch.children.map((team) => [`team ${team.id}`, `${branch.name}, ${team.name}`] as const),
  ]);
  return Object.fromEntries(places);
}

/** Returns the fields of a user for a choice of readPlaces(). */
export function toPlace(choice: string): { branch_id?: string; team_id?: string | null } {
  const [kind, id = ''] = choice.split(' ');
  return kind === 'team' ? { team_id: id } : { branch_id: id, team_id: null };
}
