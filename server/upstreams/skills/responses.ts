// Reading whole JSON-RPC responses, of upstreams and of the skills themselves, and editing them.

import { responseBytes } from '#gateway/answers';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import { type UpstreamAnswer, type UpstreamRequest } from '#gateway/upstream';
import { type Span } from 'latchkey-mcp/json';
import { membersIn, type Edit, memberEdits } from 'latchkey-mcp/json-edit';
import { isError, scanMessage } from 'latchkey-mcp/message';
import { inProcessRequest } from '#gateway/in-process-request';
import type { SkillFolder } from './skill-folder.ts';

const methodNotFound = -32_601;

/** A JSON-RPC response, read whole. */
export interface ResponseMessage {
  readonly message: Buffer;
  readonly result: Span | undefined;
  /** The code of its error. */
  readonly code: number | undefined;
}

/**
 * Reads the response in an answer. If the status or media type shows that there is none, returns `undefined` and does
 * not read the body. `wholeAnswer` makes an answer of a response that was read.
 *
 * @throws {GatewayRefusal} `upstream_unreadable` for ambiguous JSON
 */
export async function readResponse({
  status,
  mediaType,
  body,
}: UpstreamAnswer): Promise<ResponseMessage | undefined> {
  const isRefusal = status === 400 || status === 404;
  if (status !== 200 && !isRefusal) return undefined;
  if (mediaType !== 'application/json' && mediaType !== 'text/event-stream') return undefined;
  const message = await responseBytes({ mediaType, body });
  const scan = scanMessage(message);
  if (scan.outcome === 'refused' && !isError(message)) {
    const detail = `its response could not be read: ${scan.reason}`;
    throw new GatewayRefusal('upstream_unreadable', { detail });
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

/** An answer with a whole JSON message as its body. */
export function wholeAnswer(message: Buffer, answer?: UpstreamAnswer): UpstreamAnswer {
  return {
    status: answer?.status ?? 200,
    mediaType: 'application/json',
    sessionId: answer?.sessionId,
    retryAfterSeconds: answer?.retryAfterSeconds,
    body: message,
  };
}

/** Whether a response says that the method does not exist. */
export function isUnknownMethod(response: ResponseMessage | undefined): boolean {
  return response?.code === methodNotFound;
}

/**
 * Sends a POST to the skills of a folder alone, with another `body` if given.
 *
 * @throws {GatewayRefusal} `fault` when the answer is not JSON-RPC
 */
export async function requestSkills(
  folder: SkillFolder,
  request: UpstreamRequest,
  body = request.body,
): Promise<ResponseMessage> {
  const { 'mcp-session-id': _, ...headers } = request.headers;
  const { signal } = request;
  const response = await folder.fetch(
    inProcessRequest({ method: 'POST', headers, body: body ?? new Uint8Array(), signal }),
  );
  const answer = {
    status: response.status,
    mediaType: response.headers.get('content-type')?.split(';')[0]?.toLowerCase() ?? '',
    sessionId: undefined,
    retryAfterSeconds: undefined,
    body: new Uint8Array(await response.arrayBuffer()),
  };
  const message = await readResponse(answer);
  if (message) return message;
  throw new GatewayRefusal('fault', { cause: new Error(`skills answered ${response.status}`) });
}

/** Members to add to an object: JSON values, or objects whose members are to be added. */
export interface AddedMembers {
  readonly [name: string]: boolean | number | string | AddedMembers;
}

/** Returns the edits that add members to the object at `span`, in depth. Its other members stay. */
export function mergeObject(body: Buffer, span: Span, added: AddedMembers): Edit[] {
  const present = membersIn(body, span);
  const edits: Edit[] = [];
  const flat: Record<string, string> = {};
  for (const [name, value] of Object.entries(added)) {
    const known = present.get(name);
    const isObject = known && body[known.start] === 0x7b;
    if (typeof value === 'object' && isObject) edits.push(...mergeObject(body, known, value));
    else flat[name] = JSON.stringify(value);
  }
  return [...edits, ...memberEdits(body, span, flat)];
}
