/**
 * No redirect came to this machine. `port`: the port is taken. `timeout`: nobody finished in the
 * browser. `aborted`: we no longer wanted it. `pasted`: what was pasted is not the redirect.
 */
export class LoopbackError extends Error {
  override readonly name = 'LoopbackError';
  readonly code: 'port' | 'timeout' | 'aborted' | 'pasted';

  constructor(code: LoopbackError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
