// Linking and unlinking records: what a single link and a batch of links have in common.
import { v7 as uuidv7 } from 'uuid';
import { toActor } from '../../db/client/created-by.ts';
import { findSamePairs, insertLinks, type LinkRow, type NewLink, type StoredLink } from '../../db/records/links.ts';
import { findRecords } from '../../db/records/records.ts';
import { isSystem, listRelations, type Relation, type SystemLinkType } from '../../domain/objects/relations.ts';
import type { Workspace } from '../../domain/objects/workspace.ts';
import { getRecordLabel } from '../../domain/records/label.ts';
import { isVisible } from '../../domain/records/reading.ts';
import { showRecord } from '../../domain/records/view.ts';
import type { components } from '../../generated/api.ts';
import { type ApiError, conflict } from '../../runtime/errors.ts';
import type { Change } from '../../runtime/handler.ts';
import type { WriteCall } from './record-target.ts';

/** A relation whose links are stored, with the object on its other side. */
export interface OwnRelation extends Relation {
  type: Exclude<Relation['type'], SystemLinkType>;
  otherObject: string;
}

/** Two records to be linked, as seen from one of them. */
export interface WantedLink {
  relation: OwnRelation;
  id: string;
  otherId: string;
}

/** The outcome of a wanted link. */
export type LinkOutcome = { link: StoredLink; alreadyLinked: boolean } | { error: ApiError };

/** Returns the relations of an object whose other side the caller can view, or that can have any object there. */
export function listVisibleRelations(
  object: string,
  workspace: Workspace,
  reader: Parameters<typeof isVisible>[2],
): Relation[] {
  return listRelations(object, workspace).filter(
    ({ otherObject }) => otherObject === null || isVisible(otherObject, workspace, reader),
  );
}

/**
 * Narrows a relation to one that accepts new links.
 * @returns the error of a link type that does not: 409
 */
export function toOwnRelation(relation: Relation): OwnRelation | { error: ApiError } {
  const { type, otherObject, name } = relation;
  if (isSystem(type)) {
    const message = `${name} is a reference. Change ${type.field} of the ${type.toObject} record instead.`;
    return { error: conflict('system_link_type', message, { object: type.toObject, field: type.field }) };
  }
  if (!type.isEnabled)
    return { error: conflict('link_type_disabled', `The link type ${name} is disabled and accepts no new links.`) };
  // Only system link types have a side with any object.
  return { ...relation, type, otherObject: otherObject ?? '' };
}

/** Links records that the caller has locked. @returns the outcomes in the order given */
export async function writeLinks(call: WriteCall, wanted: readonly WantedLink[]): Promise<LinkOutcome[]> {
  const { caller, now } = call;
  const { sql } = call.db;
  const links: NewLink[] = wanted.map(({ relation, id, otherId }) => ({
    id: uuidv7(),
    type: relation.type,
    ...(relation.side === 'from' ? { fromId: id, toId: otherId } : { fromId: otherId, toId: id }),
  }));
  // In one order for all callers, so that two of them do not wait for each other.
  const inserted = await insertLinks(sql, caller, links.toSorted(inLockOrder), now);
  const made = new Map(inserted.map((link) => [link.id, link]));
  const same = await findSamePairs(
    sql,
    caller,
    links.filter(({ id }) => !made.has(id)),
  );
  const existing = new Map(same.map((link) => [toPairKey(link), link]));
  return links.map((link) => {
    const created = made.get(link.id);
    if (created) {
      call.db.record(buildLinkChange('link', created, link.type.name, now));
      return { link: created, alreadyLinked: false };
    }
    const before = existing.get(toPairKey({ ...link, linkTypeId: link.type.id }));
    return before ? { link: before, alreadyLinked: true } : { error: linkLimitReached(link) };
  });
}

const toPairKey = ({ linkTypeId, fromId, toId }: Pick<StoredLink, 'linkTypeId' | 'fromId' | 'toId'>): string =>
  `${linkTypeId} ${fromId} ${toId}`;

function inLockOrder(a: NewLink, b: NewLink): number {
  const [first, second] = [a, b].map(({ type, toId, fromId }) => `${type.id} ${toId} ${fromId}`) as [string, string];
  return first < second ? -1 : 1;
}

function linkLimitReached({ type }: NewLink): ApiError {
  const message = `A ${type.cardinality} link type allows only one ${type.name} link here. Remove the existing link first.`;
  return conflict('link_limit_reached', message, { cardinality: type.cardinality });
}

/** Returns the audit row and the event of a link, from its `from` side. */
export function buildLinkChange(verb: 'link' | 'unlink', link: StoredLink, typeName: string, now: Date): Change {
  return {
    action: `record.${verb}`,
    object: link.fromObject,
    recordId: link.fromId,
    metadata: { link_id: link.id, link_type_id: link.linkTypeId, to_object: link.toObject, to_id: link.toId },
    event: {
      name: `record.${verb}ed`,
      data: {
        object: link.fromObject,
        record_id: link.fromId,
        link_type: typeName,
        to_object: link.toObject,
        to_id: link.toId,
        occurred_at: now.toISOString(),
      },
    },
  };
}

type Link = components['schemas']['RecordLink'];

/** A link as one of its records sees it, before the label of the other is known. */
export type SeenLink = Omit<LinkRow, 'linkTypeId' | 'side' | 'tie'> & { name: string };

/** Returns a stored link as a record on one of its sides sees it. */
export function toSeenLink({ side, name }: Relation, link: StoredLink): SeenLink {
  const [otherObject, otherId] = side === 'from' ? [link.toObject, link.toId] : [link.fromObject, link.fromId];
  return { ...link, name, otherObject, otherId };
}

/** Returns links with the labels of their other records; those whose other record the caller cannot see are left out. */
export async function toLinkResponses(
  { caller, db: { sql } }: Pick<WriteCall, 'caller' | 'db'>,
  workspace: Workspace,
  links: readonly SeenLink[],
): Promise<(Link | undefined)[]> {
  const byObject = Map.groupBy(links, ({ otherObject }) => otherObject);
  const labels = new Map<string, string | null>();
  await Promise.all(
    [...byObject].map(async ([name, of]) => {
      const object = workspace.objects.get(name);
      if (!object) return;
      const texts = [...object.fields.values()].filter(({ type }) => type === 'text');
      for (const record of await findRecords(sql, caller, name, [...new Set(of.map(({ otherId }) => otherId))]))
        labels.set(record.id, getRecordLabel(showRecord(object, record), texts));
    }),
  );
  return links.map((link) => {
    const label = labels.get(link.otherId);
    return label === undefined ? undefined : toLinkResponse(link, label);
  });
}

function toLinkResponse(link: SeenLink, label: string | null): Link {
  const { createdByKind: kind, createdById: id } = link;
  return {
    id: link.id,
    link_type: link.name,
    object: link.otherObject,
    record_id: link.otherId,
    record_label: label,
    created_by:
      kind === null || id === null
        ? null
        : toActor({ createdByKind: kind, createdById: id, createdByName: link.createdByName }),
    created_at: link.createdAt.toISOString(),
  };
}
