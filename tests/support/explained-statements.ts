// Plans of statements, from a driver that explains them.
import type { Sql, TransactionSql } from 'postgres';

/**
 * Returns a driver that explains statements of rows instead of running them.
 * @param plans gets the plan of each statement
 */
export function explaining(
  sql: TransactionSql,
  plans: string[],
  explain: 'explain' | 'explain analyze' = 'explain',
): Sql {
  const recordPlan = (explained: () => Promise<readonly Record<string, string>[]>) => () => {
    const read = async (): Promise<[]> => {
      plans.push((await explained()).map((row) => row['QUERY PLAN']).join('\n'));
      return [];
    };
    return Object.assign(read(), { options: {} }) as never;
  };
  const unsafe = (...[text, parameters]: Parameters<Sql['unsafe']>) => {
    const query = sql.unsafe(text, parameters);
    // A fragment of another statement has no parameters.
    if (parameters) query.values = recordPlan(() => sql.unsafe(`${explain} ${text}`, parameters));
    return query;
  };
  return new Proxy(sql as unknown as Sql, {
    get: (target, name) => (name === 'unsafe' ? unsafe : Reflect.get(target, name)),
    apply(target, _, args: Parameters<Sql>) {
      const query = Reflect.apply(target, undefined, args);
      if (!Array.isArray(args[0]) || !('raw' in args[0])) return query;
      query.values = recordPlan(() => sql`${sql.unsafe(explain)} ${query}`);
      return query;
    },
  });
}
