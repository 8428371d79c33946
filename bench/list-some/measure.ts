// P14: a filtered, sorted page of 25, against bare node:http with the same select.
import { compareWithBare } from '../against-bare.ts';
import { load, request } from '../load.ts';
import { batchRequest } from '../records.ts';
import type { Settings } from '../rounds.ts';

const filter = JSON.stringify({ field: 'lead_status', op: 'eq', value: 'New' });
const path = `/v1/objects/leads/records?sort=-created_at&limit=25&filter=${encodeURIComponent(filter)}`;

export const listSome = (settings: Settings) =>
  compareWithBare(
    {
      name: 'list-some',
      figure: 'P14',
      what: 'a page of 25, filtered and sorted: the server, bare node:http with the same select',
      script: 'list-some/bare.ts',
      target: 0.5,
      async arrange(port, workspace) {
        let number = 0;
        const next = (): Buffer => {
          number += 100;
          return batchRequest(workspace.key, 'list', number);
        };
        await load({ port, connections: 1, milliseconds: 60_000, most: 20, next });
        const bytes = request('GET', path, { 'x-api-key': workspace.key });
        return () => () => bytes;
      },
    },
    settings,
  );
