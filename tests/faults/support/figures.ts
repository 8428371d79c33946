// Statistics of measurements.

/** Returns the value that a percentage of the values do not exceed. */
export function percentile(values: readonly number[], hundredths: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil((sorted.length * hundredths) / 100) - 1)] ?? 0;
}
