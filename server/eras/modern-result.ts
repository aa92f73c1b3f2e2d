import { messageOf, objectAt, spanAt, stringAt, textAt, valueAt, type Message } from './message.ts';
import { modernVersion, serverInfoName, sharedCapabilities } from './envelope.ts';
import { resultTo } from './responses.ts';
import { withMembers } from './with-members.ts';

/** Results that say how long they hold: of an older upstream, not at all. */
const cacheable: ReadonlySet<string> = new Set([
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
]);

/**
 * A legacy upstream's response to `method` as a caller of the modern era reads it, under that caller's id
 * (JSON text): with the members that came later. Every other value keeps its bytes.
 */
export function modernResult(response: Message, method: string, id: string): Message {
  const { body, envelope } = response;
  const result = spanAt(response, 'result');
  const error = spanAt(response, 'error');
  const isMissing = valueAt(response, 'error', 'code') === -32002;
  const changes = result
    ? {
        result: withMembers(body, result, {
          resultType: '"complete"',
          ...(cacheable.has(method) && { ttlMs: '0', cacheScope: '"private"' }),
        }),
      }
    : isMissing && { error: withMembers(body, error, { code: '-32602' }) };
  return messageOf(withMembers(body, envelope.root, { id, ...changes }));
}

/** In the modern era a method that is not there has a status of its own. MCP 2026-07-28 transports */
export function modernStatus(response: Message): number {
  return valueAt(response, 'error', 'code') === -32601 ? 404 : 200;
}

/** The answer to `server/discover`, made of what a legacy upstream said in its handshake. */
export function discoverResult(initialized: Message, id: string): Message {
  const capabilities = sharedCapabilities(objectAt(initialized, 'result', 'capabilities'));
  const instructions = stringAt(initialized, 'result', 'instructions');
  const result = {
    resultType: 'complete',
    supportedVersions: [modernVersion],
    capabilities,
    ...(instructions !== undefined && { instructions }),
    ttlMs: 0,
    cacheScope: 'private',
    _meta: { [serverInfoName]: valueAt(initialized, 'result', 'serverInfo') },
  };
  return resultTo(id, JSON.stringify(result));
}

/** The only question of a round; whoever answers it does so under this key. */
const questionKey = 'input';

/** The result that asks the caller what a legacy upstream asks. MCP 2026-07-28 "Multi Round-Trip Requests" */
export function inputRequiredResult(question: Message, id: string, requestState: string): Message {
  const method = JSON.stringify(question.envelope.method);
  const params = textAt(question, 'params');
  const asked = `{"method":${method}${params === undefined ? '' : `,"params":${params}`}}`;
  const state = JSON.stringify(requestState);
  return resultTo(
    id,
    `{"resultType":"input_required","inputRequests":{"${questionKey}":${asked}},"requestState":${state}}`,
  );
}

/** The response to the upstream's question that a caller's retry carries, if it does. */
export function givenResponse(retry: Message, question: Message): Message | undefined {
  const given = textAt(retry, 'params', 'inputResponses', questionKey);
  return given === undefined ? undefined : resultTo(question.envelope.id ?? 'null', given);
}
