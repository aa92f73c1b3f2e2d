import { expect, test } from 'vitest';
import { mintSecret } from '#server/secrets/secrets';
import { fromWire, toWire } from '#server/admin/wire-names';

test('members have their names of the wire at every depth, values and a JWK set stay as they are', () => {
  const own = {
    clientId: 'client_aB',
    upstream: { kind: 'http', agentName: null },
    items: [{ createdAt: 1, redirectUris: ['aB://x'] }],
    jwks: { keys: [{ kty: 'EC', keyOps: [], key_ops: ['verify'] }] },
  };
  const wire = {
    client_id: 'client_aB',
    upstream: { kind: 'http', agent_name: null },
    items: [{ created_at: 1, redirect_uris: ['aB://x'] }],
    jwks: own.jwks,
  };

  expect(toWire(own)).toEqual(wire);
  expect(fromWire(wire)).toEqual(own);
});

test('a name that is not one of the wire is refused, not read as a second spelling', () => {
  expect(() => fromWire({ redirectUris: [] })).toThrow(
    expect.objectContaining({
      code: 'invalid',
      fields: [{ field: 'redirect_uris', problem: 'must not be spelled redirectUris' }],
    }),
  );
  expect(() => fromWire({ [mintSecret('mcp_')]: 1 })).toThrow(
    expect.objectContaining({ fields: [{ field: '', problem: 'names have no capital letters' }] }),
  );
});

test('a member called __proto__ is like any other', () => {
  const value = fromWire(JSON.parse('{"__proto__":{"name":"x"}}'));

  expect(Object.hasOwn(value, '_Proto__') || Object.hasOwn(value, '__proto__')).toBe(true);
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
});

test.each([
  ['lists', '['.repeat(50_000) + ']'.repeat(50_000)],
  ['objects', '{"a":'.repeat(50_000) + '1' + '}'.repeat(50_000)],
  ['a JWK set', `{"jwks":${'['.repeat(50_000)}${']'.repeat(50_000)}}`],
])('%s nested without end are refused before they are read', (_what, text) => {
  const parsed: unknown = JSON.parse(`{"name":${text}}`);

  expect(() => fromWire(Object(parsed))).toThrow(
    expect.objectContaining({ code: 'invalid', message: 'the body is nested too deeply' }),
  );
});
