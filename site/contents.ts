// What the documentation pages are: guides by topic, and one page of reference for each tag group.
import type { Json } from './redoc.ts';

/** A part of the OpenAPI document's prose: a heading of its description or of a tag, and its text. */
interface Section {
  heading: string;
  text: string;
}

export interface Guide {
  path: string;
  title: string;
  summary: string;
  sections: Section[];
}

export interface Group {
  path: string;
  title: string;
  tags: Tag[];
}

export interface Tag {
  name: string;
  /** What comes before its first heading. */
  introduction: string;
  /** Guides that contain the sections of the tag. */
  guides: Guide[];
  operations: Operation[];
}

export interface Operation {
  id: string;
  method: string;
  path: string;
  declared: Declared;
}

/** What the pages use of an operation in the OpenAPI document. */
export interface Declared {
  operationId?: string;
  summary?: string;
  description?: string;
  tags?: string[];
  security?: Record<string, string[]>[];
  parameters?: object[];
  requestBody?: object;
  responses?: Record<string, object>;
  'x-codeSamples'?: { lang: string; label: string; source: string }[];
}

export interface Contents {
  title: string;
  introduction: string;
  guides: Guide[];
  groups: Group[];
}

/** Topics in their order, and the headings whose sections they contain. */
const topics: Record<string, { title: string; summary: string; headings: string[] }> = {
  'quick-start': {
    title: 'Quick start',
    summary: 'From nothing to your first record, in any of five languages.',
    headings: ['Quick start', 'Run the samples', 'Client libraries'],
  },
  authentication: {
    title: 'Authentication',
    summary: 'API keys, session tokens and OAuth tokens, and the scopes that they carry.',
    headings: ['Authentication', 'Scopes'],
  },
  errors: {
    title: 'Errors',
    summary: 'What responses look like, every error code, and what to do about it.',
    headings: ['Responses', 'Error handling', 'Versioning and deprecation'],
  },
  limits: {
    title: 'Limits',
    summary: 'Rate limits, the monthly quota, and the pages of lists.',
    headings: ['Rate limits', 'Pagination'],
  },
  idempotency: {
    title: 'Idempotency',
    summary: 'Retry a write without doing it twice.',
    headings: ['Idempotency'],
  },
  concurrency: {
    title: 'Concurrency',
    summary: 'Change a record only if nobody else has changed it.',
    headings: ['Concurrency'],
  },
  filters: {
    title: 'Filters',
    summary: 'Find records by conditions on their fields.',
    headings: ['Filters'],
  },
  'bulk-data': {
    title: 'Bulk data',
    summary: 'Read and write many records.',
    headings: ['Bulk data', 'Import a file', 'Export records'],
  },
  'dry-run': {
    title: 'Dry run',
    summary: 'See what a write would do, without doing it.',
    headings: ['Dry run'],
  },
  debugging: {
    title: 'Debug a call',
    summary: 'Find out what a client sent, why it was rejected, and whether it retries safely.',
    headings: ['Debug a call', 'Find out why a call fails'],
  },
  undo: {
    title: 'Undo',
    summary: 'See what changed, and put it back.',
    headings: [
      'Undo',
      'Undo a deletion',
      'Undo operations',
      'Undo a merge',
      'What a copy of your data must do',
      'Remove data for good',
    ],
  },
  'webhooks-and-feed': {
    title: 'Webhooks and change feed',
    summary: 'Get notified of changes, or keep a copy of your records.',
    headings: ['Webhooks or the change feed?', 'Receive webhooks', 'Change feed'],
  },
  scheduling: {
    title: 'Scheduling',
    summary: 'Let visitors of your website book meetings with your users.',
    headings: ['Book a meeting from a website', 'How users are assigned'],
  },
  'messages-and-approval': {
    title: 'Messages and approval',
    summary: 'Programs write messages, people approve them, and replies come back.',
    headings: ['Let an agent write and a person approve', 'Track opens and clicks', 'Connect a gateway'],
  },
  billing: {
    title: 'Billing',
    summary: 'Plans, seats, modules, checkout and invoices.',
    headings: ['Billing'],
  },
  agents: {
    title: 'Agents',
    summary: 'Connect an AI assistant with the Model Context Protocol.',
    headings: ['Connect an AI assistant'],
  },
  'keep-the-last-word': {
    title: 'Let an agent work, and keep the last word',
    summary: 'Programs and assistants propose their changes, a person approves them, and a revert undoes them.',
    headings: ['Let an agent work and keep the last word'],
  },
  oauth: {
    title: 'OAuth',
    summary: 'Connect an app that acts on behalf of a person.',
    headings: ['Connect an app with OAuth'],
  },
  sandbox: {
    title: 'Sandbox',
    summary: 'Develop and test without touching live data.',
    headings: ['Test mode', 'Test without waiting'],
  },
  'going-to-production': {
    title: 'Going to production',
    summary: 'What to check before real customers depend on your integration.',
    headings: ['Going to production'],
  },
  migrating: {
    title: 'Migrating from HubSpot and Pipedrive',
    summary: 'Move your data from another CRM, and what its terms are called here.',
    headings: ['Migrate from HubSpot', 'Migrate from Pipedrive'],
  },
};

