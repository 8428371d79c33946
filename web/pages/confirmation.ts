// Asks for confirmation before what cannot be undone. Works without JavaScript.
import { type Html, html } from '../../runtime/pages/html.ts';
import { form } from './forms.ts';
import { consolePage } from './layout.ts';
import { buildAddress, type PersonalRequest, type Show } from './requests.ts';

export interface Question {
  title: string;
  /** What happens, and that it cannot be undone. */
  text: string | Html;
  button: string;
  /** The path of the page that the person came from. */
  back: (path: PersonalRequest['path']) => string;
  /** Returns false if a form needs no confirmation. */
  applies?: (given: URLSearchParams) => boolean;
}

/** Fields that every form carries itself. */
const carried = new Set(['token', 'mode', 'confirmed']);

/** Performs the action of a form only after the person has confirmed it on a page of its own. */
export const requireConfirmation =
  (question: Question, action: Show): Show =>
  async (parts, request) => {
    const given = request.form ?? new URLSearchParams();
    const needsAnswer = given.get('confirmed') !== 'yes' && (question.applies?.(given) ?? true);
    return needsAnswer ? askToConfirm(request, question, given) : action(parts, request);
  };

/** Shows a question. Its form sends the given fields again, with `confirmed`. */
export function askToConfirm(
  request: PersonalRequest,
  { title, text, button, back }: Question,
  given: URLSearchParams,
): ReturnType<typeof consolePage> {
  const [path = ''] = request.address.split('?');
  const kept = [...given].filter(([name]) => !carried.has(name));
  const fields = html`<input type="hidden" name="confirmed" value="yes">
${kept.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
<button class="danger">${button}</button>`;
  return consolePage(
    request,
    200,
    title,
    html`<p>${text}</p>
${form(request, path, fields)}
<p><a href="${buildAddress(back(request.path), request.testMode)}">Cancel</a></p>`,
  );
}
