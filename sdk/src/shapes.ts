// The document's types as calls: what an operation takes and answers, and what pages are made of.
import type { components, operations } from './generated/api.ts';

/** The document's schemas by name: `Schemas['Lead']`. */
export type Schemas = components['schemas'];

export type OperationId = keyof operations;

/** What the client has to know of an operation in order to call it. */
export interface Description {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  /** Takes an Idempotency-Key. */
  takesKey?: true;
  /** The name of the array in its pages. */
  items?: string;
  /** A list without an end, to be followed. */
  isEndless?: true;
  /** Answers something else than JSON. */
  isFile?: true;
}

/** What can be set for a single call. */
export interface CallOptions {
  /** Ends the call, its retries and the waits between them. */
  signal?: AbortSignal;
  /** Milliseconds for each attempt, in place of the client's. */
  timeout?: number;
  /** Further attempts after one that failed, in place of the client's. */
  retries?: number;
  /** Headers beside the client's. */
  headers?: Record<string, string>;
  /** Sees the status and the headers of every answer, those of failed attempts included. */
  onResponse?: (response: Response) => void;
}

interface KeyOption {
  /** The Idempotency-Key of this intention, 8 to 255 characters; a random one unless given. All attempts send the same. */
  idempotencyKey?: string;
}

type Flat<Type> = { [Name in keyof Type]: Type[Name] };
type IsEqual<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

type Mutable<Type> = { -readonly [Name in keyof Type]: Type[Name] };

/** Without the fields that the server alone writes. */
type Writable<Body> = Body extends readonly unknown[]
  ? Body
  : {
      [Name in keyof Body as IsEqual<Pick<Body, Name>, Mutable<Pick<Body, Name>>> extends true
        ? Name
        : never]: Body[Name];
    };

/** One part of a request: left out when there is none, optional when nothing of it is required. */
type Part<Name extends string, Found> = [NonNullable<Found>] extends [never]
  ? unknown
  : undefined extends Found
    ? { [Key in Name]?: NonNullable<Found> }
    : { [Key in Name]: Found };

/** What the media types of a request are sent as. */
type BodyOf<Content> = {
  [Type in keyof Content]: Type extends 'multipart/form-data'
    ? FormData
    : Type extends 'application/x-www-form-urlencoded'
      ? URLSearchParams
      : Writable<Content[Type]>;
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

/** What an operation takes. */
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

/** What an operation answers: the `data` of the envelope, or the body where the document says that there is none. */
export type AnswerOf<Id extends OperationId> = [BodyOfSuccess<Id>] extends [never]
  ? undefined
  : BodyOfSuccess<Id> extends { 'application/json': infer Json }
    ? Json extends { success: true; data: infer Data }
      ? Data
      : Json
    : Blob;

type Optional<Call> = Partial<Call> extends Call ? [call?: Call] : [call: Call];

export type Method<Id extends OperationId> = (...call: Optional<CallOf<Id>>) => Promise<AnswerOf<Id>>;

/** The iterator itself says where a page starts. */
type Listing<Call> = Call extends { query?: infer Query }
  ? Flat<Omit<Call, 'query'> & { query?: Omit<NonNullable<Query>, 'cursor' | 'offset'> }>
  : Call;

type Item<Answer, Items> = Items extends keyof Answer
  ? Answer[Items] extends readonly (infer Found)[]
    ? Found
    : never
  : never;

/** A list: one page when called, and iterators over all of it. */
export interface ListMethod<Id extends OperationId, Items extends string> {
  (...call: Optional<CallOf<Id>>): Promise<AnswerOf<Id>>;
  /** Page by page, from the first one on. */
  pages(...call: Optional<Listing<CallOf<Id>>>): AsyncGenerator<AnswerOf<Id>, void, undefined>;
  /** Item by item; asks for pages of 100 unless `query.limit` says otherwise. */
  all(...call: Optional<Listing<CallOf<Id>>>): AsyncGenerator<Item<AnswerOf<Id>, Items>, void, undefined>;
}

/** A feed: a page when called, and an iterator that follows it. */
export interface FeedMethod<Id extends OperationId> {
  (...call: Optional<CallOf<Id>>): Promise<AnswerOf<Id>>;
  /**
   * Page by page, from `query.cursor` on, for ever: waits for what is new, and gets over what may pass, however long it takes. Keep
   * `next_cursor` once a page is dealt with, and begin there the next time. Ends by `break` or by `signal`.
   */
  follow(...call: Optional<CallOf<Id>>): AsyncGenerator<AnswerOf<Id>, void, undefined>;
}
