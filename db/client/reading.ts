// What stands in front of statements of a call that only reads, each of which is a transaction.

import { isKeyUnchanged, type KeyVersion, readingEntrance } from './key-versions.ts';
import type { Beforehand, Planning } from './preambles.ts';
import type { TenantScope } from './tenant.ts';

/** What the statements of a call that only reads have in front of them. */
export class Reading {
  readonly #scope: TenantScope;
  readonly #credential: KeyVersion | undefined;
  #entrance: Beforehand | undefined;
  #planning: Planning = 'auto';
  #answered: () => void = () => undefined;
  /** Whether the credential is what it was; undefined until the database answered. */
  isUnchanged: boolean | undefined;

  constructor(scope: TenantScope, credential: KeyVersion | undefined) {
    this.#scope = scope;
    this.#credential = credential;
  }

  planOnce(): void {
    this.#planning = 'once';
    this.#entrance = undefined;
  }

  /** Takes a connection. @param answered runs with each answer */
  standOn(answered: () => void): void {
    this.#answered = answered;
    this.#entrance = undefined;
  }

  /** Asks about the key until the first answer. */
  entrance(): Beforehand {
    this.#entrance ??= this.#newEntrance(this.#planning, this.#answered);
    return this.#entrance;
  }

  #newEntrance(planning: Planning, answered: () => void): Beforehand {
    const credential = this.isUnchanged === undefined ? this.#credential : undefined;
    const entrance = readingEntrance(this.#scope, credential, planning, (stamp) => {
      answered();
      if (this.isUnchanged !== undefined) return;
      this.isUnchanged = credential === undefined || isKeyUnchanged(stamp, credential);
      this.#entrance = undefined;
    });
    return { ...entrance, planned: (how) => this.#newEntrance(how, answered) };
  }
}
