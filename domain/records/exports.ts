// What exports are called: their formats and states, and the names of their files.
import type { components } from '../../generated/api.ts';

type Schemas = components['schemas'];

export type ExportFormat = Schemas['ExportFormat'];
export type ExportStatus = Schemas['ExportStatus'];
export type ExportError = Schemas['ExportError'];

/** What stands for all objects. */
export const everything = '*';

/** Returns the name under which a file is saved. */
export function buildExportFileName(object: string, format: ExportFormat, createdAt: Date): string {
  const what = object === everything ? 'everything' : object.replace(/^object:/, '');
  return `${what}-${createdAt.toISOString().slice(0, 10)}.${format}`;
}
