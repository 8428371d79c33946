// What bounds a request, wherever it is enforced; GET /v1/limits tells these numbers.

/** Of the whole address, path and query, as it is sent; and of all names and values of headers together. */
export const headLimits = { addressBytes: 163_840, headerBytes: 16_384 } as const;

/** Of a JSON body. Only objects count towards the depth. */
export const bodyLimits = { bytes: 102_400, depth: 5, keys: 100 } as const;

/** Of a filter: levels of `and` and `or`, conditions in all, values of one `in`. */
export const filterLimits = { depth: 3, conditions: 50, values: 100 } as const;

export const maxSortKeys = 3;
/** Relations that one read may expand. */
export const maxExpansions = 3;
/** Records that a list counts; more are told as this many. */
export const maxCounted = 10_000;
export const maxPageSize = 100;
/** As the document says in maxItems; a test holds the two together. */
export const maxBatchItems = 100;

/** Of an uploaded file, and of what a form may hold around it; in every so many seconds as much must come as any other body may hold. */
export const uploadLimits = { bytes: 10_485_760, around: 65_536, paceSeconds: 10 } as const;

/**
 * Of imports: bytes of a part and of a whole file, parts, rows of a chunk; and imports of a workspace that run at once, and that wait.
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

/** Hits of one object that a search tells. */
export const maxSearchHits = 25;
/** Changes on a page of the feed, and seconds that a call may wait for them. */
export const feedLimits = { changes: 1000, waitSeconds: 30 } as const;
/** Of one question about free times or slots: days that it covers, and users that it names. */
export const schedulingLimits = { days: 31, users: 50 } as const;
/** Records that a report runs over. */
export const maxReportRows = 5000;

/** Reports of providers for a workspace in a minute, in each mode. */
export const reportsPerMinute = 600;

/** Names in `tags` of one record: enough to send back the tags that it shows. */
export const mostTagNames = 100;

/** What a workspace may configure; all of it is kept in memory. */
export const configurationLimits = {
  activeApiKeys: 100,
  customObjects: 50,
  /** Built-in and retired ones included. */
  fieldsOfObject: 100,
  /** Retired ones included: each write locks and looks up a value of each. */
  uniqueFieldsOfObject: 5,
  statusesOfObject: 100,
  tagsOfObject: 500,
  /** Of all its tags: each write holds its records against them. */
  tagConditionsOfObject: 1000,
  sources: 500,
  /** Those of the workspace; system link types do not count. */
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
} as const;
