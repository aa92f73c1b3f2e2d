import { metaPrefix, sharedCapabilities, type ClientWords } from './envelope.ts';
import { messageOf, objectAt, spanAt, stringAt, textAt, type Message } from './message.ts';
import { withMembers } from './with-members.ts';

const envelopeNames = ['protocolVersion', 'clientInfo', 'clientCapabilities', 'logLevel'];

/**
 * A request of the modern era as one of the older, under an id of ours (JSON text) that is its progress token
 * as well: without what it says of its caller, and of the rounds before. Everything else keeps its bytes.
 */
export function legacyRequest(message: Message, id: string): Message {
  const { body, envelope } = message;
  const meta = spanAt(message, 'params', '_meta');
  const none = envelopeNames.map((name) => [metaPrefix + name, undefined] as const);
  const hasToken = envelope.progressToken !== undefined;
  const kept = withMembers(body, meta, {
    ...Object.fromEntries(none),
    ...(hasToken && { progressToken: id }),
  });
  const params = withMembers(body, envelope.params, {
    _meta: kept === '{}' ? undefined : kept,
    inputResponses: undefined,
    requestState: undefined,
  });
  return messageOf(withMembers(body, envelope.root, { id, params }));
}

/** Who asks, as a request of the modern era says it. MCP 2026-07-28 basic */
export function clientOf(message: Message): ClientWords {
  const said = (name: string) => ['params', '_meta', metaPrefix + name];
  return {
    capabilities: JSON.stringify(
      sharedCapabilities(objectAt(message, ...said('clientCapabilities'))),
    ),
    clientInfo: textAt(message, ...said('clientInfo')),
    logLevel: stringAt(message, ...said('logLevel')),
  };
}
