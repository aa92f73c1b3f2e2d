/**
 * No redirect came to this machine. `port`: the port is taken. `timeout`: nobody finished in the
 * browser. `aborted`: we no longer wanted it. `pasted`: what was pasted is not the redirect.
 * `other_browser`: a second browser took part, which may be another user's.
 */
export class LoopbackError extends Error {
  override readonly name = 'LoopbackError';
  readonly code: 'port' | 'timeout' | 'aborted' | 'pasted' | 'other_browser';

  constructor(code: LoopbackError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
