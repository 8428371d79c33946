// P3: creating one record, against a bare transaction that writes the same rows.
import { compareWithBare } from '../against-bare.ts';
import { createRequest } from '../records.ts';
import type { Settings } from '../rounds.ts';

export const createOne = (settings: Settings) =>
  compareWithBare(
    {
      name: 'create-one',
      figure: 'P3',
      what: 'create one record: the server, bare node:http with one pipelined transaction of the same rows',
      script: 'create-one/bare.ts',
      target: 0.6,
      async arrange(_port, workspace) {
        let number = 0;
        return (side) => () => {
          number += 1;
          return createRequest(workspace.key, side.name, number);
        };
      },
    },
    settings,
  );
