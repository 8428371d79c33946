// Reports a measurement: as a table, and as a file with the facts of the machine.
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, totalmem } from 'node:os';
import { type Measured, median, type Ratio } from './rounds.ts';

/** A figure other than a ratio. */
export interface Value {
  name: string;
  value: number;
  unit: string;
  /** Upper limit, or lower limit with atLeast; undefined: only reported. */
  target?: number | undefined;
  atLeast?: true;
}

export interface Result {
  /** File name, and id in the list of figures. */
  name: string;
  figure: string;
  what: string;
  settings: Record<string, number>;
  sides: Measured[];
  ratios: Ratio[];
  values: Value[];
}

const folder = new URL('./results/', import.meta.url);

export function print(result: Result): void {
  const lines = [`\n${result.figure}  ${result.what}`];
  if (result.sides.length > 0) {
    lines.push(row(['', 'requests/s', 'median ms', '99 % ms', 'server CPU µs', 'database µs']));
    for (const side of result.sides) {
      lines.push(
        row([
          side.name,
          median(side.perSecond).toFixed(0),
          figure(median(side.p50), 2),
          figure(median(side.p99), 2),
          figure(median(side.cpuMicroseconds), 1),
          figure(median(side.databaseMicroseconds), 1),
        ]),
      );
    }
  }
  for (const { of, to, target, ...found } of result.ratios) {
    const spread = `${found.least.toFixed(2)} to ${found.most.toFixed(2)}`;
    lines.push(
      `  ${of} : ${to} = ${found.median.toFixed(2)} (${spread}), target ≥ ${target.toFixed(2)}${mark(found.median >= target)}`,
    );
  }
  for (const { name, value, unit, target, atLeast } of result.values) {
    const shown = value.toFixed(value < 10 ? 2 : 0);
    lines.push(
      `  ${name}: ${shown} ${unit}${target === undefined ? '' : verdict(Number(shown), unit, target, atLeast)}`,
    );
  }
  process.stdout.write(`${lines.join('\n')}\n`);
}

export function save(result: Result): void {
  mkdirSync(folder, { recursive: true });
  const file = new URL(`${result.name}.json`, folder);
  writeFileSync(file, `${JSON.stringify({ ...result, machine: machine() }, roundNumber, 2)}\n`);
}

/** Formats a figure; empty if it was not measured. */
const figure = (value: number, digits: number): string => (Number.isNaN(value) ? '' : value.toFixed(digits));

function row(cells: string[]): string {
  return cells.map((cell, index) => (index === 0 ? `  ${cell.padEnd(12)}` : cell.padStart(14))).join('');
}

/** Judges the rounded figure: if it reads as its target, it has reached it. */
function verdict(value: number, unit: string, target: number, atLeast?: true): string {
  const [sign, reached] = atLeast ? ['≥', value >= target] : ['≤', value <= target];
  return `, target ${sign} ${target} ${unit}${mark(reached)}`;
}

const mark = (reached: boolean): string => (reached ? '' : '   not reached');

function roundNumber(_key: string, value: unknown): unknown {
  return typeof value === 'number' ? Math.round(value * 1000) / 1000 : value;
}

function machine(): Record<string, unknown> {
  return {
    date: new Date().toISOString(),
    commit:
      git('rev-parse', '--short', 'HEAD') +
      (git('status', '--porcelain', '--untracked-files=no') ? ' and changes' : ''),
    node: process.version,
    processor: cpus()[0]?.model,
    cores: cpus().length,
    memoryGigabytes: totalmem() / 1024 ** 3,
    // Above the number of cores, other processes were active during the measurement.
    loadAverage: loadavg(),
  };
}

function git(...words: string[]): string {
  try {
    return execFileSync('git', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return '';
  }
}
