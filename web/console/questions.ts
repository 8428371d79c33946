// What the console asks before actions that cannot be undone.
import type { Question } from '../pages/confirmation.ts';

export const questions = {
  revokeKey: {
    title: 'Revoke this API key?',
    text: 'Requests with it are rejected immediately. This cannot be undone. To replace the key without an interruption, rotate it instead.',
    button: 'Revoke',
    back: ({ id = '' }) => `/console/api-keys/${id}`,
  },
  revokeApp: {
    title: 'Revoke the access of this app?',
    text: 'Its requests are rejected immediately. This cannot be undone. To return, the app must ask for consent again.',
    button: 'Revoke',
    back: () => '/console/apps',
  },
  removeWebhook: {
    title: 'Delete this webhook endpoint?',
    text: 'It receives no more events, and its signing secret is lost. This cannot be undone. To pause it, disable it instead.',
    button: 'Delete',
    back: ({ id = '' }) => `/console/webhooks/${id}`,
  },
  removeAccess: {
    title: 'Remove the access of this person?',
    text: 'Their sessions end immediately. You can restore the access, but not the sessions.',
    button: 'Remove access',
    back: ({ id = '' }) => `/console/people/${id}`,
    applies: (given) => given.get('status') === 'inactive',
  },
  removeBranch: {
    title: 'Delete this branch?',
    text: 'This cannot be undone.',
    button: 'Delete branch',
    back: ({ id = '' }) => `/console/organization/branches/${id}`,
    applies: (given) => given.has('delete'),
  },
  removeTeam: {
    title: 'Delete this team?',
    text: 'This cannot be undone.',
    button: 'Delete team',
    back: ({ id = '' }) => `/console/organization/teams/${id}`,
    applies: (given) => given.has('delete'),
  },
  endSession: {
    title: 'End this session?',
    text: 'The browser is signed out immediately. This cannot be undone.',
    button: 'End session',
    back: () => '/console/sessions',
  },
  endOtherSessions: {
    title: 'End all other sessions?',
    text: 'All your other browsers are signed out immediately. This cannot be undone.',
    button: 'End all other sessions',
    back: () => '/console/sessions',
  },
  removeLogo: {
    title: 'Remove the logo?',
    text: 'Pages show the name of the workspace only. To show the logo again, you need its file.',
    button: 'Remove logo',
    back: () => '/console/workspace',
  },
} as const satisfies Record<string, Question>;
