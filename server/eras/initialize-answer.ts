import { legacyVersions } from '#gateway/era';
import { serverInfoName } from './envelope.ts';
import { objectAt, stringAt, valueAt, type Message } from './message.ts';
import { resultTo } from './responses.ts';

/** The extension whose words are the same in both eras. SEP-2640 */
const skillsExtension = 'io.modelcontextprotocol/skills';

/**
 * The answer to a caller's `initialize`, made of what a modern upstream said of itself: the revision that
 * the caller asked for, as it is we who speak it. Tasks are left out, which are another thing there, and
 * extensions but that of skills, as they may be words of their own era.
 *
 * MCP 2025-11-25 lifecycle; MCP 2026-07-28 server/discover
 */
export function initializeAnswer(initialize: Message, discovered: Message): Message {
  const asked = stringAt(initialize, 'params', 'protocolVersion');
  const {
    tasks: _,
    extensions: __,
    ...capabilities
  } = objectAt(discovered, 'result', 'capabilities');
  const skills = valueAt(discovered, 'result', 'capabilities', 'extensions', skillsExtension);
  const serverInfo = valueAt(discovered, 'result', '_meta', serverInfoName) ??
    valueAt(discovered, 'result', 'serverInfo') ?? { name: 'unnamed', version: '0' };
  const instructions = stringAt(discovered, 'result', 'instructions');
  const result = {
    protocolVersion: legacyVersions.find((version) => version === asked) ?? legacyVersions[0],
    capabilities: {
      ...capabilities,
      ...(skills !== undefined && { extensions: { [skillsExtension]: skills } }),
    },
    serverInfo,
    ...(instructions !== undefined && { instructions }),
  };
  return resultTo(initialize.envelope.id ?? 'null', JSON.stringify(result));
}

/** What a caller of the older era can do, in the words of the modern one: an empty `elicitation` meant forms. */
export function modernCapabilities(initialize: Message): string {
  const { tasks: _, ...said } = objectAt(initialize, 'params', 'capabilities');
  const { elicitation } = said;
  const isForms = JSON.stringify(elicitation) === '{}';
  return JSON.stringify({ ...said, ...(isForms && { elicitation: { form: {} } }) });
}
