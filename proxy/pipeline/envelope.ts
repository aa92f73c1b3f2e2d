import { textAt, type Message } from '#jsonrpc/message';
import { withMembers } from '#jsonrpc/with-members';

/** The revision that is spoken to servers without a handshake. */
export const modernRevision = '2026-07-28';

/** What every request of the modern era says about who sends it, as JSON texts by `_meta` key. */
export type Envelope = Readonly<Record<string, string>>;

const prefix = 'io.modelcontextprotocol/';

/** The envelope that says what an assistant said once, in its `initialize`. MCP 2026-07-28 basic */
export function envelopeOf(initialize: Message, logLevel?: string): Envelope {
  const clientInfo = textAt(initialize, 'params', 'clientInfo');
  return {
    [`${prefix}protocolVersion`]: JSON.stringify(modernRevision),
    ...(clientInfo !== undefined && { [`${prefix}clientInfo`]: clientInfo }),
    [`${prefix}clientCapabilities`]: capabilities(textAt(initialize, 'params', 'capabilities')),
    ...(logLevel !== undefined && { [`${prefix}logLevel`]: JSON.stringify(logLevel) }),
  };
}

/** Tasks became an extension with another wire format, and an empty `elicitation` meant forms. */
function capabilities(json: string | undefined): string {
  const bytes = Buffer.from(json ?? '{}');
  const said: unknown = JSON.parse(bytes.toString());
  const forms =
    typeof said === 'object' &&
    said !== null &&
    'elicitation' in said &&
    JSON.stringify(said.elicitation) === '{}';
  const span = { start: 0, end: bytes.length };
  const changes = { tasks: undefined, ...(forms && { elicitation: '{"form":{}}' }) };
  return withMembers(bytes, span, changes).toString();
}
