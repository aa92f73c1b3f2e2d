/**
 * Asks once for everybody who wants to know in one turn of the event loop, and after the last of them: nobody gets an
 * answer that is older than their question.
 */
export function onceATurn<Answer>(ask: () => Answer): () => Promise<Answer> {
  let next: Promise<Answer> | undefined;
  return () => {
    next ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        next = undefined;
        try {
          resolve(ask());
        } catch (error) {
          reject(error);
        }
      });
    });
    return next;
  };
}
