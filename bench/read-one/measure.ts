// P2: one record by its id with every guarantee, against bare node:http and one select by key.
import { compareWithBare } from '../against-bare.ts';
import { createLead, readRequest } from '../records.ts';
import type { Settings } from '../rounds.ts';

export const readOne = (settings: Settings) =>
  compareWithBare(
    {
      name: 'read-one',
      figure: 'P2',
      what: 'one record by its id: the server, bare node:http with one select',
      script: 'read-one/bare.ts',
      target: 0.5,
      async arrange(port, workspace) {
        const bytes = readRequest(workspace.key, await createLead(port, workspace));
        return () => () => bytes;
      },
    },
    settings,
  );
