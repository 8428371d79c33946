// Which of Node's built-in modules a process has loaded, as it reports on exit.

/** For NODE_OPTIONS. */
export const recordModules = `--import=${new URL('./module-recorder.ts', import.meta.url)}`;

/** @param said everything that the process wrote */
export function modulesIn(said: string): string[] {
  const line = /\{"modules":.*\}/.exec(said)?.[0] ?? '{"modules":[]}';
  return (JSON.parse(line) as { modules: string[] }).modules;
}
