import type { IncomingMessage } from 'node:http';
import { stringAt, type Message } from '#jsonrpc/message';

/** What the era before 2026-07-28 remembers between requests. */
export type LegacySession = {
  id?: string;
  protocolVersion?: string;
  /** The assistant's own handshake, to be made again when the server has forgotten the session. */
  initialize?: Message;
};

/** What every request of the session carries. MCP 2025-11-25 transports */
export function sessionHeaders({ id, protocolVersion }: LegacySession): Record<string, string> {
  return {
    ...(id !== undefined && { 'mcp-session-id': id }),
    ...(protocolVersion !== undefined && { 'mcp-protocol-version': protocolVersion }),
  };
}

/** The session as the answer to `initialize` and the head of its response make it. */
export function agreedSession(
  session: LegacySession,
  answer: Message,
  { headers }: IncomingMessage,
): LegacySession {
  if (!answer.members.has('result')) return session;
  const id = headers['mcp-session-id'];
  const version = stringAt(answer, 'result', 'protocolVersion');
  return {
    ...session,
    ...(typeof id === 'string' && { id }),
    // It goes into a header, so it has to look like a version.
    ...(version !== undefined && /^[\w.-]+$/.test(version) && { protocolVersion: version }),
  };
}
