// The exports of the package.
export { type Client, type ClientOptions, type Credential, createClient } from './client.ts';
export {
  type ConnectionErrorCode,
  CrmError,
  type CrmErrorCode,
  type ErrorCode,
  type ErrorDetails,
  type ExportErrorCode,
  type FieldError,
  type ImportErrorCode,
  isCrmError,
  type OAuthErrorCode,
  ProposedError,
} from './errors.ts';
export type { DownloadOptions, ExportDownload, Exports } from './exports.ts';
export type { ImportOptions, ImportProgress, Imports } from './imports.ts';
export type { AnswerOf, CallOf, CallOptions, DryRunOf, OperationId, Schemas } from './shapes.ts';
export { verifyStandardWebhook, verifyWebhook, type WebhookHeaders, WebhookSignatureError } from './webhooks.ts';
