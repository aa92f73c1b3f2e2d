import { type Envelope, scanMessage } from '#mcp/message';

/** A message that the gateway has read: its bytes and its envelope. */
export interface ScannedMessage {
  readonly body: Buffer;
  readonly envelope: Envelope;
}

/** @throws when the gateway refuses the message. */
export function scannedMessage(message: string | object): ScannedMessage {
  const body = Buffer.from(typeof message === 'string' ? message : JSON.stringify(message));
  const scan = scanMessage(body);
  if (scan.outcome === 'refused') throw new Error(scan.reason);
  return { body, envelope: scan.envelope };
}

/** A request for `method`, scanned. */
export function scannedRequest(method: string, params?: object): ScannedMessage {
  return scannedMessage({ jsonrpc: '2.0', id: 1, method, ...(params && { params }) });
}
