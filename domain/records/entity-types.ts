// The objects that activities are logged on, as activities name them.
const objects = { lead: 'leads', deal: 'deals', customer: 'customers', account: 'accounts' } as const;

export type EntityType = keyof typeof objects;

export function isEntityType(name: unknown): name is EntityType {
  return typeof name === 'string' && Object.hasOwn(objects, name);
}

export const toEntityObject = (type: EntityType): (typeof objects)[EntityType] => objects[type];
