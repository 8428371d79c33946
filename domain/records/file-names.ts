// Names of uploaded files: made safe, and rejected if the file could be executed.

/** Extensions of programs and scripts, and of pages that run them. */
export const refusedExtensions: readonly string[] = (
  'exe com bat cmd msi scr pif cpl dll sys js mjs cjs jse vbs vbe wsf wsh hta ps1 psm1 sh bash zsh csh py pl rb php phtml jar ' +
  'class apk app dmg pkg deb rpm run bin elf lnk reg svg html htm xhtml'
).split(' ');
const refused = new Set(refusedExtensions);

const longest = 255;

/**
 * Removes folders, control and invisible characters, and characters that file systems reject; at
 * most 255 characters.
 */
export function toSafeFileName(given: string): string {
  const name = given
    .normalize('NFC')
    .replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, '')
    .replace(/^.*[/\\]/s, '')
    .replace(/[<>:"|?*]/g, '_')
    .replace(/\s+/g, ' ')
    .replace(/^[. ]+|[. ]+$/g, '');
  const letters = [...name];
  if (letters.length <= longest) return name || 'file';
  const extension = [...(/\.[^.]{1,20}$/.exec(name)?.[0] ?? '')];
  return [...letters.slice(0, longest - extension.length), ...extension].join('');
}

/**
 * Returns the extension for which a file is rejected, anywhere in the name and in any case or form
 * of its letters.
 */
export function findRefusedExtension(given: string): string | undefined {
  const name = given.normalize('NFKC').replace(/[\p{Cc}\p{Cf}]/gu, '');
  const segments = name
    .replace(/^.*[/\\]/s, '')
    .split('.')
    .slice(1);
  // Windows uses only the part before a colon as the file name.
  return segments
    .map((segment) => (segment.split(/[:;]/)[0] ?? '').trim().toLowerCase())
    .find((each) => refused.has(each));
}

/** Returns the header with which browsers save a file under its name (RFC 6266). */
export function buildContentDisposition(name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\%]/g, '_');
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

/**
 * Returns the key of a file in the storage. It consists of ids of this server, never of parts of a
 * request.
 */
export function buildStorageKey(file: { companyId: string; testMode: boolean; id: string }): string {
  return `${file.companyId}/${file.testMode ? 'test' : 'live'}/${file.id}`;
}
