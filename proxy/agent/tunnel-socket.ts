/** The connection below a tunnel. */
export interface TunnelSocket {
  /** Resolves when there is room for the next, or when it is gone. */
  send(frame: Buffer): Promise<void>;

  /** Resolves once the other side has taken all that was sent before and we all that it had sent by then, or when it is gone. */
  settled(): Promise<void>;

  /** Says goodbye, and lets go soon after, answered or not. RFC 6455 §7.4 */
  close(code: number, reason: string): void;

  /** Lets go without a word. */
  terminate(): void;
}

/** What a connection tells. */
export type SocketHears = {
  frame: (message: Buffer) => void;
  /** Anything at all came, a ping too. */
  alive: () => void;
  /** It is over; told once. */
  closed: (code: number, reason: string) => void;
};

/** Makes a connection, with the key as it is now. @throws {TunnelError} */
export type Dial = (hears: SocketHears, signal: AbortSignal) => Promise<TunnelSocket>;
