// The limits of requests. GET /v1/limits returns these numbers.

/**
 * Limits of the whole URL with path and query, as it is sent, and of all header names and values
 * together.
 */
export const headLimits = { addressBytes: 163_840, headerBytes: 16_384 } as const;

/** Limits of a JSON body. Only objects count for the depth. */
export const bodyLimits = { bytes: 102_400, depth: 5, keys: 100 } as const;

/**
 * Limits of a filter: levels of combinators, conditions in total, values of one `in`, conditions
 * through a relation; and levels of objects: the combinators, a link, a condition and a relative
 * date.
 */
export const filterLimits = { depth: 3, conditions: 50, values: 100, related: 3, objects: 6 } as const;

export const maxSortKeys = 3;
/** Relations that one read can expand. */
export const maxExpansions = 3;
/** Records that a list counts. Larger counts are reported as this number. */
export const maxCounted = 10_000;
export const maxPageSize = 100;
/** Equal to maxItems in the OpenAPI document; a test compares them. */
export const maxBatchItems = 100;

/**
 * Limits of an uploaded file and of the form around it. In each period of `paceSeconds`, the client
 * must send as many bytes as any other body may have.
 */
export const uploadLimits = { bytes: 10_485_760, around: 65_536, paceSeconds: 10 } as const;

/**
 * Limits of a workspace's reverts: `running` at the same time; `active`, which also counts those
 * that a job plans and those that wait; and the days of an actor's operations.
 */
export const revertLimits = { running: 1, active: 10, days: 31 };

/**
 * Limits of imports: bytes of a part and of a whole file, parts, columns, rows of a chunk, and the
 * imports of a workspace that run at the same time or wait.
 */
export const importLimits = {
  partBytes: 67_108_864,
  bytes: 1_073_741_824,
  parts: 1000,
  columns: 1000,
  chunkRows: 500,
  running: 2,
  waiting: 10,
} as const;

/** Hits of one object that a search returns. */
export const maxSearchHits = 25;
/** Changes on a page of the feed, and seconds for which a call can wait for them. */
export const feedLimits = { changes: 1000, waitSeconds: 30 } as const;
/** Limits of one query for free times or slots: days, and users. */
export const schedulingLimits = { days: 31, users: 50 } as const;
/** Records that a report can cover. */
export const maxReportRows = 5000;

/** Inbound reports of providers per workspace, mode and minute. */
export const reportsPerMinute = 600;

/** Names in `tags` of one record: enough to send back all tags that a record returns. */
export const mostTagNames = 100;

/** Exports of a workspace in one mode. */
export const exportLimits = { waiting: 10 } as const;

/** The maximum of configured items in a workspace. All of them are kept in memory. */
export const configurationLimits = {
  activeApiKeys: 100,
  branches: 200,
  /** Of all branches. */
  teams: 500,
  customObjects: 50,
  /** Including built-in and retired fields. */
  fieldsOfObject: 100,
  /** Including retired fields: each write locks and looks up a value of each. */
  uniqueFieldsOfObject: 5,
  pipelines: 20,
  /** Of leads, and of each pipeline of deals. */
  statusesOfObject: 100,
  tagsOfObject: 500,
  /** Of all its tags: each write evaluates all of them. */
  tagConditionsOfObject: 1000,
  sources: 500,
  /** Custom link types; system link types do not count. */
  linkTypes: 50,
  slaPolicies: 100,
  activityTypes: 200,
  /** In each mode. */
  webhooks: 50,
  schedulingPolicies: 500,
  workforces: 100,
  schedulingPools: 200,
  /** In each mode. */
  phoneNumbers: 200,
  /** Shared ones of the workspace, and others of each owner. */
  savedViews: 200,
  savedReports: 200,
} as const;
