// The OpenAPI document for tests: its operations, and a check of every response.
import { readFileSync } from 'node:fs';
import type { ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { OpenAPIV3_1 } from 'openapi-types';

export const document = JSON.parse(
  readFileSync(new URL('../../generated/openapi.json', import.meta.url), 'utf8'),
) as OpenAPIV3_1.Document;

export interface DeclaredOperation {
  id: string;
  method: string;
  path: string;
  declared: OpenAPIV3_1.OperationObject & Record<string, unknown>;
  /** Declared statuses, as written. */
  statuses: string[];
}

const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

export const operations: readonly DeclaredOperation[] = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
  methods.flatMap((method) => {
    const declared = item?.[method] as DeclaredOperation['declared'] | undefined;
    if (!declared) return [];
    return [
      {
        id: declared.operationId ?? '',
        method: method.toUpperCase(),
        path,
        declared,
        statuses: Object.keys(declared.responses ?? {}),
      },
    ];
  }),
);

/** Operations by method and number of parts of their path. */
const matchers = Map.groupBy(operations.map(buildMatcher), ({ operation: { method, path } }) => toShape(method, path));

function buildMatcher(operation: DeclaredOperation) {
  return {
    operation,
    pattern: new RegExp(`^${operation.path.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{\w+\}/g, '[^/]+')}$`),
    parameters: (operation.path.match(/\{/g) ?? []).length,
  };
}

function toShape(method: string, path: string): string {
  return `${method} ${path.split('/').length}`;
}

/** Returns the operation of a request. The path with the fewest parameters wins. */
export function findOperation(method: string, path: string): DeclaredOperation | undefined {
  const wanted = method === 'HEAD' ? 'GET' : method;
  return matchers
    .get(toShape(wanted, path))
    ?.filter((matcher) => matcher.pattern.test(path))
    .sort((a, b) => a.parameters - b.parameters)[0]?.operation;
}

// Each validator checks few responses, so faster code would cost more than it saves.
const ajv = new Ajv2020({ strict: false, allErrors: true, code: { optimize: false } });
(addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
ajv.addSchema({ $id: 'document', ...document });
/** By schema, because most error responses share one. */
const validators = new Map<string, ValidateFunction>();

function getValidator(operation: DeclaredOperation, status: number): ValidateFunction | undefined {
  const declared = operation.declared.responses?.[status] as
    | OpenAPIV3_1.ResponseObject
    | OpenAPIV3_1.ReferenceObject
    | undefined;
  if (!declared) throw new Error(`${operation.id} answered ${status}, which the document does not declare`);
  const response = '$ref' in declared ? (resolve(declared.$ref) as OpenAPIV3_1.ResponseObject) : declared;
  const schema = response.content?.['application/json']?.schema as { $ref?: string } | undefined;
  return schema?.$ref ? validatorFor(schema.$ref) : undefined;
}

/** Returns the validator of a schema, by its reference. */
function validatorFor(reference: string): ValidateFunction {
  const validate = validators.get(reference) ?? ajv.compile({ $ref: `document${reference}` });
  validators.set(reference, validate);
  return validate;
}

/** Returns the target of a reference inside the document. */
export function resolve(reference: string): unknown {
  return reference
    .slice(2)
    .split('/')
    .reduce<unknown>(
      (node, part) => (node as Record<string, unknown>)[part.replaceAll('~1', '/').replaceAll('~0', '~')],
      document,
    );
}

/** Returns true if a write became a change set, which every operation with a dry run can answer. */
const isProposal = ({ declared }: DeclaredOperation, status: number, body: unknown): boolean =>
  declared['x-dry-run'] === true &&
  [200, 202].includes(status) &&
  (body as { data?: { change_set?: object } } | undefined)?.data?.change_set !== undefined;

/** Throws if the document does not declare the response for the operation. */
export function checkAnswer(operation: DeclaredOperation, status: number, body: unknown): void {
  const validate = isProposal(operation, status, body)
    ? validatorFor('#/components/schemas/ProposalAnswer')
    : getValidator(operation, status);
  if (validate && body !== undefined && !validate(body)) {
    throw new Error(
      `${operation.id} ${status} does not fit the document: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(body).slice(0, 2000)}`,
    );
  }
}
