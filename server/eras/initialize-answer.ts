import { legacyVersions } from '#gateway/era';
import { serverInfoName, sharedCapabilities } from './envelope.ts';
import { objectAt, stringAt, valueAt, type Message } from './message.ts';
import { resultTo } from './responses.ts';

/**
 * The answer to a caller's `initialize`, made of what a modern upstream said of itself: the revision that
 * the caller asked for, as it is we who speak it.
 *
 * MCP 2025-11-25 lifecycle; MCP 2026-07-28 server/discover
 */
export function initializeAnswer(initialize: Message, discovered: Message): Message {
  const asked = stringAt(initialize, 'params', 'protocolVersion');
  const serverInfo = valueAt(discovered, 'result', '_meta', serverInfoName) ??
    valueAt(discovered, 'result', 'serverInfo') ?? { name: 'unnamed', version: '0' };
  const instructions = stringAt(discovered, 'result', 'instructions');
  const result = {
    protocolVersion: legacyVersions.find((version) => version === asked) ?? legacyVersions[0],
    capabilities: sharedCapabilities(objectAt(discovered, 'result', 'capabilities')),
    serverInfo,
    ...(instructions !== undefined && { instructions }),
  };
  return resultTo(initialize.envelope.id ?? 'null', JSON.stringify(result));
}

/** What a caller of the older era can do, in the words of the modern one: an empty `elicitation` meant forms. */
export function modernCapabilities(initialize: Message): string {
  const said = sharedCapabilities(objectAt(initialize, 'params', 'capabilities'));
  const { elicitation } = said;
  const isForms = JSON.stringify(elicitation) === '{}';
  return JSON.stringify({ ...said, ...(isForms && { elicitation: { form: {} } }) });
}
