import { UpstreamError } from './upstream.ts';

/** What work comes to, unless nobody wants it any more; it goes on for others who wait for it. @throws {UpstreamError} `aborted` */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = () => reject(new UpstreamError('aborted', 'aborted'));
  work.catch(() => undefined);
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
