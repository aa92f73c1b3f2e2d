import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { expect, vi } from 'vitest';
import { z } from 'zod';

import { callingPerson } from '../calling-person.ts';
import type { StoryPlace } from '../activity-story/story-place.ts';
import { patient } from '../patient.ts';
import { inherited } from '../programs.ts';
import { launcher } from '../proxy-process.ts';

/** A third-party program that uses the server. */
interface Assistant extends AsyncDisposable {
  readonly tools: () => Promise<readonly string[]>;
  /** The outcome of a call: `ok`, or the code and message of the error. */
  readonly call: (name: string) => Promise<string>;
  /** How often it was told that the list of tools changed. */
  readonly changes: () => number;
}

const three = ['invoice_read', 'order_read', 'report'];
const fourth = 'refund_read';
const others = [
  'echo',
  'failing',
  'missing',
  'slow',
  'crashing',
  'invoice_write',
  'order_write',
  'refund_write',
];

/**
 * A member of a group, and a key that has the same tools by name, with three third-party programs: both generations of the SDK,
 * and an assistant over stdio through the proxy. The programs see three of twelve tools, are refused the others as if these did
 * not exist, can call a fourth as soon as it is allowed, and lose it on the next call after it is withdrawn.
 */
export async function toolsStory(place: StoryPlace) {
  const { server, endpoint } = place;
  const command = (...words: string[]) => server.command([...words, '--json']);
  const mia = await callingPerson(server, 'mia@example.com', {
    organization: 'acme',
    role: 'member',
  });
  await command('group', 'create', 'acme', 'sales');
  await command('group', 'create', 'acme', 'engineering');
  await command('group', 'add', 'acme', 'sales', mia.email);
  const restrict = (name: string, group: string) =>
    command('tool', 'restrict', 'acme/story', name, '--group', group);
  for (const name of three) await restrict(name, 'sales');
  for (const name of [...others, fourth]) await restrict(name, 'engineering');
  const scopes = ['--scope', 'mcp:tools:read', '--scope', 'mcp:tools:execute'];
  const client = ['client', 'create', 'acme/story', '--name', 'Mia’s app', ...scopes];
  const made = await command(...client, '--redirect-uri', 'http://127.0.0.1/callback');
  const token = await mia.allow(
    z.object({ client_id: z.string() }).parse(JSON.parse(made)).client_id,
  );
  const create = ['key', 'create', 'acme/story', '--name', 'desk', '--tools', three.join(',')];
  const { key, id } = z
    .object({ key: z.string(), id: z.string() })
    .parse(JSON.parse(await command(...create)));
  await using elder = await elderAssistant(endpoint, token);
  await using younger = await youngerAssistant(endpoint, token);
  await using desk = await deskAssistant(endpoint, key);
  const assistants = { elder, younger, desk };

  const seen = await ofEach(assistants, ({ tools }) => tools());
  const own = await ofEach(assistants, ({ call }) => call('report'));
  const closed = await ofEach(assistants, ({ call }) => call(fourth));
  const absent = await ofEach(assistants, ({ call }) => call('no_such_tool'));
  await restrict(fourth, 'sales');
  await command('key', 'update', id, '--tools', [...three, fourth].join(','));
  const allowed = await ofEach(assistants, ({ call }) => call(fourth));
  const more = await ofEach(assistants, ({ tools }) => tools());
  await vi.waitFor(() => {
    const told = Object.values(assistants).map(({ changes }) => changes() > 0);
    expect(told).toEqual([true, true, true]);
  }, patient);
  await restrict(fourth, 'engineering');
  await command('key', 'update', id, '--tools', three.join(','));
  const lost = await ofEach(assistants, ({ call }) => call(fourth));
  const fewer = await ofEach(assistants, ({ tools }) => tools());

  return { seen, own, closed, absent, allowed, more, lost, fewer };
}

const each = (value: unknown) => ({ elder: value, younger: value, desk: value });
const unknown = (name: string) =>
  expect.stringMatching(new RegExp(`-32602.*unknown tool.*${name}`));

/** The expected result of `toolsStory`. */
export const toldStory = {
  seen: each(three.toSorted()),
  own: each('ok'),
  closed: each(unknown(fourth)),
  absent: each(unknown('no_such_tool')),
  allowed: each('ok'),
  more: each([...three, fourth].toSorted()),
  lost: each(unknown(fourth)),
  fewer: each(three.toSorted()),
};

type Each<Result> = Readonly<Record<'elder' | 'younger' | 'desk', Result>>;

async function ofEach<Result>(
  { elder, younger, desk }: Each<Assistant>,
  ask: (assistant: Assistant) => Promise<Result>,
): Promise<Each<Result>> {
  return { elder: await ask(elder), younger: await ask(younger), desk: await ask(desk) };
}

/** The methods that both generations of the SDK have in common. */
interface SdkClient {
  listTools(): Promise<{ tools: { name: string }[] }>;
  callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
  close(): Promise<void>;
}

function assistantOf(client: SdkClient, changes: () => number): Assistant {
  return {
    async tools() {
      const { tools } = await client.listTools();
      return tools.map(({ name }) => name).toSorted();
    },
    call: (name) =>
      client.callTool({ name, arguments: {} }).then(
        () => 'ok',
        (error: unknown) => {
          const { code, message } = Object(error);
          return `${code} ${message}`;
        },
      ),
    changes,
    [Symbol.asyncDispose]: () => client.close(),
  };
}

async function elderAssistant(endpoint: string, token: string): Promise<Assistant> {
  let changes = 0;
  const client = new Client(
    { name: 'Elder', version: '1.0' },
    { listChanged: { tools: { onChanged: () => (changes += 1), autoRefresh: false } } },
  );
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint), { requestInit }));
  return assistantOf(client, () => changes);
}

async function youngerAssistant(endpoint: string, token: string): Promise<Assistant> {
  let changes = 0;
  const client = new ModernClient(
    { name: 'Younger', version: '2.0' },
    {
      versionNegotiation: { mode: { pin: '2026-07-28' } },
      listChanged: { tools: { onChanged: () => (changes += 1), autoRefresh: false } },
    },
  );
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new ModernTransport(new URL(endpoint), { requestInit }));
  return assistantOf(client, () => changes);
}

async function deskAssistant(endpoint: string, key: string): Promise<Assistant> {
  let changes = 0;
  const client = new Client(
    { name: 'Desk', version: '3.0' },
    { listChanged: { tools: { onChanged: () => (changes += 1), autoRefresh: false } } },
  );
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [launcher, endpoint],
      env: { ...inherited, LATCHKEY_API_KEY: key },
      stderr: 'ignore',
    }),
  );
  return assistantOf(client, () => changes);
}
