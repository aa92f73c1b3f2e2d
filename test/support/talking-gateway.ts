import { afterAll, onTestFinished } from 'vitest';

import { gatewayUnderTest, type GatewayUnderTest } from './gateway-under-test.ts';
import { acceptsBoth, initialize, mcpCall } from './mcp-call.ts';
import { talkingUpstream, type TalkingUpstream } from './upstreams/talking-upstream.ts';

export type Credential = { readonly key: string } | { readonly token: string };

export interface TalkingGateway {
  readonly upstream: TalkingUpstream;
  readonly gateway: GatewayUnderTest;
}

/**
 * The set-up of a test file about unsolicited messages of a server: a gateway whose `acme/fixture` is a talking upstream. Both end
 * after the tests of the file that calls it.
 */
export async function talkingGateway(): Promise<TalkingGateway> {
  const stack = new AsyncDisposableStack();
  afterAll(() => stack.disposeAsync());
  const upstream = stack.use(await talkingUpstream());
  const gateway = stack.use(await gatewayUnderTest({ upstreamUrl: upstream.url }));
  return { upstream, gateway };
}

/** Opens a session of the legacy era by hand; the headers of its requests. */
export async function legacySession(
  endpoint: string,
  credential: Credential,
): Promise<Record<string, string>> {
  const accept = { accept: acceptsBoth };
  const { headers } = await mcpCall(endpoint, {
    ...credential,
    headers: accept,
    body: initialize(),
  });
  return {
    ...accept,
    'mcp-protocol-version': '2025-06-18',
    'mcp-session-id': headers.get('mcp-session-id') ?? '',
  };
}

/** A stream of events that is read as it comes. It ends with the test that opens it. */
export interface EventStream {
  readonly status: number;
  readonly headers: Headers;
  /** All text so far. */
  readonly text: () => string;
  /** The ids of its events. */
  readonly ids: () => string[];
  /** Disconnects. */
  readonly leave: () => void;
  /** Resolves at the end of the stream, whatever ended it. */
  readonly ended: Promise<unknown>;
}

export async function eventStream(
  endpoint: string,
  credential: Credential,
  {
    headers,
    body,
    lastEventId,
  }: { headers: Record<string, string>; body?: string; lastEventId?: string | undefined },
): Promise<EventStream> {
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  const answer = await fetch(endpoint, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      'content-type': 'application/json',
      ...('key' in credential
        ? { 'x-api-key': credential.key }
        : { authorization: `Bearer ${credential.token}` }),
      ...headers,
      ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
    },
    ...(body !== undefined && { body }),
    signal: leaving.signal,
  });
  let text = '';
  const read = async () => {
    for await (const chunk of answer.body ?? []) text += Buffer.from(chunk).toString();
  };
  return {
    status: answer.status,
    headers: answer.headers,
    text: () => text,
    ids: () => [...text.matchAll(/^id: (.+)$/gm)].map(([, id]) => id ?? ''),
    leave: () => leaving.abort(),
    ended: read().catch(() => undefined),
  };
}
