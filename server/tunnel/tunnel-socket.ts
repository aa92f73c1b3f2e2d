/** Why a tunnel ends: WebSocket close codes. RFC 6455 §7.4.1, and 4000 upwards our own */
export const closeCode = {
  goingAway: 1001,
  notBinary: 1003,
  revoked: 4401,
  violation: 4403,
} as const;

/** The WebSocket below a tunnel. */
export interface TunnelSocket {
  send(frame: Buffer): void;
  ping(): void;
  /** Says goodbye, and lets go soon after, answered or not. */
  close(code: number, reason: string): void;
  /** Lets go without a word. */
  terminate(): void;
}
