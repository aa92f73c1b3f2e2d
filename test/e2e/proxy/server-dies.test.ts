import { expect, test } from 'vitest';
import { killableServer } from '#support/killable-server';
import { proxyProcess, type Answer, type ProxyProcess } from '#support/proxy-process';

const env = { LATCHKEY_API_KEY: `mcp_${'k'.repeat(36)}` };
const modern = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};
const numbers = Array.from({ length: 64 }, (_, n) => n);

/** Sends 64 calls at once; every second one is of `others`. */
function callAll(proxy: ProxyProcess, tool: string, others: string, _meta?: object): void {
  const calls = numbers.map((n) => ({
    jsonrpc: '2.0',
    id: `${tool} ${n}`,
    method: 'tools/call',
    params: { name: n % 2 === 0 ? tool : others, arguments: { n }, ...(_meta && { _meta }) },
  }));
  proxy.send(calls.map((call) => JSON.stringify(call)).join('\n'));
}

async function nextAnswers(proxy: ProxyProcess, count: number): Promise<Answer[]> {
  const answers: Answer[] = [];
  while (answers.length < count) answers.push(await proxy.next());
  return answers;
}

test.each([
  ['JSON', 'json', undefined],
  ['event streams', 'sse', undefined],
  ['JSON, modern era', 'json', modern],
  ['event streams, modern era', 'sse', modern],
] as const)(
  'server killed during 64 calls (%s): one answer each, none repeated, and all work after its restart',
  async (_, kind, _meta) => {
    await using server = await killableServer(kind);
    await using proxy = proxyProcess({ args: [server.url], env });
    if (!_meta) await proxy.handshake();
    callAll(proxy, 'act', 'hold', _meta);
    await server.hears(/(act|hold) \d+/, 64);
    const calls = server.heard().filter((what) => /^(act|hold) /.test(what));
    await server.killed();
    const answers = await nextAnswers(proxy, 64);

    await using again = await server.again();
    callAll(proxy, 'again', 'act', _meta);
    const after = await nextAnswers(proxy, 64);

    expect(new Set(answers.map(({ id }) => id)).size).toBe(64);
    expect(new Set(calls).size).toBe(64);
    const failed = answers.filter(({ error }) => error);
    expect(failed.length).toBeGreaterThanOrEqual(32);
    for (const { error } of failed) {
      expect(error?.message).toContain('it is unknown whether the request ran');
      expect(error?.data).toMatchObject({ outcome: 'unknown' });
    }
    expect(new Set(after.map(({ id }) => id)).size).toBe(64);
    expect(after.filter(({ result }) => result)).toHaveLength(64);
    const repeated = again.heard().filter((what) => what.startsWith('hold'));
    expect(repeated).toEqual([]);
    expect(again.heard().filter((what) => what === 'initialize')).toHaveLength(_meta ? 0 : 1);
    expect(proxy.unread()).toEqual([]);
  },
);
