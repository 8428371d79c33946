// Finds the conditions that bind the rows of a statement to a company and a mode, by parse tree.
import type { Node, ResTarget, SelectStmt, WithClause } from '@pgsql/types';
import { parse } from 'libpg-query';

/** The columns of tenant tables and of shared tables. */
export interface Catalogue {
  /** By table name: the columns with the company and the mode of a row. */
  tenants: ReadonlyMap<string, TenantColumns>;
  /** By table name. */
  columns: ReadonlyMap<string, ReadonlySet<string>>;
}

export interface TenantColumns {
  company: string;
  /** undefined: its rows belong to both modes. */
  mode: string | undefined;
}

type Kind = 'company' | 'mode';

export interface Bindings {
  /** Rows that no condition binds to a company or a mode, such as `leads l: company`. */
  unbound: string[];
  /** The binding conditions, as nodes of the tree. */
  conditions: object[];
}

/** The origin of a value: a column that needs a binding, or something bound already. */
type Origin = { column: string; kind: Kind } | { known: Kind | 'value' };

interface Relation {
  id: number;
  alias: string;
  /** Set for tenant tables. undefined: the rows were bound where they were created. */
  tenantColumns: TenantColumns | undefined;
  /** undefined: any column, as in the result of a function. */
  columns: ReadonlySet<string> | undefined;
  /** What a column contains, if its rows are bound already. */
  says: (column: string) => Kind | 'value' | undefined;
}

interface Scope {
  relations: Relation[];
  outer: Scope | undefined;
  tables: ReadonlyMap<string, Output>;
}

/** Columns in order, each with what it contains. */
type Output = readonly (readonly [name: string, says: Kind | 'value' | undefined])[];

interface Edge {
  target: string;
  /** undefined: a value. */
  from: string | undefined;
  /** The edge exists only because of these conditions. */
  conditions: readonly object[];
}

/**
 * Follows every row that a statement touches to what binds it.
 * @param tree one statement from the parser
 * @param without a condition to ignore
 * @throws Error for an unknown kind of statement
 */
export function readBindings(tree: Node, catalogue: Catalogue, without?: object): Bindings {
  return new Reader(catalogue, without).read(tree);
}

/** Returns the trees of the statements in a text. */
export async function parseTrees(text: string): Promise<Node[]> {
  const { stmts = [] } = await parse(text);
  return stmts.flatMap(({ stmt }) => (stmt ? [stmt] : []));
}

const harmless = /^(Transaction|VariableSet|VariableShow|Lock|Notify|Listen|Explain)Stmt$/;

class Reader {
  readonly #catalogue: Catalogue;
  readonly #without: object | undefined;
  readonly #unbound: string[] = [];
  readonly #conditions = new Set<object>();
  #count = 0;

  constructor(catalogue: Catalogue, without: object | undefined) {
    this.#catalogue = catalogue;
    this.#without = without;
  }

