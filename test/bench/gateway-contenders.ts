import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '#support/loopback';
import { startProgram, type Program } from '#support/processes';
import type { Shot } from './shot.ts';
import { latchkeyProcess, toolCall } from './server-contenders.ts';

/** Something that stands between a caller and an MCP server. */
export interface GatewayRacer {
  readonly name: string;
  readonly shot: Shot;
  /** The processes whose processor time a call costs; empty for the MCP server itself. */
  readonly programs: readonly Program[];
}

const root = join(import.meta.dirname, '../..');
const floors = join(import.meta.dirname, 'floors');
export const stdioTarget = join(floors, 'stdio-target.mjs');
const listening = /listening on (http:\/\/\S+)/;
const json = { 'content-type': 'application/json' };
const both = { ...json, accept: 'application/json, text/event-stream' };
const version = '2025-06-18';

const started = (args: readonly string[]) => startProgram(process.execPath, { args });

/** The MCP server asked directly, and the least program that could stand before it. */
export async function httpFloors(targetOrigin: string): Promise<[GatewayRacer, GatewayRacer]> {
  const proxy = started([join(floors, 'reverse-proxy.ts'), targetOrigin]);
  const [, origin = ''] = await proxy.line(listening, { timeoutMs: 60_000 });
  const shot = (at: string) => ({ url: `${at}/mcp`, headers: json, body: toolCall });
  return [
    { name: 'bare undici', shot: shot(origin), programs: [proxy] },
    { name: 'direct', shot: shot(targetOrigin), programs: [] },
  ];
}

/** The least program between HTTP and an MCP server on stdio. */
export async function stdioFloor(): Promise<GatewayRacer> {
  const front = started([join(floors, 'stdio-front.ts'), stdioTarget]);
  const [, origin = ''] = await front.line(listening, { timeoutMs: 60_000 });
  const shot = { url: `${origin}/mcp`, headers: json, body: toolCall };
  return { name: 'bare pipe', shot, programs: [front] };
}

/** Our gateway, one server of each kind of upstream behind it. */
export async function latchkeyGateway(targetOrigin: string, folder: string) {
  const commands = { 'bench/stdio': { command: process.execPath, args: [stdioTarget] } };
  const commandsFile = join(folder, 'commands.json');
  await writeFile(commandsFile, JSON.stringify({ servers: commands }));
  const { base, server, command } = await latchkeyProcess(folder, [
    '--stdio-servers',
    commandsFile,
  ]);
  const programs = [server];
  try {
    await command('server', 'create', 'bench/http', '--http-url', `${targetOrigin}/mcp`);
    const { key: agentKey = '' } = await command('agent', 'create', 'bench/near');
    await command('server', 'create', 'bench/agent', '--agent', 'near');
    const agentFile = join(folder, 'agent.json');
    const served = { agent: { url: `${targetOrigin}/mcp` } };
    await writeFile(agentFile, JSON.stringify({ servers: served }));
    await chmod(agentFile, 0o600);
    const agent = startProgram(process.execPath, {
      args: [
        join(process.env['BENCH_LATCHKEY'] ?? join(root, 'proxy'), 'bin/latchkey.js'),
        'agent',
        '--server-url',
        base,
        '--config',
        agentFile,
      ],
      env: { HOME: folder, LATCHKEY_AGENT_KEY: agentKey },
    });
    programs.push(agent);
    const racer = async (name: string): Promise<GatewayRacer> => {
      const { key = '' } = await command('key', 'create', `bench/${name}`, '--name', 'bench');
      const shot = {
        url: `${base}/mcp/bench/${name}`,
        headers: { ...json, 'x-api-key': key },
        body: toolCall,
      };
      return { name: `latchkey → ${name}`, shot, programs: name === 'agent' ? programs : [server] };
    };
    return {
      http: await racer('http'),
      agent: await racer('agent'),
      stdio: await racer('stdio'),
      programs,
    };
  } catch (error) {
    for (const program of programs) await program.end();
    throw error;
  }
}

/** A peer that serves a command over Streamable HTTP. It requires a session, so the call is made in one. */
export async function stdioPeer(name: string, args: (port: number) => readonly string[]) {
  const port = await freePort();
  const program = started(args(port));
  try {
    const url = `http://127.0.0.1:${port}/mcp`;
    const sessionId = await openedSession(url, program);
    const session = { 'mcp-session-id': sessionId, 'mcp-protocol-version': version };
    const shot = { url, headers: { ...both, ...session }, body: toolCall };
    return { name, shot, programs: [program] };
  } catch (error) {
    await program.end();
    throw error;
  }
}

async function openedSession(url: string, program: Program): Promise<string> {
  const params = {
    protocolVersion: version,
    capabilities: {},
    clientInfo: { name: 'bench', version: '1' },
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params });
  for (let turn = 0; ; turn += 1) {
    const answer = await fetch(url, { method: 'POST', headers: both, body }).catch(() => undefined);
    await answer?.text();
    const id = answer?.headers.get('mcp-session-id') ?? '';
    if (answer?.ok && id !== '') {
      const headers = { ...both, 'mcp-session-id': id, 'mcp-protocol-version': version };
      const noted = '{"jsonrpc":"2.0","method":"notifications/initialized"}';
      await (await fetch(url, { method: 'POST', headers, body: noted })).text();
      return id;
    }
    if (turn === 100) throw new Error(`no session at ${url}: ${program.stderr}`);
    await pause(100);
  }
}

const modules = join(root, 'node_modules');

/** The peers that serve a command over HTTP. Neither can stand in front of an MCP server on HTTP. */
export const stdioPeers: readonly { name: string; args: (port: number) => readonly string[] }[] = [
  {
    name: 'supergateway 4.0.0',
    args: (port) => [
      join(modules, 'supergateway/dist/index.js'),
      '--stdio',
      `${process.execPath} ${stdioTarget}`,
      '--outputTransport',
      'streamableHttp',
      '--stateful',
      '--port',
      String(port),
      '--logLevel',
      'none',
    ],
  },
  {
    name: 'mcp-proxy 6.7.19',
    args: (port) => [
      join(modules, 'mcp-proxy/dist/bin/mcp-proxy.mjs'),
      '--host',
      '127.0.0.1',
      '--port',
      String(port),
      '--server',
      'stream',
      '--no-eventStore',
      '--',
      process.execPath,
      stdioTarget,
    ],
  },
];
