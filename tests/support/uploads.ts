// Forms with files, byte by byte, so that tests can send what no client would.
import { randomUUID } from 'node:crypto';

export interface FormPart {
  name?: string;
  /** null: a part without a file name. */
  fileName?: string | null;
  type?: string;
  content?: string | Buffer;
  /** Replaces the usual Content-Disposition. */
  disposition?: string;
}

export interface Form {
  rawBody: Buffer;
  headers: Record<string, string>;
}

/** Returns a form of parts, as options of a call. */
export function form(parts: readonly FormPart[], boundary = `form-${randomUUID()}`): Form {
  const pieces = parts.flatMap(
    ({ name = 'file', fileName = 'note.txt', type = 'text/plain', content = 'Hello', disposition }) => {
      const file = fileName === null ? '' : `; filename="${fileName.replaceAll('"', '%22')}"`;
      const lines = [
        `--${boundary}`,
        `Content-Disposition: ${disposition ?? `form-data; name="${name}"${file}`}`,
        ...(fileName === null ? [] : [`Content-Type: ${type}`]),
      ];
      return [Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), Buffer.from(content), Buffer.from('\r\n')];
    },
  );
  return {
    rawBody: Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]),
    headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
  };
}

/** Returns a form with one file. */
export function fileForm(part: FormPart = {}): Form {
  return form([part]);
}
