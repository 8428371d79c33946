// Comparison of names in configured lists.

/**
 * Returns the form in which names are compared: without case, in every script. The conversion to
 * upper case and back turns ß into ss, and both İ and ı into i, as in "İzmir" and "IZMIR". The
 * function fold_name of the database does the same, for the unique indexes.
 */
export function foldName(name: string): string {
  return name.normalize('NFC').toUpperCase().toLowerCase().replaceAll('i\u0307', 'i').normalize('NFC');
}
