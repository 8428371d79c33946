// The fields of an object that a search covers.
import type { FieldType } from '../objects/builtin.ts';
import type { Field, WorkspaceObject } from '../objects/workspace.ts';

/** The maximum number of searched fields of one object. */
const maxSearchedFields = 6;

const named = ['name', 'first_name', 'last_name', 'title', 'company_name', 'email', 'mobile', 'phone'];
const textual: ReadonlySet<FieldType> = new Set<FieldType>(['text', 'textarea', 'email', 'phone', 'url']);
/**
 * Objects whose long built-in texts (notes, addresses, descriptions) are not searched, because they
 * have enough shorter ones.
 */
const withoutLongTexts = new Set(['leads', 'customers', 'accounts']);

/** A searched text: a field, or several joined by spaces. */
export interface SearchedText {
  name: string;
  custom: boolean;
  /** The built-in fields that are joined. The text is searched if all of them have a value. */
  parts?: readonly [string, string];
}

const fullName: SearchedText = { name: 'full_name', custom: false, parts: ['first_name', 'last_name'] };

/**
 * Returns the searched texts of these fields, and the full name of a person, which no field has as
 * a whole.
 */
export function listSearchedTexts(fields: readonly Field[]): SearchedText[] {
  const isPerson = fullName.parts?.every((part) => fields.some(({ name, custom }) => name === part && !custom));
  return isPerson ? [...fields, fullName] : [...fields];
}

/** Returns up to six published fields with text: names first, then in the order of the schema. */
export function listSearchedFields(object: WorkspaceObject): Field[] {
  const rank = ({ name }: Field): number => (named.includes(name) ? named.indexOf(name) : named.length);
  return [...object.fields.values()]
    .filter((field) => isSearchable(object, field))
    .sort((a, b) => rank(a) - rank(b))
    .slice(0, maxSearchedFields);
}

function isSearchable({ object }: WorkspaceObject, field: Field): boolean {
  if (!textual.has(field.type)) return false;
  if (field.custom) return true;
  if (field.type === 'textarea' && withoutLongTexts.has(object)) return false;
  // Not extensions, which are too short, and not the ids of other items.
  return field.name !== 'extension' && !field.readOnly && !field.reference && !field.name.endsWith('_id');
}
