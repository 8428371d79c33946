// Changes the password of the signed-in person, who may be required to do so first.
import { type FieldProblem, buildProblem as problemWith, validationFailed } from '../../runtime/errors.ts';
import type { PageResponse } from '../../runtime/http/page-routes.ts';
import { type Html, html } from '../../runtime/pages/html.ts';
import { doneMessage } from '../pages/components.ts';
import { errorSummary, field, form, submitOrShowAgain, type Typed } from '../pages/forms.ts';
import { consolePage } from '../pages/layout.ts';
import { ask, buildAddress, type PersonalRequest, type Show, toConsoleAddress } from '../pages/requests.ts';

const doneMessages = { changed: 'Your password was changed. You are signed out of all other sessions.' };

/** The length that the operations require of passwords. */
const length = { min: 8, max: 200 };

export const showPassword: Show = async (_, request) => passwordPage(request, 200);

function passwordPage(request: PersonalRequest, status: number, typed: Typed = {}): PageResponse {
  const why = request.person.caller.mustChangePassword
    ? html`<p role="status">Your password is temporary. Choose a new password to continue.</p>`
    : html`<p>This signs you out of all other sessions.</p>`;
  const current = field('current_password', 'Current password', typed, {
    type: 'password',
    autocomplete: 'current-password',
    required: true,
  });
  const body = html`${doneMessage(request, doneMessages)}${errorSummary(typed)}${why}
${form(request, '/console/password', html`${nextField(request)}${current}${passwordFields(typed)}<button>Change password</button>`)}`;
  return consolePage(request, status, 'Password', body);
}

/** Returns where the person continues. undefined if they came to change the password only. */
const readNext = ({ form: sent, query }: PersonalRequest): string | undefined =>
  toConsoleAddress((sent ?? query).get('next'));

function nextField(request: PersonalRequest): Html | null {
  const next = readNext(request);
  return next === undefined ? null : html`<input type="hidden" name="next" value="${next}">`;
}

export const changePassword: Show = (parts, request) => {
  const given = request.form as URLSearchParams;
  return submitOrShowAgain(
    async () => {
      const body = { current_password: given.get('current_password'), password: given.get('password') };
      const problem = findPasswordProblem(given);
      if (problem) return passwordPage(request, 400, { form: given, refused: validationFailed([problem], 400) });
      await ask(parts, request, 'updatePassword', { body });
      return {
        redirect: readNext(request) ?? buildAddress('/console/password', request.testMode, { done: 'changed' }),
      };
    },
    async (refused) => passwordPage(request, refused.status, { form: given, refused }),
  );
};

/** Two fields, because a typing error would lock the person out. */
export const passwordFields = (typed: Typed): Html => {
  const options = { type: 'password', autocomplete: 'new-password', required: true, minlength: length.min } as const;
  const hint = `At least ${length.min} characters.`;
  return html`${field('password', 'New password', typed, { ...options, maxlength: length.max, hint })}
${field('repeated', 'Confirm new password', typed, options)}`;
};

/** Returns what is wrong with a new password, or undefined if the form finds no problem. */
export function findPasswordProblem(given: URLSearchParams): FieldProblem | undefined {
  const password = given.get('password') ?? '';
  if (password.length < length.min)
    return problemWith('password', 'TOO_SHORT', `The new password must have at least ${length.min} characters.`);
  if (password.length > length.max)
    return problemWith('password', 'TOO_LONG', `The new password must have at most ${length.max} characters.`);
  if (password !== given.get('repeated'))
    return problemWith('repeated', 'RULE_FAILED', 'The two passwords do not match.');
  return undefined;
}
