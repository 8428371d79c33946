// A separate CalDAV server on a free port, with a temporary folder, ended by its process id.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from '../../domain/scheduling/calendars.ts';
import { findFreePort } from './free-port.ts';
import { findProgram } from './programs.ts';

const user = { username: 'omar', password: 'pass:word é' };

export class TestRadicale {
  readonly #folder = mkdtempSync(join(tmpdir(), 'radicale-'));
  readonly #port: number;
  #process: ChildProcess | undefined;

  private constructor(port: number) {
    this.#port = port;
  }

  static async start(): Promise<TestRadicale> {
    const radicale = new TestRadicale(await findFreePort());
    const users = join(radicale.#folder, 'users');
    writeFileSync(users, `${user.username}:${user.password}\n`);
    radicale.#process = spawn(
      findProgram('radicale') ?? 'radicale',
      [
        '--config',
        '',
        `--server-hosts=127.0.0.1:${radicale.#port}`,
        '--auth-type=htpasswd',
        '--auth-delay=0',
        `--auth-htpasswd-filename=${users}`,
        '--auth-htpasswd-encryption=plain',
        '--logging-level=error',
        `--storage-filesystem-folder=${join(radicale.#folder, 'collections')}`,
      ],
      { stdio: 'ignore' },
    );
    for (;;) {
      if (radicale.#process.exitCode !== null) throw new Error('radicale ended');
      const answer = await fetch(radicale.#url('')).catch(() => undefined);
      if (answer) return radicale;
      await sleep(20);
    }
  }

  /** The port for a proxy in front of it. */
  get port(): number {
    return this.#port;
  }

  #url(path: string): string {
    return `http://127.0.0.1:${this.#port}/${path}`;
  }

  async #send(method: string, path: string, headers: Record<string, string>, body?: string): Promise<Response> {
    const authorization = `Basic ${Buffer.from(`${user.username}:${user.password}`).toString('base64')}`;
    const answer = await fetch(this.#url(path), {
      method,
      headers: { authorization, ...headers },
      ...(body === undefined ? {} : { body }),
    });
    if (!answer.ok && answer.status !== 404)
      throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer;
  }

  /**
   * Creates a calendar.
   * @param kind of component that it may contain
   * @returns how to reach it
   */
  async newCalendar(name: string, kind = 'VEVENT'): Promise<TestCalendar> {
    const components = `<c:supported-calendar-component-set><c:comp name="${kind}"/></c:supported-calendar-component-set>`;
    await this.#send(
      'MKCALENDAR',
      `omar/${name}/`,
      { 'content-type': 'application/xml' },
      `<c:mkcalendar xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:set><d:prop>${components}</d:prop></d:set></c:mkcalendar>`,
    );
    const path = `omar/${name}/`;
    return {
      ...user,
      url: this.#url(path),
      connection: (userId, timezone) => ({ provider: 'caldav', userId, timezone, ...user, url: this.#url(path) }),
      put: async (file, text) =>
        void (await this.#send('PUT', `${path}${file}`, { 'content-type': 'text/calendar' }, text)),
      // A calendar contains exactly what its listing shows.
      events: async () => {
        const answer = await this.#send('GET', path, {});
        return (await answer.text()).split('BEGIN:VEVENT').slice(1);
      },
    };
  }

  async stop(): Promise<void> {
    const child = this.#process;
    if (child && child.exitCode === null && child.signalCode === null) {
      const ended = new Promise((resolve) => child.on('exit', resolve));
      child.kill('SIGKILL');
      await ended;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export interface TestCalendar {
  url: string;
  username: string;
  password: string;
  connection(userId: string, timezone: string): Connection;
  /** Adds an object, as another program would. */
  put(file: string, text: string): Promise<void>;
  /** The events in the calendar, as text. */
  events(): Promise<string[]>;
}
