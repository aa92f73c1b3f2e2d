/** A request that came through the tunnel, its body whole. */
export type TunnelRequest = {
  server: string;
  method: 'POST' | 'GET' | 'DELETE';
  headers: Readonly<Record<string, string>>;
  body?: Buffer;
  /** Stands for whoever asks; the same text is the same caller. */
  caller: string;
  /** Aborts when nobody wants the answer any more, also once it was given whole. */
  signal: AbortSignal;
};

export type TunnelAnswer = {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: AsyncIterable<Buffer>;
};

/** Why a stream ends without an answer, or inside one. `docs/tunnel.md` */
export type ResetCode =
  | 'cancelled'
  | 'unknown_server'
  | 'unreachable'
  | 'timeout'
  | 'too_large'
  | 'broken'
  | 'busy';

/** Answers what comes through a tunnel. */
export interface Responder {
  /** @throws {StreamRefusal} also from within the body */
  respond(request: TunnelRequest): Promise<TunnelAnswer>;
}

/** No answer, or no more of it. The message goes to the server's log, so it holds no secret. */
export class StreamRefusal extends Error {
  override readonly name = 'StreamRefusal';
  readonly code: ResetCode;

  constructor(code: ResetCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
