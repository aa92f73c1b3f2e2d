import { beforeEach, expect, test, vi } from 'vitest';
import { z } from 'zod';

import { updateClient } from '#server/db/clients';
import type { Scope } from '#server/model/scopes';
import { modern } from '#support/mcp-call';
import { patient } from '#support/patient';
import { eventStream, legacySession, talkingGateway } from '#support/talking-gateway';

const all: Scope[] = ['mcp:tools:read', 'mcp:tools:execute', 'mcp:resources:read'];
const made = z.object({ client_id: z.string(), client_secret: z.string() });
const { upstream, gateway } = await talkingGateway();
beforeEach(() => upstream.forget());

/** A client with a token for all scopes. */
async function client() {
  const words = all.flatMap((scope) => ['--scope', scope]);
  const one = made.parse(
    await gateway.command('client', 'create', 'acme/fixture', '--name', 'c', ...words),
  );
  const form = new URLSearchParams({ grant_type: 'client_credentials', ...one });
  const answer = await fetch(`${gateway.base}/api/oauth/token`, { method: 'POST', body: form });
  const token = String(Object(await answer.json())['access_token']);
  return {
    token,
    /** Takes scopes away, as a process other than the server does. */
    narrow: async (scopes: Scope[]) => {
      const stores = await gateway.openStores();
      await updateClient(stores.db, one.client_id, { scopes });
      await stores.close();
    },
  };
}

interface Opening {
  readonly headers: Record<string, string>;
  readonly body?: string;
}

async function stream(token: string, opening: Opening, lastEventId?: string) {
  const opened = await eventStream(gateway.endpoint, { token }, { ...opening, lastEventId });
  const changes = () => opened.text().matchAll(/notifications\/(\w+)\/list_changed/g);
  return { ...opened, told: () => [...changes()].map(([, list]) => list) };
}

type Stream = Awaited<ReturnType<typeof stream>>;

/** The GET stream of a new session. */
const ofSession = async (token: string): Promise<Opening> => ({
  headers: await legacySession(gateway.endpoint, { token }),
});

const subscription = (notifications: object): Opening =>
  modern('subscriptions/listen', { notifications });

async function hearsAll({ told }: Stream) {
  await vi.waitFor(() => expect(upstream.open()).toBe(1), patient);
  upstream.changed('tools', 'resources');
  await vi.waitFor(() => expect(told()).toEqual(['tools', 'resources']), patient);
}

/** Announces all changes at the upstream until the stream passes on that of the tools. Returns what the stream has passed on. */
async function narrowly({ told }: Stream) {
  await vi.waitFor(() => {
    upstream.changed('resources', 'tools');
    expect(told()).toContain('tools');
  }, patient);
  return told();
}

test('56: narrowed scopes: the session’s stream ends with any of its scopes, and the next shows what is left', async () => {
  const { token, narrow } = await client();
  const how = await ofSession(token);
  const wide = await stream(token, how);
  await hearsAll(wide);

  await narrow(['mcp:tools:read']);
  await wide.ended;
  const next = await stream(token, how, wide.ids().at(-1));

  expect(await narrowly(next)).not.toContain('resources');
});

test('56: narrowed scopes: a subscription ends with any of its scopes, and none starts for a lost one', async () => {
  const { token, narrow } = await client();
  const both = { toolsListChanged: true, resourcesListChanged: true };
  const wide = await stream(token, subscription(both));
  await hearsAll(wide);

  await narrow(['mcp:tools:read']);
  await wide.ended;
  const { status } = await stream(token, subscription(both));
  const next = await stream(token, subscription({ toolsListChanged: true }));

  expect(status).toBe(403);
  expect(await narrowly(next)).not.toContain('resources');
});

test('56: narrowed scopes: a resumed stream ends too, even where the upstream is read on', async () => {
  const { token, narrow } = await client();
  const how = await ofSession(token);
  const lost = await stream(token, how);
  await vi.waitFor(() => expect(upstream.open()).toBe(1), patient);
  upstream.changed('tools');
  await vi.waitFor(() => expect(lost.told()).toEqual(['tools']), patient);
  lost.leave();
  await lost.ended;
  const wide = await stream(token, how, lost.ids().at(-1));
  upstream.changed('resources');
  await vi.waitFor(() => expect(wide.told()).toEqual(['resources']), patient);

  await narrow(['mcp:tools:read']);
  await wide.ended;
  await vi.waitFor(() => expect(upstream.open()).toBe(0), patient);
  const next = await stream(token, how, wide.ids().at(-1));

  expect(await narrowly(next)).not.toContain('resources');
});
