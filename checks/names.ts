// Rejects functions whose name does not start with a verb, or ends in Of.
import type { Source } from './sources.ts';
import { type NamedFunction, readSyntax } from './syntax.ts';

const verbs = new Set(
  `
    act activate adapt add admit advance announce answer append apply approve ask asks assert attempt authenticate
    authorize await begin belongs book borrow break build call cancel change charge check choose claim clamp classify clean clear
    close collect compare complete compose compress compute concat configure connect consult consume contain convert
    count create cut decide decode dedupe defer define delete deliver derive describe detect diff digest discard
    dispatch dispose distribute download drop duplicate emit empty encode end enqueue ensure enter escape evict
    expand expect expire explain extend extract fail fetch fill find finish fits flatten fold follow forget format
    free fulfill generate get go group guard handle hash hide hold identify ignore insert inspect install intersect
    invent invite isolate iterate join judge keep list load lock look looks mail make map mark match matches merge
    migrate mint mirror move negotiate normalize note observe offer open order override parse pass pause pick pin
    plan post postpone predict prepare preview propose prune publish purge put qualify quote raise read rebuild receive
    recompute record recover redact redirect reduce refine refresh refuse register reindex reject release
    reload remove render renew reopen reorder replace replay report require resolve respond restart restore resume
    retag retry return reveals reverse revert revoke rotate route run sanitize save seal search select send serve
    set settle show shrink sign sleep sort split start stop store submit subscribe subtract suggest sum summarize
    sweep sync take terminate test throw trace transform translate trash truncate try undo unite unlink unlock
    unmerge unpack unsubscribe unwrap update upload upsert validate verify wait wake warn watch widen withdraw write
  `
    .trim()
    .split(/\s+/),
);

/** `isOpen` and `mayRetry` return a boolean, `toText` converts, `newApiKey` makes up a value. */
const prefixes = new Set(['can', 'has', 'is', 'may', 'new', 'to']);

const kept: ReadonlySet<string> = new Set([
  // Sentences: they return the message "Send one of a, b."
  ...['sendAtLeastOneOf', 'sendOneOf', 'sendOnlyOneOf'],
  // By convention, a function that calls another: `inTransaction(pool, (sql) => …)`.
  ...['forEachTenant', 'inDemoTransaction', 'inSnapshot', 'inTransaction', 'withRetries'],
  // Terms of the field, and the end of a look-up: `orNotFound(await findLead(…))`.
  ...['orNotFound', 'sha256', 'singleFlight'],
  // Built like the errors and elements below, but not recognized by what they return.
  ...['sessionTokenNotAccepted', 'consolePage', 'page', 'plainPage'],
]);

/** Errors, as in `throw conflict(…)`, and elements of HTML pages are named after what they build. */
const builds = /^(Promise<)?\w*Error>?$|^new \w*Error\(|^Html( \| null)?$/;

/** Handlers have the names of their operations. */
const unchecked = /^(handlers|tests|bench|checks|spec)\//;

/**
 * Returns every function whose name ends in `Of`, and every function that source code exports under a
 * name without a verb.
 */
export function nameProblems(sources: readonly Source[]): string[] {
  return sources
    .filter(({ path }) => /\.[jt]s$/.test(path) && !/(^|\/)generated\//.test(path))
    .flatMap((source) =>
      readSyntax(source)
        .functions.filter(({ name }) => !kept.has(name))
        .flatMap((found) => {
          const rule = findRule(found, !unchecked.test(source.path));
          return rule === undefined ? [] : [`${source.path}:${found.line} calls a function ${found.name}: ${rule}`];
        }),
    );
}

function findRule({ name, exported, returns }: NamedFunction, isSource: boolean): string | undefined {
  if (/[a-z]Of$/.test(name)) return 'start with a verb, for example findOwner instead of ownerOf';
  const [word = ''] = /^[a-z]+/.exec(name) ?? [];
  if (!isSource || !exported || verbs.has(word) || prefixes.has(word) || builds.test(returns)) return undefined;
  return 'start with a verb, for example buildFilter or findLead; if the verb is new, add it to checks/names.ts';
}