  read(tree: Node): Bindings {
    const [kind = ''] = Object.keys(tree);
    if (!harmless.test(kind)) this.#statement(tree, undefined, new Map());
    return { unbound: this.#unbound, conditions: [...this.#conditions] };
  }

  #statement(tree: Node, outer: Scope | undefined, tables: ReadonlyMap<string, Output>): Output {
    if ('SelectStmt' in tree) return this.#select(tree.SelectStmt, outer, tables);
    if ('InsertStmt' in tree) {
      const { relation, withClause, selectStmt, onConflictClause, returningList, returningClause } =
        tree.InsertStmt as InsertLike;
      const scope = this.#scope(outer, this.#with(withClause, outer, tables));
      if (selectStmt) this.#statement(selectStmt, outer, scope.tables);
      const written = this.#table(relation.relname, relation.alias?.aliasname, scope);
      // Its key leads with the company, so a conflicting row has the company of the written row.
      scope.relations.push({
        ...written,
        tenantColumns: undefined,
        says: (column) => classifyColumn(written.tenantColumns, column),
      });
      if (onConflictClause) {
        scope.relations.push(this.#made('excluded', undefined, () => 'value'));
        this.#expressions(onConflictClause, scope);
      }
      return this.#returned(returningClause?.exprs ?? returningList, scope);
    }
    if ('UpdateStmt' in tree || 'DeleteStmt' in tree) {
      const changed = ('UpdateStmt' in tree ? tree.UpdateStmt : tree.DeleteStmt) as ChangeLike;
      const scope = this.#scope(outer, this.#with(changed.withClause, outer, tables));
      const { relname, alias } = changed.relation;
      scope.relations.push(this.#table(relname, alias?.aliasname, scope));
      const edges = this.#from(changed.fromClause ?? changed.usingClause ?? [], scope);
      edges.push(...this.#edges(changed.whereClause, scope));
      this.#expressions(
        [changed.whereClause, changed.targetList, changed.returningClause, changed.returningList],
        scope,
      );
      this.#bind(scope, edges);
      return this.#returned(changed.returningClause?.exprs ?? changed.returningList, scope);
    }
    throw new Error(`statements of the kind ${Object.keys(tree)} are not understood`);
  }

  #select(select: SelectStmt, outer: Scope | undefined, given: ReadonlyMap<string, Output>): Output {
    const tables = this.#with(select.withClause, outer, given);
    if (select.larg && select.rarg) {
      const [left, right] = [select.larg, select.rarg].map((each) => this.#select(each, outer, tables));
      return (left ?? []).map(([name, says], place) => [name, says === 'value' ? right?.[place]?.[1] : says]);
    }
    const scope = this.#scope(outer, tables);
    if (select.valuesLists) {
      this.#expressions(select.valuesLists, scope);
      const [first] = select.valuesLists;
      const width = first && 'List' in first ? (first.List.items ?? []).length : 0;
      return Array.from({ length: width }, (_, place) => [`column${place + 1}`, 'value'] as const);
    }
    const edges = this.#from(select.fromClause ?? [], scope);
    edges.push(...this.#edges(select.whereClause, scope));
    const { fromClause: _, withClause: __, ...rest } = select;
    this.#expressions(rest, scope);
    this.#bind(scope, edges);
    return this.#returned(select.targetList, scope);
  }

  /** Reads the statements of a WITH clause. */
  #with(
    clause: WithClause | undefined,
    outer: Scope | undefined,
    given: ReadonlyMap<string, Output>,
  ): ReadonlyMap<string, Output> {
    const tables = new Map(given);
    for (const cte of clause?.ctes ?? []) {
      if (!('CommonTableExpr' in cte)) continue;
      const { ctename = '', ctequery, aliascolnames } = cte.CommonTableExpr;
      if (!ctequery) continue;
      if (clause?.recursive && 'SelectStmt' in ctequery && ctequery.SelectStmt.larg) {
        // A recursive query continues from the rows of its first part, which is read again with the
        // whole.
        const first = new Reader(this.#catalogue, this.#without).#select(ctequery.SelectStmt.larg, outer, tables);
        tables.set(ctename, renamed(first, aliascolnames));
      }
      tables.set(ctename, renamed(this.#statement(ctequery, outer, tables), aliascolnames));
    }
    return tables;
  }

  #scope(outer: Scope | undefined, tables: ReadonlyMap<string, Output>): Scope {
    return { relations: [], outer, tables };
  }

  #made(alias: string, columns: ReadonlySet<string> | undefined, says: Relation['says']): Relation {
    this.#count += 1;
    return { id: this.#count, alias, tenantColumns: undefined, columns, says };
  }

  #table(name = '', alias: string | undefined, { tables }: Scope): Relation {
    const output = tables.get(name);
    if (output) return this.#output(alias ?? name, output);
    const columns = this.#catalogue.columns.get(name);
    // Shared tables and tables of places are where companies are looked up.
    return { ...this.#made(alias ?? name, columns, sharedSays), tenantColumns: this.#catalogue.tenants.get(name) };
  }

  #output(alias: string, output: Output): Relation {
    const says = new Map(output);
    return this.#made(alias, new Set(says.keys()), (column) => says.get(column));
  }

  /**
   * Adds the sources of a statement to its scope.
   * @returns the bindings by join conditions
   */
  #from(items: readonly Node[], scope: Scope): Edge[] {
    return items.flatMap((item) => this.#item(item, scope));
  }

  #item(item: Node, scope: Scope): Edge[] {
    if ('RangeVar' in item) {
      const { relname, alias } = item.RangeVar;
      scope.relations.push(this.#table(relname, alias?.aliasname, scope));
      return [];
    }
    if ('RangeSubselect' in item) {
      const { subquery, alias } = item.RangeSubselect;
      const output = subquery ? this.#statement(subquery, scope, scope.tables) : [];
      scope.relations.push(this.#output(alias?.aliasname ?? '', renamed(output, alias?.colnames)));
      return [];
    }
    if ('RangeFunction' in item) {
      this.#expressions(item.RangeFunction.functions, scope);
      const { alias } = item.RangeFunction;
      scope.relations.push(
        this.#made(alias?.aliasname ?? '', listNames(alias?.colnames, item.RangeFunction.coldeflist), () => 'value'),
      );
      return [];
    }
    if ('JoinExpr' in item) {
      const { larg, rarg, quals, jointype, usingClause } = item.JoinExpr;
      const start = scope.relations.length;
      const edges = larg ? this.#item(larg, scope) : [];
      const middle = scope.relations.length;
      edges.push(...(rarg ? this.#item(rarg, scope) : []));
      const left = new Set(scope.relations.slice(start, middle).map(({ id }) => String(id)));
      const right = new Set(scope.relations.slice(middle).map(({ id }) => String(id)));
      const own = [...this.#edges(quals, scope), ...this.#using(usingClause ?? [], scope, left, right)];
      this.#expressions(quals, scope);
      // An outer join's condition does not bind the rows that remain without a match.
      const isBound = ({ target }: Edge): boolean => {
        const id = target.split('.')[0] ?? '';
        if (jointype === 'JOIN_LEFT') return right.has(id);
        if (jointype === 'JOIN_RIGHT') return left.has(id);
        return jointype !== 'JOIN_FULL';
      };
      return [...edges, ...own.filter(isBound)];
    }
    throw new Error(`${Object.keys(item)} is not understood after from`);
  }

  #using(names: readonly Node[], { relations }: Scope, left: ReadonlySet<string>, right: ReadonlySet<string>): Edge[] {
    return names.flatMap((name) => {
      const column = readText(name);
      const origin = (side: ReadonlySet<string>): Origin | undefined => {
        const relation = relations.find(({ id, columns }) => side.has(String(id)) && (columns?.has(column) ?? true));
        return relation && originIn(relation, column);
      };
      return this.#equal(origin(left), origin(right), name);
    });
  }

  /** Returns the bindings of a condition. */
  #edges(condition: Node | undefined, scope: Scope): Edge[] {
    if (!condition || condition === this.#without) return [];
    if ('BoolExpr' in condition) {
      const { boolop, args = [] } = condition.BoolExpr;
      if (boolop === 'AND_EXPR') return args.flatMap((each) => this.#edges(each, scope));
      if (boolop === 'OR_EXPR') return inAll(args.map((each) => this.#edges(each, scope)));
      const [denied] = args;
      return denied && 'ColumnRef' in denied ? this.#alone(denied, condition, scope) : [];
    }
    if ('ColumnRef' in condition) return this.#alone(condition, condition, scope);
    if ('A_Expr' in condition) {
      const { kind, name, lexpr, rexpr } = condition.A_Expr;
      if (readText(name?.[0]) !== '=' || !lexpr || !rexpr) return [];
      if (kind === 'AEXPR_IN' || kind === 'AEXPR_OP_ANY')
        return isValue(rexpr) ? this.#equal(this.#origin(lexpr, scope), { known: 'value' }, condition) : [];
      if (kind !== 'AEXPR_OP' && kind !== 'AEXPR_NOT_DISTINCT') return [];
      if ('RowExpr' in lexpr && 'RowExpr' in rexpr) {
        const others = rexpr.RowExpr.args ?? [];
        return (lexpr.RowExpr.args ?? []).flatMap((each, place) =>
          this.#equal(this.#origin(each, scope), this.#origin(others[place], scope), each),
        );
      }
      return this.#equal(this.#origin(lexpr, scope), this.#origin(rexpr, scope), condition);
    }
    if ('SubLink' in condition) {
      const { subLinkType, testexpr, subselect } = condition.SubLink;
      if (subLinkType !== 'ANY_SUBLINK' || !testexpr || !subselect) return [];
      // Only the output matters here. The subquery's own rows are checked with the expressions.
      const output = new Reader(this.#catalogue, this.#without).#statement(subselect, scope, scope.tables);
      const tested = 'RowExpr' in testexpr ? (testexpr.RowExpr.args ?? []) : [testexpr];
      return tested.flatMap((each, place) => {
        const says = output[place]?.[1];
        return this.#equal(this.#origin(each, scope), says && { known: says }, each);
      });
    }
    return [];
  }

  /** Handles a boolean column that is itself the condition. */
  #alone(column: Node, condition: object, scope: Scope): Edge[] {
    return this.#equal(this.#origin(column, scope), { known: 'value' }, condition);
  }

  #equal(one: Origin | undefined, other: Origin | undefined, condition: object): Edge[] {
    if (!one || !other || condition === this.#without) return [];
    const edges: Edge[] = [];
    for (const [target, from] of [
      [one, other],
      [other, one],
    ] as const) {
      if (!('column' in target)) continue;
      if ('column' in from ? from.kind !== target.kind : from.known !== 'value' && from.known !== target.kind) continue;
      edges.push({ target: target.column, from: 'column' in from ? from.column : undefined, conditions: [condition] });
    }
    if (edges.length > 0) this.#conditions.add(condition);
    return edges;
  }

  #origin(value: Node | undefined, scope: Scope): Origin | undefined {
    if (!value) return undefined;
    if ('TypeCast' in value) return this.#origin(value.TypeCast.arg, scope);
    if ('ColumnRef' in value) {
      const names = (value.ColumnRef.fields ?? []).map(readText);
      const found = findColumn(names, scope);
      if (!found) return undefined;
      const origin = originIn(found.relation, names.at(-1) ?? '');
      // The outer statement binds its own rows.
      return origin && 'column' in origin && found.isOuter ? { known: origin.kind } : origin;
    }
    if ('SubLink' in value && value.SubLink.subLinkType === 'EXPR_SUBLINK' && value.SubLink.subselect) {
      const [first] = new Reader(this.#catalogue, this.#without).#statement(
        value.SubLink.subselect,
        scope,
        scope.tables,
      );
      return first?.[1] && { known: first[1] };
    }
    return isValue(value) ? { known: 'value' } : undefined;
  }

  /** Searches all other expressions for further statements. */
  #expressions(value: unknown, scope: Scope): void {
    if (Array.isArray(value)) for (const each of value) this.#expressions(each, scope);
    else if (value && typeof value === 'object')
      for (const [key, inner] of Object.entries(value)) {
        if (key === 'SubLink') {
          const { subselect, testexpr } = inner as { subselect?: Node; testexpr?: Node };
          if (subselect) this.#statement(subselect, scope, scope.tables);
          this.#expressions(testexpr, scope);
        } else this.#expressions(inner, scope);
      }
  }

  #bind({ relations }: Scope, edges: readonly Edge[]): void {
    const bound = new Set<string>();
    for (let size = -1; size !== bound.size; ) {
      size = bound.size;
      for (const { target, from } of edges) if (from === undefined || bound.has(from)) bound.add(target);
    }
    for (const { id, alias, tenantColumns } of relations) {
      if (!tenantColumns) continue;
      if (!bound.has(`${id}.${tenantColumns.company}`)) this.#unbound.push(`${alias}: company`);
      if (tenantColumns.mode && !bound.has(`${id}.${tenantColumns.mode}`)) this.#unbound.push(`${alias}: mode`);
    }
  }

  #returned(targets: readonly Node[] | undefined, scope: Scope): Output {
    return (targets ?? []).flatMap((target): Output => {
      if (!('ResTarget' in target)) return [];
      const { name, val } = target.ResTarget as ResTarget;
      if (!val) return [];
      if ('ColumnRef' in val) {
        const fields = val.ColumnRef.fields ?? [];
        const last = fields.at(-1);
        if (last && 'A_Star' in last) {
          const alias = fields.length > 1 ? readText(fields[0]) : undefined;
          return scope.relations
            .filter((relation) => alias === undefined || relation.alias === alias)
            .flatMap((relation) =>
              [...(relation.columns ?? [])].map((column) => [column, saysIn(relation, column)] as const),
            );
        }
        const names = fields.map(readText);
        const found = findColumn(names, scope);
        const column = names.at(-1) ?? '';
        return [[name ?? column, found && saysIn(found.relation, column)]];
      }
      const origin = this.#origin(val, scope);
      return [[name ?? '', origin && 'known' in origin ? origin.known : undefined]];
    });
  }
}

interface ChangeLike {
  relation: { relname?: string; alias?: { aliasname?: string } };
  withClause?: WithClause;
  fromClause?: Node[];
  usingClause?: Node[];
  whereClause?: Node;
  targetList?: Node[];
  returningList?: Node[];
  returningClause?: { exprs?: Node[] };
}

interface InsertLike extends Pick<ChangeLike, 'relation' | 'withClause' | 'returningList' | 'returningClause'> {
  selectStmt?: Node;
  onConflictClause?: object;
}

/** In a shared table, company_id is the result of a lookup. */
const sharedSays = (column: string): Kind | undefined => (column === 'company_id' ? 'company' : undefined);

function classifyColumn(tenantColumns: TenantColumns | undefined, column: string): Kind | undefined {
  if (column === tenantColumns?.company) return 'company';
  return column === tenantColumns?.mode ? 'mode' : undefined;
}

const saysIn = ({ tenantColumns, says }: Relation, column: string): Kind | 'value' | undefined =>
  tenantColumns ? classifyColumn(tenantColumns, column) : says(column);

function originIn(relation: Relation, column: string): Origin | undefined {
  const kind = classifyColumn(relation.tenantColumns, column);
  if (kind) return { column: `${relation.id}.${column}`, kind };
  const known = relation.tenantColumns ? undefined : relation.says(column);
  return known && { known };
}

function findColumn(names: readonly string[], scope: Scope): { relation: Relation; isOuter: boolean } | undefined {
  const column = names.at(-1) ?? '';
  const alias = names.length > 1 ? names.at(-2) : undefined;
  let isOuter = false;
  for (let each: Scope | undefined = scope; each; each = each.outer) {
    const known = each.relations.find((relation) =>
      alias === undefined ? relation.columns?.has(column) : relation.alias === alias,
    );
    const relation = known ?? (alias === undefined ? each.relations.find(({ columns }) => !columns) : undefined);
    if (relation) return { relation, isOuter };
    isOuter = true;
  }
  return undefined;
}

/** Returns the bindings that all alternatives have. */
function inAll([first = [], ...others]: readonly Edge[][]): Edge[] {
  return first.flatMap((edge) => {
    const alike = others.map((edges) => edges.find(({ target, from }) => target === edge.target && from === edge.from));
    if (alike.includes(undefined)) return [];
    return [{ ...edge, conditions: [edge, ...(alike as Edge[])].flatMap(({ conditions }) => conditions) }];
  });
}

/** Returns true if the expression is the same for all rows. */
function isValue(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isValue);
  if (!value || typeof value !== 'object') return true;
  return Object.entries(value).every(([key, inner]) => key !== 'ColumnRef' && key !== 'SubLink' && isValue(inner));
}

function renamed(output: Output, names: readonly Node[] | undefined): Output {
  return output.map(([name, says], place) => [names?.[place] ? readText(names[place]) : name, says]);
}

function listNames(
  aliases: readonly Node[] | undefined,
  definitions: readonly Node[] | undefined,
): Set<string> | undefined {
  const defined = (definitions ?? []).flatMap((each) => ('ColumnDef' in each ? [each.ColumnDef.colname ?? ''] : []));
  const names = [...(aliases ?? []).map(readText), ...defined];
  return names.length > 0 ? new Set(names) : undefined;
}

function readText(node: Node | undefined): string {
  return node && 'String' in node ? (node.String.sval ?? '') : '';
}
