// P5: searches of all objects of a workspace with 1,000,000 records, against one with 10,000.
import { openLarge } from './large.ts';
import { request } from './load.ts';
import type { Result } from './report.ts';
import { type Measured, measure, median, type Settings } from './rounds.ts';
import { startServer } from './sides.ts';

/** Rare and frequent terms, full names, prefixes, two characters, and a term without matches. */
const parts = [
  'sara',
  'Haddad',
  'haddads',
  'kaya-lee',
  'blue lake',
  'Acme Foods 12',
  'trading 4711',
  'lead77',
  'lead4242@',
  'contoso99',
  '+97155',
  '551234',
  '.example',
  'manager',
  'an',
  'zz',
  'q7',
  'o’b',
  'nobody is called so',
  'حداد',
];

/** Few, because the latency of one search is measured. */
const connections = 2;

export async function search(settings: Settings): Promise<Result> {
  const database = await openLarge((text) => void process.stdout.write(`  ${text}\n`));
  try {
    const server = await startServer('ours', database.env);
    try {
      const { small, large } = database.rows;
      const sides = [
        { ...server, name: small.toLocaleString('en') },
        { ...server, name: large.toLocaleString('en') },
      ];
      const requests = sides.map((_, index) =>
        parts.map((part) =>
          request('GET', `/v1/search?q=${encodeURIComponent(part)}`, {
            'x-api-key': index === 0 ? database.keys.small : database.keys.large,
          }),
        ),
      );
      let turn = 0;
      const next = (side: (typeof sides)[number]) => {
        const own = requests[sides.indexOf(side)] as Buffer[];
        return () => own[turn++ % own.length] as Buffer;
      };
      const measured = (await measure(sides, next as never, { ...settings, connections })) as [Measured, Measured];
      const [few, many] = measured;
      const name = `${many.name} : ${few.name}`;
      const ratios = many.p50.map((value, round) => value / (few.p50[round] ?? Number.NaN));
      return {
        name: 'search',
        figure: 'P5',
        what: 'search across all objects: a small and a large workspace',
        settings: { ...settings, connections, ...database.rows },
        sides: measured,
        ratios: [],
        values: [
          { name: `median, ${name}`, value: median(ratios), unit: '×', target: 3 },
          { name: `99 % of ${many.name}`, value: median(many.p99), unit: 'ms', target: 50 },
        ],
      };
    } finally {
      await server.stop();
    }
  } finally {
    await database.stop();
  }
}
