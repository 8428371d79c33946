// Somebody at the screens of the console without a browser: keeps its cookie, follows nothing.
import { inject } from 'vitest';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { anyAddress } from './client.ts';
import { adminPassword } from './tenants.ts';

export interface Seen {
  status: number;
  text: string;
  /** Where it leads. */
  to: string | null;
  headers: Headers;
}

export class Visitor {
  cookie = '';
  readonly #address = anyAddress();
  readonly #base: string;

  constructor(base = inject('baseUrl')) {
    this.#base = base;
  }

  /** Asks for a page, or sends a form. */
  async ask(path: string, form?: Record<string, string>, headers: Record<string, string> = {}): Promise<Seen> {
    const own = { 'x-forwarded-for': this.#address, ...(this.cookie === '' ? {} : { cookie: this.cookie }) };
    const answer = await fetch(this.#base + path, {
      redirect: 'manual',
      headers: { ...own, ...headers },
      ...(form ? { method: 'POST', body: new URLSearchParams(form) } : {}),
    });
    const [kept] = answer.headers.getSetCookie();
    if (kept !== undefined) this.cookie = kept.split(';')[0] ?? '';
    const text = await answer.text();
    return { status: answer.status, text, to: answer.headers.get('location'), headers: answer.headers };
  }

  signIn(email: string, password = adminPassword, more: Record<string, string> = {}): Promise<Seen> {
    return this.ask('/console/sign-in', { email, password, ...more });
  }

  /** What the form of a page that is sent to an address would send, its hidden fields alone. */
  async formOf(path: string, action: string): Promise<Record<string, string>> {
    return hiddenFields((await this.ask(path)).text, action);
  }

  /** Fills a form of a page in, and sends it. @param action undefined: the page's own address */
  async send(path: string, fields: Record<string, string> = {}, action = path.split('?')[0] ?? ''): Promise<Seen> {
    return this.ask(action, { ...(await this.formOf(path, action)), ...fields });
  }

  /** From now on the password was given longer ago than decisions allow. */
  growStale(): void {
    const secrets = new Secrets(inject('secretKey'));
    const session = JSON.parse(secrets.decrypt(this.cookie.slice('console_session='.length)));
    const old = { ...session, signedInAt: Date.now() - 31 * 60_000 };
    this.cookie = `console_session=${secrets.encrypt(JSON.stringify(old))}`;
  }
}

export function hiddenFields(text: string, action: string): Record<string, string> {
  const form = text.split(`action="${action}"`)[1]?.split('</form>')[0] ?? '';
  const fields = [...form.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)];
  return Object.fromEntries(fields.map(([, name = '', value = '']) => [name, value]));
}
