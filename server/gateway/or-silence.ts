/**
 * What comes, or `undefined` when nothing has come for `ms`; then ask again with the same promise.
 */
export async function orSilence<Coming>(
  coming: Promise<Coming>,
  ms: number,
): Promise<Coming | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms).unref();
  });
  try {
    return await Promise.race([coming, silence]);
  } finally {
    clearTimeout(timer);
  }
}
