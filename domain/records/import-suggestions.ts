// Suggests a field for each column of an import: by name, by label, by synonyms, or by similarity.
import { findClosest } from '../objects/suggestions.ts';
import type { WorkspaceObject } from '../objects/workspace.ts';
import { isErrorColumn, mapTargets, normalizeName } from './import-mapping.ts';

/** Names that other systems use, by field. A column goes to the first field that the object has. */
const synonyms: readonly (readonly [field: string, names: string])[] = [
  ['first_name', 'given name, forename, fname, contact first name, vorname, prénom, nombre'],
  ['last_name', 'surname, family name, lname, contact last name, nachname, nom, apellidos'],
  ['email', 'email address, mail, e-mail 1, work email, primary email, email 1'],
  ['mobile', 'cell, cell phone, mobile phone, mobile number, phone, phone number, telephone, tel, handy'],
  ['phone', 'phone number, telephone, tel, work phone, business phone, telefon, main phone'],
  ['company_name', 'company, organization, organisation, account, account name, employer, firm, firma'],
  ['name', 'company, company name, organization, organisation, account name, firm, firma'],
  ['name', 'deal, deal name, opportunity, opportunity name'],
  ['job_title', 'title, position, job, role, function'],
  ['title', 'subject, task, task name'],
  ['website', 'url, web, homepage, web site, domain, company website'],
  ['address', 'street, street address, address line 1, address 1, mailing street, straße'],
  ['city', 'town, locality, mailing city, stadt, ort, ville, ciudad'],
  ['state', 'region, province, county, state/province, state/region, mailing state, bundesland'],
  ['country', 'country/region, mailing country, land, pays'],
  ['postal_code', 'zip, zip code, zip/postal code, postcode, post code, mailing zip, plz, code postal'],
  ['source', 'lead source, original source, channel'],
  ['lead_status', 'lead stage, stage'],
  ['stage', 'deal stage, sales stage, status'],
  ['expected_close_date', 'close date, closing date, expected close date'],
  ['inquiry_details', 'inquiry, enquiry, message, request'],
  ['notes', 'note, comment, comments, remarks, description'],
  ['description', 'notes, note, comment, comments, remarks, about'],
  ['industry', 'sector, branche'],
  ['employee_count', 'number of employees, employee count, headcount, company size'],
  ['task_type', 'kind, category'],
  ['scheduled_at', 'due, due date, due at, deadline, start, start date'],
  ['performed_at', 'date, activity date'],
  ['details', 'notes, body, text, comment, comments'],
  ['assigned_to_email', 'owner, owner email, assigned to email, assignee, assignee email, sales rep'],
  ['tags', 'tag, labels, label, categories, lists'],
];

const plain = (text: string): string => normalizeName(text).replace(/[^\p{L}\p{N}]/gu, '');

const fieldsBySynonym = new Map<string, string[]>();
for (const [field, names] of synonyms)
  for (const name of names.split(','))
    fieldsBySynonym.set(plain(name), [...(fieldsBySynonym.get(plain(name)) ?? []), field]);

/** Returns true if two names differ only by letters, not by words. */
const isAsLong = (a: string, b: string): boolean => Math.abs(plain(a).length - plain(b).length) <= 2;

/**
 * Returns the suggested field of each column; null: none. No field is suggested twice: better
 * reasons win, then earlier columns.
 */
export function suggestFields(columns: readonly string[], object: WorkspaceObject): (string | null)[] {
  const byName = mapTargets(object, []);
  const byPlainName = new Map([...byName].map(([name, field]) => [plain(name), field]));
  const fields = new Set(byName.values());
  const found: (string | null)[] = columns.map(() => null);
  const taken = new Set<string>();
  const reasons: ((column: string) => (string | undefined)[])[] = [
    (column) => [byName.get(normalizeName(column))],
    (column) => [byPlainName.get(plain(column))],
    (column) => fieldsBySynonym.get(plain(column)) ?? [],
    (column) => [
      findClosest(
        column,
        [...fields].filter((field) => !taken.has(field) && isAsLong(field, column)),
      ),
    ],
  ];
  for (const suggest of reasons)
    for (const [index, column] of columns.entries()) {
      if (found[index] !== null || column.trim() === '' || isErrorColumn(column.trim())) continue;
      const field = suggest(column).find((each) => each !== undefined && fields.has(each) && !taken.has(each));
      if (field === undefined) continue;
      found[index] = field;
      taken.add(field);
    }
  return found;
}
