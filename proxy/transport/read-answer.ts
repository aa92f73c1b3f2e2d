import type { IncomingMessage } from 'node:http';
import { readBody } from './read-body.ts';
import { answerTo } from '#jsonrpc/answer';
import { idKey, readMessage, type Message } from '#jsonrpc/message';
import { UpstreamError } from './upstream.ts';

/**
 * The one answer in a response that is no event stream. An error status with a JSON-RPC error in
 * its body is an answer too, under whatever id, as the server may not have got to reading ours.
 *
 * MCP 2025-11-25 and 2026-07-28 transports
 *
 * @throws {UpstreamError}
 */
export async function readAnswer(
  response: IncomingMessage,
  request: Message,
  maxMessageBytes: number,
): Promise<Message> {
  const status = response.statusCode ?? 0;
  const id = request.id ?? 'null';
  let body: Buffer | undefined;
  try {
    body = await readBody(response, maxMessageBytes);
  } catch (error) {
    throw new UpstreamError('no_answer', 'the answer broke off', { status, cause: error });
  }
  if (!body)
    throw new UpstreamError('too_large', `the answer is over ${maxMessageBytes} bytes`, { status });
  const answer = parse(body);
  const succeeded = status >= 200 && status < 300;
  if (answer?.kind === 'response') {
    if (!succeeded && answer.members.has('error')) return answerTo(id, answer);
    if (succeeded && isFor(request, answer)) return answerTo(id, answer);
  }
  throw refusal(response, status);
}

/** Whether `answer` is the one to `request`: same id, or none, since nothing else was asked. */
export function isFor(request: Message, answer: Message): boolean {
  if (answer.kind !== 'response' || request.id === undefined || answer.id === undefined)
    return false;
  if (answer.id === 'null' || answer.id === request.id) return true;
  return idKey(answer.id) === idKey(request.id);
}

function refusal({ headers, statusMessage }: IncomingMessage, status: number): UpstreamError {
  const said = `${status} ${statusMessage ?? ''}`.trim();
  if (status === 403)
    return new UpstreamError('forbidden', `the server answered ${said}`, { status });
  if (status >= 300 && status < 400) {
    const target = headers.location ?? 'nowhere';
    return new UpstreamError('redirected', `the server answered ${said}, to ${target}`, { status });
  }
  if (status >= 400) return new UpstreamError('status', `the server answered ${said}`, { status });
  if (status === 202 || status === 204)
    return new UpstreamError('no_answer', `the server answered ${said}, without a result`, {
      status,
    });
  const type = headers['content-type'] ?? 'no content type';
  return new UpstreamError(
    'not_json_rpc',
    `the server answered ${said} with ${type}, not with the JSON-RPC answer`,
    { status },
  );
}

function parse(body: Buffer): Message | undefined {
  try {
    return readMessage(body);
  } catch {
    return undefined;
  }
}
