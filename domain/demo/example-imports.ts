// Imports of the demo workspace: one that ended, one to start and one to cancel.
import type { ImportOptions } from '../records/import-mapping.ts';
import { exampleIds } from './ids.ts';

/** The file of failed rows of the import that ended. */
export const demoErrorFile =
  'Company,Town,_error_code,_error_message\r\n,Madrid,VALIDATION_ERROR,name is required.\r\n';

const options: ImportOptions = {
  format: 'csv',
  mode: 'create',
  matchOn: [],
  mapping: {},
  defaults: {},
  tags: [],
  checkDuplicates: true,
  encoding: 'auto',
  delimiter: 'auto',
  maxErrors: null,
};

/** Returns the rows of the imports, and of the row that failed. */
export function buildDemoImports(now: Date) {
  const shared = {
    object: 'accounts',
    options,
    dry_run: false,
    status: 'awaiting_file',
    reach_kind: 'company',
    created_by_kind: 'api_key',
    created_by_id: exampleIds.apiKey,
    created_by_name: 'Data team',
    created_at: now,
  };
  const layout = {
    encoding: 'utf-8',
    markBytes: 0,
    delimiter: ',',
    columns: ['Company', 'Town'],
    fields: ['name', 'city'],
  };
  const ended = {
    ...shared,
    status: 'completed',
    layout,
    next_byte: 32,
    next_row: 3,
    next_line: 4,
    file_rows: 2,
    created: 1,
    failed: 1,
    errors_file_id: exampleIds.importErrors,
    errors_bytes: demoErrorFile.length,
    started_at: now,
    completed_at: now,
  };
  const message = 'name is required.';
  return {
    toShow: { ...ended, id: exampleIds.import },
    others: [
      { ...shared, id: exampleIds.importToStart },
      { ...shared, id: exampleIds.importToCancel },
      {
        ...shared,
        status: 'completed',
        layout,
        created: 1,
        started_at: now,
        completed_at: now,
        id: exampleIds.importToUndo,
      },
    ],
    error: {
      import_id: exampleIds.import,
      row: 2,
      line: 3,
      code: 'VALIDATION_ERROR',
      message,
      fields: [{ field: 'name', code: 'REQUIRED', message }],
      content: ['', 'Madrid'],
    },
  };
}
