// A console user without a browser: keeps cookies and follows no redirects.
import { inject } from 'vitest';
import { Secrets } from '../../runtime/credentials/secrets.ts';
import { anyAddress } from './client.ts';
import { adminPassword } from './tenants.ts';

export interface Seen {
  status: number;
  text: string;
  /** The Location header. */
  to: string | null;
  headers: Headers;
}

interface Kept {
  name: string;
  value: string;
  path: string;
}

/** The session cookie of the signed-in user. */
const session = 'console_session';

export class Visitor {
  protected readonly base: string;
  readonly #address = anyAddress();
  #kept: Kept[] = [];

  constructor(base = inject('baseUrl')) {
    this.base = base;
  }

  /** The session cookie as a browser sends it, empty if the user is signed out. */
  get cookie(): string {
    const found = this.#kept.find(({ name }) => name === session);
    return found ? `${session}=${found.value}` : '';
  }

  set cookie(text: string) {
    this.#keep(`${text}; path=/console`, '');
  }

  /** Requests a page, or sends a form. */
  async ask(
    path: string,
    form?: Record<string, string> | URLSearchParams | FormData,
    headers: Record<string, string> = {},
  ): Promise<Seen> {
    const url = new URL(path, this.base);
    const sent = this.#kept.filter((each) => url.pathname.startsWith(each.path));
    const cookie = sent.map(({ name, value }) => `${name}=${value}`).join('; ');
    const answer = await fetch(url, {
      redirect: 'manual',
      headers: {
        'x-forwarded-for': this.#address,
        accept: 'text/html',
        ...(cookie === '' ? {} : { cookie }),
        ...headers,
      },
      ...(form ? { method: 'POST', body: form instanceof FormData ? form : new URLSearchParams(form) } : {}),
    });
    for (const text of answer.headers.getSetCookie()) this.#keep(text, url.pathname);
    const text = await answer.text();
    return { status: answer.status, text, to: answer.headers.get('location'), headers: answer.headers };
  }

  #keep(text: string, asked: string): void {
    const [pair = '', ...attributes] = text.split('; ');
    const name = pair.slice(0, pair.indexOf('='));
    const value = pair.slice(pair.indexOf('=') + 1);
    const path = attributes.find((each) => /^path=/i.test(each))?.slice(5) ?? asked;
    this.#kept = this.#kept.filter((each) => each.name !== name || each.path !== path);
    if (value !== '') this.#kept.push({ name, value, path });
  }

  signIn(email: string, password = adminPassword, more: Record<string, string> = {}): Promise<Seen> {
    return this.ask('/console/sign-in', { email, password, ...more });
  }

  /** Returns the hidden fields of the form on a page that posts to an action. */
  async readForm(path: string, action: string): Promise<Record<string, string>> {
    return hiddenFields((await this.ask(path)).text, action);
  }

  /**
   * Fills in a form of a page, sends it, and confirms it if the server asks.
   * @param action the page's own path by default
   */
  async send(path: string, fields: Record<string, string> = {}, action = path.split('?')[0] ?? ''): Promise<Seen> {
    const sent = await this.ask(action, { ...(await this.readForm(path, action)), ...fields });
    // The page that asks for confirmation has the same action.
    return sent.text.includes('name="confirmed"') ? this.ask(action, hiddenFields(sent.text, action)) : sent;
  }

  /** Sends a form like `send`, and follows the redirect. */
  async complete(path: string, fields: Record<string, string> = {}, action = path.split('?')[0] ?? ''): Promise<Seen> {
    const sent = await this.send(path, fields, action);
    return sent.to === null ? sent : this.ask(sent.to);
  }

  /** Makes the password confirmation older than decisions allow. */
  growStale(): void {
    const secrets = new Secrets(inject('secretKey'));
    const kept = JSON.parse(secrets.decrypt(this.cookie.slice(`${session}=`.length)));
    const old = { ...kept, signedInAt: Date.now() - 31 * 60_000 };
    this.cookie = `${session}=${secrets.encrypt(JSON.stringify(old))}`;
  }
}

export function hiddenFields(text: string, action: string): Record<string, string> {
  const form = text.split(`action="${action}"`)[1]?.split('</form>')[0] ?? '';
  const fields = [...form.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)];
  return Object.fromEntries(fields.map(([, name = '', value = '']) => [name, value]));
}
