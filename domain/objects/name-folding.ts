// When two names of a configured list are the same.

/**
 * The form in which names are compared: without case, in every script. By way of upper case, so that ß is ss, and İ and ı are i as
 * in "İzmir" and "IZMIR". The function fold_name of the database does the same, for the unique indexes.
 */
export function foldName(name: string): string {
  return name.normalize('NFC').toUpperCase().toLowerCase().replaceAll('i\u0307', 'i').normalize('NFC');
}
