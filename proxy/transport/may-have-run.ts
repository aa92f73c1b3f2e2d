import { HttpError } from './http-error.ts';
import { UpstreamError } from './upstream.ts';

/** Whether a request that failed so may have run all the same. */
export function mayHaveRun(error: unknown): error is UpstreamError {
  if (!(error instanceof UpstreamError)) return false;
  const { code, cause, status = 0 } = error;
  switch (code) {
    case 'unreachable':
      return cause instanceof HttpError && cause.sent;
    case 'no_answer':
      return true;
    case 'status':
      return status >= 500 && status !== 503;
    // These two say what to do about them, which is not to ask again as before.
    case 'not_json_rpc':
    case 'too_large':
    case 'aborted':
    case 'forbidden':
    case 'redirected':
    case 'unauthorized':
      return false;
  }
}
