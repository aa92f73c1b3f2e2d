import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

import { openStores, type Stores } from '#server/app/stores';
import { type CallingPerson, callingPerson } from '../calling-person.ts';
import { clusterStores, nodeCluster } from '../node-cluster.ts';
import { natsUrl } from '../requirements.ts';
import { runningAgent } from '../running-agent.ts';
import { serverProcess, type ServerProcess } from '../server-process.ts';
import { temporaryFolder } from '../temporary-folder.ts';
import { type Answer, recordingUpstream, sendJson } from '../upstreams/recording-upstream.ts';
import { reactionTo } from './outcomes.ts';

/** The installations of the server on which a story runs. */
export const installations = ['SQLite', 'two processes', 'PostgreSQL', 'three nodes'] as const;
export type Installation = (typeof installations)[number];
/** How the calls of a story reach the MCP server. */
export const ways = ['http', 'agent', 'agent with a child', 'stdio'] as const;
export type Way = (typeof ways)[number];

/** A server whose `acme/story` is an MCP server with tools that end in every way. */
export interface StoryPlace extends AsyncDisposable {
  readonly server: ServerProcess;
  readonly endpoint: string;
  readonly stores: Stores;
  /** An administrator, who also calls. */
  readonly dana: CallingPerson;
  /** An access token of `Story app` for Dana. */
  readonly token: string;
  /** Keys of the server, by name; `reader` may not call tools. */
  readonly keys: Readonly<Record<'laptop' | 'reader', string>>;
  /** The messages that the MCP server has received so far. */
  readonly received: () => string;
}

const made = z.object({ key: z.string() });

export async function storyPlace(installation: Installation, way: Way): Promise<StoryPlace> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryFolder('story'));
  const commands = join(path, 'stdio.json');
  const sent = join(path, 'sent');
  await writeFile(sent, '');
  await writeFile(commands, '{"servers":{}}', { mode: 0o600 });
  const args = way === 'stdio' ? ['--stdio-servers', commands] : [];
  const { server, open } = await started(installation, args, stack);
  const created = async (...words: string[]) =>
    made.parse(JSON.parse(await server.command([...words, '--json'])));

  await server.command(['organization', 'create', 'acme']);
  let received = () => readFileSync(sent, 'utf8');
  const child = join(import.meta.dirname, 'story-child.ts');
  const command = { command: process.execPath, args: [child, sent] };
  const throughAgent = async (reached: object) => {
    const { key } = await created('agent', 'create', 'acme/berlin');
    await server.command(['server', 'create', 'acme/story', '--agent', 'berlin']);
    stack.use(await runningAgent(server.base, key, { story: reached }));
  };
  if (way === 'stdio') {
    await writeFile(commands, JSON.stringify({ servers: { 'acme/story': command } }));
    await server.restart();
  } else if (way === 'agent with a child') {
    await throughAgent(command);
  } else {
    const upstream = stack.use(await recordingUpstream());
    upstream.answer = answerInASession;
    received = () => upstream.requests.map(({ body }) => body.toString()).join('\n');
    if (way === 'http') {
      await server.command(['server', 'create', 'acme/story', '--http-url', upstream.url]);
    } else {
      await throughAgent({ url: upstream.url });
    }
  }
  const dana = await callingPerson(server, 'dana@example.com', {
    organization: 'acme',
    role: 'owner',
  });
  const scopes = ['--scope', 'mcp:tools:read', '--scope', 'mcp:tools:execute'];
  const uri = ['--redirect-uri', 'http://127.0.0.1/callback'];
  const client = await server.command([
    ...'client create acme/story --json --name'.split(' '),
    'Story app',
    ...scopes,
    ...uri,
  ]);
  const { client_id: clientId } = z.object({ client_id: z.string() }).parse(JSON.parse(client));
  const create = ['key', 'create', 'acme/story', '--name'];
  const keys = {
    laptop: (await created(...create, 'laptop')).key,
    reader: (await created(...create, 'reader', '--scope', 'mcp:tools:read')).key,
  };
  const stores = await open();
  stack.defer(() => stores.close());
  const opened = stack.move();
  return {
    server,
    endpoint: `${server.base}/mcp/acme/story`,
    stores,
    dana,
    token: await dana.allow(clientId),
    keys,
    received,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** Latchkey knows the application of a legacy caller by its session, so this MCP server has sessions. */
const answerInASession: Answer = ({ method, headers, body }, response) => {
  if (method !== 'POST') return void response.writeHead(method === 'DELETE' ? 204 : 405).end();
  const text = body.toString();
  if (text.includes('"initialize"')) response.setHeader('mcp-session-id', randomUUID());
  else if (headers['mcp-session-id'] === undefined) return void response.writeHead(400).end();
  const reaction = reactionTo(text);
  if (typeof reaction === 'object') sendJson(response, reaction.json);
  else if (reaction !== 'waits') response.writeHead(reaction === 'fails' ? 500 : 202).end();
};

async function started(
  installation: Installation,
  args: readonly string[],
  stack: AsyncDisposableStack,
): Promise<{ readonly server: ServerProcess; readonly open: () => Promise<Stores> }> {
  if (installation === 'SQLite' || installation === 'two processes') {
    const processes = installation === 'SQLite' ? [] : ['--processes', '2'];
    const server = stack.use(await serverProcess({ args: [...args, ...processes] }));
    return { server, open: () => openStores(server.dataDir) };
  }
  const isOne = installation === 'PostgreSQL';
  const bus = isOne ? [] : ['--nats-url', natsUrl()];
  const size = isOne ? 1 : 3;
  const cluster = stack.use(await nodeCluster({ size, args: [...args, ...bus] }));
  const server = { ...cluster, commandProcess: cluster.command };
  return { server, open: () => clusterStores(cluster) };
}
