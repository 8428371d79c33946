// The types of calls, responses and pages, derived from the OpenAPI document.
import type { components, operations } from './generated/api.ts';

/** The schemas of the OpenAPI document by name: `Schemas['Lead']`. */
export type Schemas = components['schemas'];

export type OperationId = keyof operations;

/** The properties of an operation that the client needs to call it. */
export interface Description {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  /** True if it accepts an Idempotency-Key. */
  takesKey?: true;
  /** True if it accepts `Dry-Run: true`. */
  runsDry?: true;
  /** The name of the array in its pages. */
  items?: string;
  /** True for an endless list, which can be followed. */
  isEndless?: true;
  /** True if it does not return JSON. */
  isFile?: true;
}

/** Options of a single call. */
export interface CallOptions {
  /** Aborts the call, its retries and the waits between them. */
  signal?: AbortSignal;
  /** Milliseconds for each attempt; overrides the client's value. */
  timeout?: number;
  /** Retries after a failed attempt; overrides the client's value. */
  retries?: number;
  /** Headers in addition to the client's. */
  headers?: Record<string, string>;
  /** Receives the status and headers of every response, including those of failed attempts. */
  onResponse?: (response: Response) => void;
}

interface KeyOption {
  /**
   * The Idempotency-Key, 8 to 255 characters; random by default. All attempts send the same key.
   */
  idempotencyKey?: string;
}

type Flat<Type> = { [Name in keyof Type]: Type[Name] };
type IsEqual<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

type Mutable<Type> = { -readonly [Name in keyof Type]: Type[Name] };

/** Removes the read-only fields. */
type Writable<Body> = Body extends readonly unknown[]
  ? Body
  : {
      [Name in keyof Body as IsEqual<Pick<Body, Name>, Mutable<Pick<Body, Name>>> extends true
        ? Name
        : never]: Body[Name];
    };

/** One part of a request: absent if there is none, optional if it has no required fields. */
type Part<Name extends string, Found> = [NonNullable<Found>] extends [never]
  ? unknown
  : undefined extends Found
    ? { [Key in Name]?: NonNullable<Found> }
    : { [Key in Name]: Found };

/** The types in which request bodies are passed, by media type. */
type BodyOf<Content> = {
  [Type in keyof Content]: Type extends 'multipart/form-data'
    ? FormData
    : Type extends 'application/x-www-form-urlencoded'
      ? URLSearchParams
      : Type extends 'application/json'
        ? Writable<Content[Type]>
        : Blob;
}[keyof Content];

type RequestBody<Found> = Part<
  'body',
  (Found extends { content: infer Content } ? BodyOf<Content> : never) | (undefined extends Found ? undefined : never)
>;

type Parameters<Id extends OperationId> = operations[Id]['parameters'];

type TakesKey<Id extends OperationId> = [NonNullable<Parameters<Id>['header']>] extends [never]
  ? false
  : 'Idempotency-Key' extends keyof NonNullable<Parameters<Id>['header']>
    ? true
    : false;

/** The argument of an operation. */
export type CallOf<Id extends OperationId> = Flat<
  Part<'path', Parameters<Id>['path']> &
    Part<'query', Parameters<Id>['query']> &
    RequestBody<operations[Id]['requestBody']> &
    (TakesKey<Id> extends true ? KeyOption : unknown) &
    CallOptions
>;

type Success = 200 | 201 | 202 | 204;
type ContentOf<Response> = Response extends { content: infer Content } ? Content : never;
type BodyOfSuccess<Id extends OperationId> = ContentOf<
  operations[Id]['responses'][keyof operations[Id]['responses'] & Success]
>;

/**
 * The result of an operation: the `data` of the envelope, or the whole body of an operation without
 * one.
 */
export type AnswerOf<Id extends OperationId> = [BodyOfSuccess<Id>] extends [never]
  ? undefined
  : BodyOfSuccess<Id> extends { 'application/json': infer Json }
    ? Json extends { success: true; data: infer Data }
      ? Data
      : Json
    : Blob;

type Optional<Call> = Partial<Call> extends Call ? [call?: Call] : [call: Call];

export type Method<Id extends OperationId> = (...call: Optional<CallOf<Id>>) => Promise<AnswerOf<Id>>;

interface DryRunOption {
  /** Runs the whole operation and rolls it back: nothing is stored or sent. */
  dryRun: true;
}

/** The result of a dry run. */
export interface DryRunOf<Id extends OperationId> {
  /** The result that the call would have. Its IDs, times and secrets are not valid. */
  data: AnswerOf<Id>;
  /** The names of the events and audit actions that the call would record. */
  would: Schemas['DryRunEffects'];
}

/** An operation that can run dry. */
export interface DryRunMethod<Id extends OperationId> {
  (...call: Optional<CallOf<Id>>): Promise<AnswerOf<Id>>;
  (call: CallOf<Id> & DryRunOption): Promise<DryRunOf<Id>>;
}

/** Without the parameters that the iterator sets itself. */
type Listing<Call> = Call extends { query?: infer Query }
  ? Flat<Omit<Call, 'query'> & { query?: Omit<NonNullable<Query>, 'cursor' | 'offset'> }>
  : Call;

type Item<Answer, Items> = Items extends keyof Answer
  ? Answer[Items] extends readonly (infer Found)[]
    ? Found
    : never
  : never;

/** A list: returns one page when called, and has iterators over all of it. */
export interface ListMethod<Id extends OperationId, Items extends string> {
  (...call: Optional<CallOf<Id>>): Promise<AnswerOf<Id>>;
  /** Iterates over pages from the first one. */
  pages(...call: Optional<Listing<CallOf<Id>>>): AsyncGenerator<AnswerOf<Id>, void, undefined>;
  /** Iterates over items. Requests pages of 100 unless `query.limit` is set. */
  all(...call: Optional<Listing<CallOf<Id>>>): AsyncGenerator<Item<AnswerOf<Id>, Items>, void, undefined>;
}

/** A feed: returns one page when called, and has an iterator that follows it. */
export interface FeedMethod<Id extends OperationId> {
  (...call: Optional<CallOf<Id>>): Promise<AnswerOf<Id>>;
  /**
   * Iterates endlessly over pages from `query.cursor`: waits for news, and retries through outages
   * of any length. Store `next_cursor` after processing a page, and pass it to continue there. Ends
   * by `break` or by `signal`.
   */
  follow(...call: Optional<CallOf<Id>>): AsyncGenerator<AnswerOf<Id>, void, undefined>;
}
