import { scanMessage } from 'latchkey-mcp/message';
import { expect, test } from 'vitest';

import { Applications } from '#server/gateway/applications';

const key = 'io.modelcontextprotocol/clientInfo';

/** A call whose `_meta` has this JSON text. */
function call(meta: string) {
  const params = `{"name":"search","_meta":${meta}}`;
  const received = Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`);
  const scan = scanMessage(received);
  if (scan.outcome === 'refused') throw new Error(scan.reason);
  return { received, envelope: scan.envelope, era: 'modern' } as const;
}

const agent = { 'user-agent': 'curl/8' };
const fromAgent = { text: 'curl/8', source: 'user_agent' };

test.each([
  ['name and version', `{"${key}":{"name":"Claude","version":"1.2"}}`, 'Claude 1.2'],
  ['a name alone', `{"${key}":{"name":"Claude"}}`, 'Claude'],
  ['a key with an escape', `{"io.modelcontextprotocol\\/clientInfo":{"name":"Ü"}}`, 'Ü'],
  ['no name', `{"${key}":{"version":"1.2"}}`, undefined],
  ['a text', `{"${key}":"Claude"}`, undefined],
  ['too long a text', `{"${key}":{"name":"Claude","more":"${'x'.repeat(3000)}"}}`, undefined],
  ['nothing', '{}', undefined],
])('application: announced in a message with %s, the first time and again', (_, meta, text) => {
  const applications = new Applications();
  const expected = text === undefined ? fromAgent : { text, source: 'client_info' };

  expect(applications.of(agent, call(meta), undefined)).toEqual(expected);
  expect(applications.of(agent, call(meta), undefined)).toEqual(expected);
});

test('application: that of the session is taken before the user agent', () => {
  const applications = new Applications();

  expect(applications.of(agent, call('{}'), { application: 'Cursor 3' })).toEqual({
    text: 'Cursor 3',
    source: 'client_info',
  });
  expect(applications.of({}, undefined, undefined)).toBeUndefined();
});

/** A request of the legacy era, with a `clientInfo` if a name is given. */
function legacy(method: string, name?: string) {
  const info = name === undefined ? {} : { clientInfo: { name, version: '1' } };
  const received = Buffer.from(
    JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { name: 'search', ...info } }),
  );
  const scan = scanMessage(received);
  if (scan.outcome === 'refused') throw new Error(scan.reason);
  return { received, envelope: scan.envelope, era: 'legacy' } as const;
}

test('application: without a session, that of the last initialize of this principal, endpoint and user agent', () => {
  const applications = new Applications();
  const caller = { principal: 'client:client_1:user_dana', endpoint: { id: 'srv_1' } };
  const node = { 'user-agent': 'node' };
  const of = (headers: Record<string, string>, but: object = {}) =>
    applications.of(headers, legacy('tools/call'), undefined, { ...caller, ...but })?.text;

  const first = applications.of(node, legacy('initialize', 'Claude'), undefined, caller);

  expect(first).toEqual({ text: 'Claude 1', source: 'client_info' });
  expect(of(node)).toBe('Claude 1');
  expect(of(agent)).toBe('curl/8');
  expect(of(node, { principal: 'client:client_1:user_lee' })).toBe('node');
  expect(of(node, { endpoint: { id: 'srv_2' } })).toBe('node');

  applications.of(node, legacy('initialize', 'Cursor'), undefined, caller);
  expect(of(node)).toBe('Cursor 1');
});
