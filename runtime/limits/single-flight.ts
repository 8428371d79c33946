// One statement for all who wait: questions that arrive while one runs share the next.

/**
 * Makes an asking function whose questions share look-ups. Each question is put to a look-up that starts after it was
 * asked, so that no answer is older than its question.
 * @param lookUp answers many questions at once, each by itself
 * @param parallel how many look-ups may run at the same time
 */
export function coalesce<Question, Answer>(
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
      // Requests that arrived in the same turn of the event loop go together.
      if (!scheduled && running < parallel) {
        scheduled = true;
        setImmediate(start);
      }
    });
}