export function readContents(json: Json): Contents {
  const { introduction, sections } = splitProse(json.info.description ?? '');
  const tags = (json.tags ?? []).map(({ name, description = '' }) => ({ name, ...splitProse(description) }));
  const all = [...sections, ...tags.flatMap((tag) => tag.sections)];
  const guides: Guide[] = [];
  const placed = new Set<Section>();
  for (const [topic, { headings, ...rest }] of Object.entries(topics)) {
    const parts = headings.flatMap((heading) => all.filter((section) => section.heading === heading));
    for (const part of parts) placed.add(part);
    if (parts.length > 0) guides.push({ path: `/docs/guides/${topic}`, ...rest, sections: parts });
  }
  // A section of the document that no topic names is a guide of its own, so that none is missing.
  for (const section of all.filter((each) => !placed.has(each)))
    guides.push({
      path: `/docs/guides/${toSlug(section.heading)}`,
      title: section.heading,
      summary: '',
      sections: [section],
    });
  const operations = listOperations(json);
  const groups = (json as unknown as { 'x-tagGroups': { name: string; tags: string[] }[] })['x-tagGroups'].map(
    (group) => ({
      path: `/docs/api/${toSlug(group.name)}`,
      title: group.name,
      tags: group.tags.map((name) => {
        const own = tags.find((tag) => tag.name === name);
        return {
          name,
          introduction: own?.introduction ?? '',
          guides: guides.filter((guide) => guide.sections.some((section) => own?.sections.includes(section))),
          operations: operations.filter(({ declared }) => declared.tags?.[0] === name),
        };
      }),
    }),
  );
  return { title: json.info.title, introduction, guides, groups };
}

/** Returns the page of each anchor of the OpenAPI document, with the anchor on that page. */
export function listAnchors({ guides, groups }: Contents): Map<string, string> {
  const anchors = new Map<string, string>();
  for (const { path, sections } of guides)
    for (const { heading } of sections) anchors.set(toSectionAnchor(heading), `${path}#${toSectionAnchor(heading)}`);
  for (const { path, tags } of groups)
    for (const tag of tags) {
      const anchor = toTagAnchor(tag.name);
      anchors.set(anchor, `${path}#${anchor}`);
      for (const { id } of tag.operations)
        for (const each of [`operation/${id}`, `${anchor}/operation/${id}`])
          anchors.set(each, `${path}#operation/${id}`);
      // The whole reference has the sections of a tag under the anchor of the tag.
      for (const guide of tag.guides)
        for (const section of guide.sections.map(({ heading }) => toSectionAnchor(heading)))
          anchors.set(section.replace('section', anchor), `${guide.path}#${section}`);
    }
  return anchors;
}

export const toSectionAnchor = (heading: string): string => `section/${heading.trim().replaceAll(/\s+/g, '-')}`;
export const toTagAnchor = (name: string): string => `tag/${name.trim().replaceAll(/\s+/g, '-')}`;

const toSlug = (name: string): string =>
  name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '');

/** Splits Markdown at its headings of the second level. Lines in fences are no headings. */
function splitProse(text: string): { introduction: string; sections: Section[] } {
  const sections: Section[] = [{ heading: '', text: '' }];
  let isFenced = false;
  for (const line of text.split('\n')) {
    if (/^\s*```/.test(line)) isFenced = !isFenced;
    const [, heading] = (!isFenced && /^## (.+)$/.exec(line)) || [];
    if (heading === undefined) (sections.at(-1) as Section).text += `${line}\n`;
    else sections.push({ heading: heading.trim(), text: '' });
  }
  const [first, ...rest] = sections.map((section) => ({ ...section, text: section.text.trim() }));
  return { introduction: first?.text ?? '', sections: rest };
}

function listOperations(json: Json): Operation[] {
  return Object.entries(json.paths ?? {}).flatMap(([path, item]) =>
    Object.entries(item as Record<string, Declared>)
      .filter(([, declared]) => declared.operationId !== undefined)
      .map(([method, declared]) => ({ id: declared.operationId ?? '', method, path, declared })),
  );
}
