// Creates a value on first use and shares it.

/**
 * Returns a function that creates a value once.
 * @param make if it fails, the callers that wait for it fail, and the next caller tries again
 */
export function makeLazy<Made>(make: () => Promise<Made>): () => Promise<Made> {
  let made: Promise<Made> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}
