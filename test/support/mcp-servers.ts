import { fakeUpstream, type FakeUpstream, type ScriptedAnswer } from './fake-upstream.ts';

interface Message {
  readonly id?: string | number;
  readonly method?: string;
}

/** The message that a request to a fake upstream carried. */
export function messageOf({ text }: { text: string }): Message {
  const message: Message = JSON.parse(text);
  return message;
}

const answering = (id: Message['id'], rest: object) => ({
  text: JSON.stringify({ jsonrpc: '2.0', id, ...rest }),
});

/** The answer of a server of the modern era to `server/discover`. */
export const discoverAnswer =
  '{"jsonrpc":"2.0","id":"discover","result":{"supportedVersions":["2026-07-28"]}}';

/** An MCP server of the modern era. */
export function modernServer(): FakeUpstream {
  return fakeUpstream((request) => {
    const { id, method } = messageOf(request);
    const result =
      method === 'server/discover' ? { supportedVersions: ['2026-07-28'] } : { of: id };
    return answering(id, { result });
  });
}

/**
 * An MCP server of the legacy era. It opens a session at each `initialize` and knows only the last;
 * `withSessions: false` keeps none.
 */
export function legacyServer({ withSessions = true, events = false } = {}): FakeUpstream & {
  forgetSessions(): void;
} {
  let opened = 0;
  let current: string | undefined;
  const reply = (id: Message['id'], rest: object): ScriptedAnswer => {
    const { text } = answering(id, rest);
    return events ? { mediaType: 'text/event-stream', text: `data: ${text}\n\n` } : { text };
  };
  const upstream = fakeUpstream((request): ScriptedAnswer => {
    if (request.method === 'DELETE') return { status: 204 };
    const { id, method } = messageOf(request);
    if (method === 'server/discover') {
      return reply(id, { error: { code: -32601, message: 'method not found' } });
    }
    if (method === 'initialize') {
      opened += 1;
      if (withSessions) current = `session-${opened}`;
      return { ...reply(id, { result: { protocolVersion: '2025-06-18' } }), sessionId: current };
    }
    if (withSessions && request.headers['mcp-session-id'] !== current) return { status: 404 };
    if (id === undefined) return { status: 202 };
    return reply(id, { result: { of: id } });
  });
  return Object.assign(upstream, {
    forgetSessions() {
      current = 'nobody knows';
    },
  });
}
