import { responseIn, wholeBody } from '#gateway/event-stream';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import { membersIn } from '#gateway/json-parts';
import { isError, scanMessage } from '#gateway/json-scan';
import type { Span } from '#gateway/strict-json';
import type { UpstreamAnswer } from '#gateway/upstream';

const methodNotFound = -32_601;

/** A JSON-RPC response that was read whole. */
export interface ResponseMessage {
  readonly message: Buffer;
  readonly result: Span | undefined;
  /** Of its error. */
  readonly code: number | undefined;
}

/**
 * The response in an answer; `undefined` where there is none to be read, and the answer says so by its status.
 * An answer that was read is given back by `whole`.
 *
 * @throws {GatewayRefusal} `upstream_failed` for what two readers could understand differently
 */
export async function responseOf({
  status,
  mediaType,
  body,
}: UpstreamAnswer): Promise<ResponseMessage | undefined> {
  const isRefusal = status === 400 || status === 404;
  if (status !== 200 && !isRefusal) return undefined;
  if (mediaType !== 'application/json' && mediaType !== 'text/event-stream') return undefined;
  const bytes = mediaType === 'application/json' ? await wholeBody(body) : await responseIn(body);
  const message = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const scan = scanMessage(message);
  if (scan.outcome === 'refused' && !isError(message)) {
    const detail = `its answer cannot be read: ${scan.reason}`;
    throw new GatewayRefusal('upstream_failed', { detail });
  }
  if (scan.outcome === 'refused' || scan.envelope.kind !== 'response') {
    return { message, result: undefined, code: undefined };
  }
  const members = membersIn(message, scan.envelope.root);
  const error = members.get('error');
  const code = error && membersIn(message, error).get('code');
  return {
    message,
    result: members.get('result'),
    code: code && Number(message.toString('utf8', code.start, code.end)),
  };
}

/** The answer with a whole message of JSON as its body. */
export function whole(message: Buffer, answer?: UpstreamAnswer): UpstreamAnswer {
  return {
    status: answer?.status ?? 200,
    mediaType: 'application/json',
    sessionId: answer?.sessionId,
    retryAfterSeconds: answer?.retryAfterSeconds,
    body: message,
  };
}

/** Whether a server says that it has no such method. */
export function isUnknownMethod(response: ResponseMessage | undefined): boolean {
  return response?.code === methodNotFound;
}
