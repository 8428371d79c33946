// Links between records: list, create and remove, one at a time and in batches.
import { deleteLinks, findLinks, listLinks as listStored, type StoredLink } from '../../db/records/links.ts';
import { findRecord, hasRecord } from '../../db/records/records.ts';
import { findReferences } from '../../db/records/references.ts';
import { buildFieldProblem, toUuid } from '../../domain/objects/field-values.ts';
import { isSystem, listRelations, type Relation } from '../../domain/objects/relations.ts';
import { findClosest } from '../../domain/objects/suggestions.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import { buildBatchResult } from '../../domain/records/batch.ts';
import type { StoredRecord } from '../../domain/records/draft.ts';
import { isVisible } from '../../domain/records/reading.ts';
import type { components } from '../../generated/api.ts';
import { ApiError, notFound, orNotFound, validationFailed } from '../../runtime/errors.ts';
import type { Call, Handler } from '../../runtime/handler.ts';
import { readPage } from '../../runtime/paging.ts';
import {
  buildLinkChange,
  listVisibleRelations,
  type OwnRelation,
  type SeenLink,
  toLinkResponses,
  toOwnRelation,
  toSeenLink,
  type WantedLink,
  writeLinks,
} from '../../services/records/link-writes.ts';
import { openObject } from '../../services/records/record-target.ts';

type Failure = components['schemas']['LinkBatchFailure'];

export const listLinks: Handler<'listLinks'> = async (call) => {
  const { caller } = call;
  const { path, query } = call.request;
  const { sql } = call.db;
  const { workspace } = await openObject(call);
  const visible = listVisibleRelations(path.object, workspace, caller);
  const relations = query.type === undefined ? visible : visible.filter(({ name }) => name === query.type);
  const { rows, ...rest } = await readPage(
    call,
    ['links', path.object, path.id, query.type ?? null],
    async (after: [string, string] | undefined, limit) => {
      const [record, stored] = await Promise.all([
        findRecord(sql, caller, path.object, path.id),
        listStored(sql, caller, path, relations, after, limit),
      ]);
      const references = listReferences(orNotFound(record), relations).filter(
        (link) => isVisible(link.otherObject, workspace, caller) && isAfter(link, after),
      );
      if (query.type !== undefined) findRelation(path.object, query.type, visible, 'type', 400);
      const links = stored.map(({ linkTypeId, side, ...link }) => ({
        ...link,
        name: findRelationName(relations, linkTypeId, side),
      }));
      return [...links, ...references].sort(newestFirst).slice(0, limit);
    },
    (last) => [last.createdAt.toISOString(), last.tie] as [string, string],
  );
  const links = (await toLinkResponses(call, workspace, rows)).filter((link) => link !== undefined);
  return { status: 200, data: { links, ...rest } };
};

export const createLink: Handler<'createLink'> = async (call) => {
  const { path } = call.request;
  const { workspace } = await openObject(call);
  const wanted = await readWantedLink(call, workspace);
  const { relation, id, otherId } = wanted;
  const held = await holdBoth(call, [{ ...wanted, object: path.object }]);
  if (!held.has(id)) throw notFound();
  if (!held.has(otherId))
    throw validationFailed(
      [buildFieldProblem('record_id', 'NOT_FOUND', `must be a record of ${relation.otherObject}`)],
      422,
    );
  const [outcome] = await writeLinks(call, [wanted]);
  if (!outcome || 'error' in outcome) throw outcome?.error ?? notFound();
  const [response] = await toLinkResponses(call, workspace, [toSeenLink(relation, outcome.link)]);
  const link = orNotFound(response);
  return outcome.alreadyLinked
    ? { status: 200, data: { link, already_linked: true } }
    : { status: 201, data: { link } };
};

export const deleteLink: Handler<'deleteLink'> = async (call) => {
  const { caller, now } = call;
  const { path } = call.request;
  const { sql } = call.db;
  const { workspace } = await openObject(call);
  const [[link], isThere] = await Promise.all([
    findLinks(sql, caller, [path.link_id]),
    hasRecord(sql, caller, path.object, path.id),
  ]);
  const ends = link && isThere ? findOtherEnd(link, path.object, orNotFound(toUuid(path.id))) : undefined;
  if (!link || !ends) throw notFound();
  call.authorize(`${requireModule(workspace, ends.object)}:view`);
  if (!(await hasRecord(sql, caller, ends.object, ends.id))) throw notFound();
  const [deleted] = await deleteLinks(sql, caller, [link.id]);
  if (deleted === undefined) throw notFound();
  call.db.record(buildLinkChange('unlink', link, findTypeName(workspace, link), now));
  return { status: 200, data: { id: link.id, deleted: true } };
};

