// Batches look-ups: calls that arrive while one runs share the next.

/**
 * Returns a function whose calls share look-ups. Each call is answered by a look-up that starts
 * after the call, so no result is older than its call.
 * @param lookUp answers many questions in one call, each with its own promise
 * @param parallel maximum number of look-ups at the same time
 */
export function singleFlight<Question, Answer>(
  lookUp: (questions: readonly Question[]) => readonly Promise<Answer | undefined>[],
  parallel: number,
): (question: Question) => Promise<Answer | undefined> {
  interface Waiter {
    question: Question;
    resolve: (answer: Answer | undefined) => void;
    reject: (error: unknown) => void;
  }
  let waiting: Waiter[] = [];
  let running = 0;
  let scheduled = false;

  function start(): void {
    scheduled = false;
    if (waiting.length === 0 || running >= parallel) return;
    const batch = waiting;
    waiting = [];
    running += 1;
    const answers = lookUp(batch.map((waiter) => waiter.question));
    batch.forEach((waiter, index) => {
      answers[index]?.then(waiter.resolve, waiter.reject);
    });
    void Promise.allSettled(answers).then(() => {
      running -= 1;
      start();
    });
  }

  return (question) =>
    new Promise((resolve, reject) => {
      waiting.push({ question, resolve, reject });
      // Calls of the same turn of the event loop go together.
      if (!scheduled && running < parallel) {
        scheduled = true;
        setImmediate(start);
      }
    });
}
