import { readFileSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { cutNetwork, type CutNetwork } from '../cut-network.ts';
import { startProgram, type Program } from '../processes.ts';
import { launcher } from '../proxy-process.ts';
import { serverProcess, type ServerProcess } from '../server-process.ts';
import { temporaryFolder } from '../temporary-folder.ts';
import { visitor } from '../visitor.ts';

const modules = join(import.meta.dirname, '../../../node_modules/@modelcontextprotocol');
const record = z.record(z.string(), z.unknown());
const made = z.object({ key: z.string() });
const password = 'correct horse battery';

/** A line that a child was sent, and when. */
export interface Sent {
  readonly atMs: number;
  readonly text: string;
}

/**
 * A server with the organization `acme`, the agent `berlin` and two reference servers from npm behind the agent: `everything`,
 * with a log of the lines that its children are sent, and `files`. Every request to the server passes through `network`.
 */
export interface StoryWorld extends AsyncDisposable {
  readonly server: ServerProcess;
  readonly network: CutNetwork;
  /** The folder that `files` serves. */
  readonly folder: string;
  /** The agent's first key. */
  readonly firstKey: string;
  /** An MCP key of each server. */
  readonly mcpKeys: Readonly<Record<'everything' | 'files', string>>;
  readonly agent: Program;
  /** Starts another agent, waits until it serves, and makes it `agent`. */
  startAgent(): Promise<void>;
  /** Replaces the agent's key file in one step, as a careful person does. */
  replaceKey(key: string): Promise<void>;
  /** The lines that children of `everything` were sent so far. */
  sent(): Sent[];
  /** The admin API, as an owner. */
  ask(method: string, path: string, body?: object): Promise<Record<string, unknown>>;
  /** The connection state that the agent's page shows. */
  standing(): Promise<'Connected' | 'Offline' | undefined>;
}

export async function storyWorld(): Promise<StoryWorld> {
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder('story'));
  const network = stack.use(await cutNetwork());
  const server = stack.use(await serverProcess({ frontPort: network.port }));
  network.lead(server.port);
  const command = async (words: string, input?: string) => server.command(words.split(' '), input);
  await command('organization create acme');
  const dana = 'dana@example.com';
  await command(`user create ${dana} --organization acme --role owner`, `${password}\n`);
  const token = JSON.parse(await command(`token create ${dana} --name story --json`)).token;
  const ask = async (method: string, path: string, body?: object) => {
    const answer = await fetch(`${server.base}/api/admin/organizations/acme${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return record.parse(JSON.parse(text));
  };
  const firstKey = made.parse(await ask('POST', '/agents', { name: 'berlin' })).key;
  const keyOf = async (name: string) => {
    await ask('POST', '/servers', { name, upstream: { kind: 'agent', agent: 'berlin' } });
    return made.parse(await ask('POST', `/servers/${name}/keys`, { name: 'story' })).key;
  };
  const mcpKeys = { everything: await keyOf('everything'), files: await keyOf('files') };
  const person = visitor(server.base);
  await person.signIn('dana@example.com', password);

  const keyFile = join(folder, 'key');
  const log = join(folder, 'sent');
  const configuration = join(folder, 'agent.json');
  const official = (name: string) => join(modules, name, 'dist/index.js');
  const spy = join(import.meta.dirname, 'spied-child.ts');
  const quickLog = join(import.meta.dirname, 'quick-log.mjs');
  const node = process.execPath;
  const everything = {
    command: node,
    args: [spy, log, node, '--import', quickLog, official('server-everything')],
    denyTools: ['get-env'],
  };
  const files = { command: node, args: [official('server-filesystem'), folder] };
  await writeFile(log, '');
  await writeFile(configuration, JSON.stringify({ servers: { everything, files } }));
  const replaceKey = async (key: string) => {
    await writeFile(`${keyFile}.new`, `${key}\n`, { mode: 0o600 });
    await rename(`${keyFile}.new`, keyFile);
  };
  await replaceKey(firstKey);

  const start = async () => {
    const words = ['--server-url', server.base, '--config', configuration, '--key-file', keyFile];
    const started = startProgram(node, {
      args: [launcher, 'agent', ...words],
      env: { HOME: folder, LATCHKEY_AGENT_KEY: undefined },
      endLimitMs: 20_000,
    });
    await started.line(/serving everything, files/);
    return started;
  };
  let agent = await start();
  stack.defer(async () => void (await agent.end()));
  const started = stack.move();
  return {
    server,
    network,
    folder,
    firstKey,
    mcpKeys,
    get agent() {
      return agent;
    },
    async startAgent() {
      agent = await start();
    },
    replaceKey,
    sent: () =>
      readFileSync(log, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => {
          const at = line.indexOf(' ');
          return { atMs: Number(line.slice(0, at)), text: line.slice(at + 1) };
        }),
    ask,
    async standing() {
      const html = await (await person.get('/dashboard/acme/agents/berlin')).text();
      if (/>\s*Connected</.test(html)) return 'Connected';
      return />\s*Offline</.test(html) ? 'Offline' : undefined;
    },
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}
