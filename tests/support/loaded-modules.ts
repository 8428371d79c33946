// Which of Node's own modules a process has loaded, as it tells when it ends.

/** For NODE_OPTIONS. */
export const tellModules = `--import=${new URL('./module-recorder.ts', import.meta.url)}`;

/** @param said all that the process wrote */
export function modulesIn(said: string): string[] {
  const told = /\{"modules":.*\}/.exec(said)?.[0] ?? '{"modules":[]}';
  return (JSON.parse(told) as { modules: string[] }).modules;
}
