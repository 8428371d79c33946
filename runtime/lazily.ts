// What is made when it is first needed, and then shared.

/**
 * Makes something once.
 * @param make where it fails, those who wait for it fail, and whoever needs it next tries again
 */
export function lazily<Made>(make: () => Promise<Made>): () => Promise<Made> {
  let made: Promise<Made> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}
