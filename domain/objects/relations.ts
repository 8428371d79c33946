// Relations between objects: the references of records, and the link types of a workspace.
import type { LinkCardinality, LinkType } from './configuration.ts';
import type { Workspace } from './workspace.ts';

/** A reference that records have as a field, in the form of a link type. */
export interface SystemLinkType {
  /** The same in every workspace. */
  id: string;
  name: string;
  inverseName: string;
  label: string;
  inverseLabel: string;
  /** Null: any object. */
  fromObject: string | null;
  toObject: string;
  cardinality: LinkCardinality;
  /** The field of `toObject` that holds the id of the record of `fromObject`. */
  field: string;
}

const systemId = (number: number): string => `00000000-0000-8000-8000-${String(number).padStart(12, '0')}`;

const oneToMany = (
  number: number,
  fromObject: string | null,
  toObject: string,
  names: { name: string; inverseName: string; label: string; inverseLabel: string },
): SystemLinkType => ({
  id: systemId(number),
  ...names,
  fromObject,
  toObject,
  cardinality: 'one_to_many',
  field: `${names.inverseName}_id`,
});

const deals = { name: 'deals', label: 'Deals' };

/** The references that can be followed as links. Ids are part of the API: never change or reuse one. */
export const systemLinkTypes: readonly SystemLinkType[] = [
  oneToMany(1, 'customers', 'deals', { ...deals, inverseName: 'customer', inverseLabel: 'Customer' }),
  oneToMany(2, 'accounts', 'deals', { ...deals, inverseName: 'account', inverseLabel: 'Account' }),
  oneToMany(3, 'leads', 'deals', { ...deals, inverseName: 'lead', inverseLabel: 'Lead' }),
  oneToMany(4, 'accounts', 'customers', {
    name: 'customers',
    label: 'Customers',
    inverseName: 'account',
    inverseLabel: 'Account',
  }),
  oneToMany(5, null, 'tasks', { name: 'tasks', label: 'Tasks', inverseName: 'record', inverseLabel: 'Record' }),
];

/** A link type as the records on one of its sides see it. */
export interface Relation {
  /** The name on this side. */
  name: string;
  /** Which side of the link type this is. */
  side: 'from' | 'to';
  /** The object on the other side; null if it can be any. */
  otherObject: string | null;
  type: SystemLinkType | LinkType;
}

/** Returns true for a reference of records, which cannot be linked or unlinked like a link. */
export const isSystem = (type: SystemLinkType | LinkType): type is SystemLinkType => 'field' in type;

/** Returns all relations of an object, system link types first. */
export function listRelations(object: string, { linkTypes }: Pick<Workspace, 'linkTypes'>): Relation[] {
  return [...systemLinkTypes, ...linkTypes].flatMap((type) => {
    const sides: Relation[] = [];
    if (type.fromObject === object || type.fromObject === null)
      sides.push({
        name: type.name,
        side: 'from',
        otherObject: type.toObject,
        type,
      });
    if (type.toObject === object)
      sides.push({
        name: type.inverseName,
        side: 'to',
        otherObject: type.fromObject,
        type,
      });
    return sides;
  });
}

/** Returns true if records on this side are related to at most one record. */
export function isToOne({ side, type }: Relation): boolean {
  if (type.cardinality === 'one_to_one') return true;
  return type.cardinality === 'one_to_many' && side === 'to';
}

/** Where the related records of a record are found. It stays the same if labels or names change. */
export type RelationPath =
  /** The `to` side has the reference in `field`. `isToAny`: its record can be of any object. */
  | { kind: 'reference'; side: Relation['side']; field: string; isToAny: boolean }
  | { kind: 'link'; side: Relation['side']; typeId: string };

export function toRelationPath({ side, type }: Relation): RelationPath {
  return isSystem(type)
    ? { kind: 'reference', side, field: type.field, isToAny: type.fromObject === null }
    : { kind: 'link', side, typeId: type.id };
}