export const updateLinkBatch: Handler<'updateLinkBatch'> = async (call) => {
  const { body } = call.request;
  const workspace = await call.services.loadWorkspace();
  const deleted = await removeEach(call, workspace, body.delete ?? []);
  const created = await createEach(call, workspace, body.create ?? []);
  return { status: 200, data: { created, deleted } };
};

async function createEach(
  call: Call<'updateLinkBatch'>,
  workspace: Workspace,
  items: readonly components['schemas']['LinkBatchItem'][],
): Promise<components['schemas']['LinkBatchCreated']> {
  const failed: Failure[] = [];
  const read: (WantedLink & { index: number; object: string })[] = [];
  for (const [index, item] of items.entries()) {
    const object = workspace.objects.get(item.object);
    const [id, otherId] = [toUuid(item.record_id), toUuid(item.to_id)];
    try {
      if (!object) throw notFound();
      call.authorize(`${object.module}:edit`);
      const relation = openRelation(workspace, item.object, item.link_type);
      call.authorize(`${requireModule(workspace, relation.otherObject)}:view`);
      if (id === undefined || otherId === undefined) throw notFound();
      if (id === otherId)
        throw validationFailed([buildFieldProblem('to_id', 'INVALID_OPTION', 'must be another record')], 422);
      read.push({ index, relation, object: item.object, id, otherId });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      failed.push(toFailure(index, error));
    }
  }
  const held = await holdBoth(call, read);
  const [wanted, missing] = [
    read.filter(({ id, otherId }) => held.has(id) && held.has(otherId)),
    read.filter(({ id, otherId }) => !held.has(id) || !held.has(otherId)),
  ];
  failed.push(...missing.map(({ index }) => toFailure(index, notFound())));
  const outcomes = await writeLinks(call, wanted);
  const written = wanted.flatMap(({ index, relation }, place) => {
    const outcome = outcomes[place];
    if (outcome && 'link' in outcome) return [{ index, relation, ...outcome }];
    failed.push(toFailure(index, outcome?.error ?? notFound()));
    return [];
  });
  const links = await toLinkResponses(
    call,
    workspace,
    written.map(({ relation, link }) => toSeenLink(relation, link)),
  );
  const succeeded = written.flatMap(({ index, alreadyLinked }, place) => {
    const link = links[place];
    return link ? [{ index, link, ...(alreadyLinked ? { already_linked: true as const } : {}) }] : [];
  });
  return buildBatchResult(succeeded, failed);
}

async function removeEach(
  call: Call<'updateLinkBatch'>,
  workspace: Workspace,
  given: readonly string[],
): Promise<components['schemas']['LinkBatchDeleted']> {
  const { caller, now } = call;
  const { sql } = call.db;
  const failed: Failure[] = [];
  const ids = given.map((id) => toUuid(id));
  const links = new Map(
    (await findLinks(sql, caller, [...new Set(ids.flatMap((id) => id ?? []))])).map((link) => [link.id, link]),
  );
  const held = await holdRecords(
    call,
    [...links.values()].flatMap((link) => [
      { object: link.fromObject, id: link.fromId },
      { object: link.toObject, id: link.toId },
    ]),
  );
  const removable = new Map<number, StoredLink>();
  for (const [index, id] of ids.entries()) {
    const link = id === undefined ? undefined : links.get(id);
    try {
      if (!link || !held.has(link.fromId) || !held.has(link.toId)) throw notFound();
      authorizeRemoval(call, workspace, link);
      removable.set(index, link);
      // A repeated id no longer exists the second time.
      links.delete(link.id);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      failed.push(toFailure(index, error));
    }
  }
  const deleted = new Set(
    await deleteLinks(
      sql,
      caller,
      [...removable.values()].map((link) => link.id),
    ),
  );
  const succeeded: components['schemas']['LinkBatchRemoval'][] = [];
  for (const [index, link] of removable) {
    if (!deleted.has(link.id)) {
      failed.push(toFailure(index, notFound()));
      continue;
    }
    call.db.record(buildLinkChange('unlink', link, findTypeName(workspace, link), now));
    succeeded.push({ index, id: link.id, deleted: true });
  }
  return buildBatchResult(succeeded, failed);
}

/** @throws ApiError 403 unless the caller can edit one side and view the other */
function authorizeRemoval(call: Call, workspace: Workspace, link: StoredLink): void {
  const [from, to] = [requireModule(workspace, link.fromObject), requireModule(workspace, link.toObject)];
  try {
    call.authorize(`${from}:edit`);
    call.authorize(`${to}:view`);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    call.authorize(`${to}:edit`);
    call.authorize(`${from}:view`);
  }
}

/** @throws ApiError 404 if the caller cannot see the record, before any problem of the body */
async function readWantedLink(call: Call<'createLink'>, workspace: Workspace): Promise<WantedLink> {
  const { path, body } = call.request;
  // Clients may send ids in upper case.
  const [id, otherId] = [orNotFound(toUuid(path.id)), orNotFound(toUuid(body.record_id))];
  try {
    const relation = openRelation(workspace, path.object, body.link_type);
    call.authorize(`${requireModule(workspace, relation.otherObject)}:view`);
    if (otherId !== id) return { relation, id, otherId };
    throw validationFailed([buildFieldProblem('record_id', 'INVALID_OPTION', 'must be another record')], 422);
  } catch (error) {
    orNotFound((await hasRecord(call.db.sql, call.caller, path.object, path.id)) || null);
    throw error;
  }
}

/**
 * @throws ApiError 422 if the object has no link type of this name, 409 if the link type accepts no
 * new links
 */
function openRelation(workspace: Workspace, object: string, name: string): OwnRelation {
  const relations = listRelations(object, workspace).filter(
    ({ otherObject }) => otherObject === null || workspace.objects.has(otherObject),
  );
  const relation = toOwnRelation(findRelation(object, name, relations, 'link_type', 422));
  if ('error' in relation) throw relation.error;
  return relation;
}

/** @throws ApiError with the status if no relation has this name */
function findRelation(
  object: string,
  name: string,
  relations: readonly Relation[],
  field: 'type' | 'link_type',
  status: 400 | 422,
): Relation {
  const relation = relations.find((each) => each.name === name);
  if (relation) return relation;
  const allowed = relations.map((each) => each.name);
  const rule = `must be the name of a link type of ${object}`;
  throw validationFailed(
    [buildFieldProblem(field, 'INVALID_OPTION', rule, { allowed, meant: findClosest(name, allowed) })],
    status,
  );
}

/**
 * Locks the records on both sides, so that they cannot be deleted until the transaction ends.
 * @returns the ids of the visible ones
 */
function holdBoth(call: Call, wanted: readonly (WantedLink & { object: string })[]): Promise<ReadonlySet<string>> {
  return holdRecords(
    call,
    wanted.flatMap(({ relation, object, id, otherId }) => [
      { object, id },
      { object: relation.otherObject, id: otherId },
    ]),
  );
}

async function holdRecords(
  { caller, db: { sql } }: Pick<Call, 'caller' | 'db'>,
  records: readonly { object: string; id: string }[],
): Promise<ReadonlySet<string>> {
  const references = records.map(({ object, id }) => ({ field: 'id', kind: 'record' as const, object, value: id }));
  const find = await findReferences(sql, caller, references);
  return new Set(references.flatMap((reference) => find(reference) ?? []));
}

/** @throws ApiError 404 if the object is disabled */
const requireModule = (workspace: Workspace, object: string): string =>
  orNotFound(workspace.objects.get(object)).module;

const findTypeName = (workspace: Workspace, { linkTypeId }: StoredLink): string =>
  orNotFound(workspace.linkTypes.find(({ id }) => id === linkTypeId)).name;

/** Returns the other record of a link, or undefined if the link is not one of this record. */
function findOtherEnd(link: StoredLink, object: string, id: string) {
  if (link.fromObject === object && link.fromId === id) return { object: link.toObject, id: link.toId };
  if (link.toObject === object && link.toId === id) return { object: link.fromObject, id: link.fromId };
  return undefined;
}

function findRelationName(relations: readonly Relation[], linkTypeId: string, side: Relation['side']): string {
  return orNotFound(relations.find((relation) => relation.type.id === linkTypeId && relation.side === side)).name;
}

interface PlacedLink extends SeenLink {
  tie: string;
}

/** Returns the references that the record itself has, as links. */
function listReferences(record: StoredRecord, relations: readonly Relation[]): PlacedLink[] {
  return relations.flatMap(({ type, side, name, otherObject }) => {
    if (!isSystem(type) || side !== 'to') return [];
    const otherId = record.values[type.field];
    // A task names the object of its record.
    const object = otherObject ?? record.values.object;
    if (typeof otherId !== 'string' || typeof object !== 'string') return [];
    const { createdAt } = record;
    const noCreator = { createdByKind: null, createdById: null, createdByName: null };
    return [{ id: null, name, otherObject: object, otherId, createdAt, tie: otherId, ...noCreator }];
  });
}

function isAfter({ createdAt, tie }: PlacedLink, after: readonly [string, string] | undefined): boolean {
  if (!after) return true;
  const time = createdAt.toISOString();
  return time < after[0] || (time === after[0] && tie < after[1]);
}

function newestFirst(a: PlacedLink, b: PlacedLink): number {
  return b.createdAt.getTime() - a.createdAt.getTime() || (a.tie < b.tie ? 1 : -1);
}

function toFailure(index: number, { code, message, details }: ApiError): Failure {
  return { index, code: code as Failure['code'], message, ...(details ? { details } : {}) };
}
