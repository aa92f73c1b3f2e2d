import { describe, expect, test } from 'vitest';

import { type FailedRequest, errorAnswer } from '#server/gateway/errors';
import {
  GatewayRefusal,
  type RefusalCode,
  type RefusalDetails,
} from '#server/gateway/gateway-refusal';
import type { GatewayAnswer } from '#server/gateway/request';

const base = 'https://latchkey.example.com';
const metadata = `resource_metadata="${base}/.well-known/oauth-protected-resource/mcp/acme/sales"`;
const ordinary = 'scope="mcp:tools:read mcp:tools:execute mcp:resources:read"';
const failed: FailedRequest = { base, serverPath: 'acme/sales', era: 'legacy', id: '7' };

const answer = (
  code: RefusalCode,
  details: RefusalDetails = {},
  but: Partial<FailedRequest> = {},
) => errorAnswer(new GatewayRefusal(code, details), { ...failed, ...but });

const messageIn = (refused: GatewayAnswer) =>
  JSON.parse(typeof refused.body === 'string' ? refused.body : '');
const errorOf = (refused: GatewayAnswer) => messageIn(refused).error;

test('a refusal of a message without an id is the HTTP status alone', () => {
  for (const code of ['not_theirs', 'bad_params', 'unknown_method', 'unknown_tool'] as const) {
    expect(answer(code, {}, { id: 'null' }).status).toBe(400);
    expect(answer(code).status).toBe(200);
  }
});

describe('a refusal has its HTTP status and its JSON-RPC code', () => {
  test.each<[RefusalCode, number, number]>([
    ['no_credential', 401, -32001],
    ['bad_credential', 401, -32001],
    ['suspended', 401, -32001],
    ['two_credentials', 400, -32600],
    ['insufficient_scope', 403, -32003],
    ['foreign_origin', 403, -32600],
    ['method_not_allowed', 405, -32600],
    ['unsupported_media_type', 415, -32600],
    ['not_acceptable', 406, -32600],
    ['too_large', 413, -32600],
    ['too_many_chunks', 400, -32600],
    ['not_json', 400, -32700],
    ['not_a_message', 400, -32600],
    ['header_mismatch', 400, -32020],
    ['unsupported_version', 400, -32022],
    ['unknown_method', 200, -32601],
    ['unknown_tool', 200, -32602],
    ['not_theirs', 200, -32602],
    ['bad_meta', 400, -32602],
    ['unknown_event', 400, -32600],
    ['bad_params', 200, -32602],
    ['unknown_session', 404, -32001],
    ['unexpected_response', 400, -32600],
    ['cancelled', 200, -32800],
    ['too_many_requests', 429, -32000],
    ['hidden_tool', 200, -32602],
    ['closed_tool', 200, -32602],
    ['unknown_prompt', 200, -32602],
    ['closed_prompt', 200, -32602],
    ['unknown_resource', 200, -32002],
    ['closed_resource', 200, -32002],
    ['withheld_tool', 200, -32602],
    ['upstream_unreachable', 502, -32000],
    ['upstream_unknown_host', 502, -32000],
    ['upstream_not_public', 502, -32000],
    ['upstream_tls_failed', 502, -32000],
    ['upstream_not_served', 502, -32000],
    ['upstream_timeout', 502, -32000],
    ['upstream_broke_off', 502, -32000],
    ['upstream_refused_credentials', 502, -32000],
    ['upstream_not_found', 502, -32000],
    ['upstream_method_not_allowed', 502, -32000],
    ['upstream_redirected', 502, -32000],
    ['upstream_server_error', 502, -32000],
    ['upstream_not_json', 502, -32000],
    ['upstream_unreadable', 502, -32000],
    ['upstream_too_large', 502, -32000],
    ['upstream_failed', 502, -32000],
    ['upstream_rate_limited', 503, -32000],
    ['upstream_busy', 503, -32000],
    ['agent_offline', 503, -32000],
    ['node_unreachable', 503, -32000],
    ['node_lost', 502, -32000],
    ['unavailable', 503, -32000],
    ['fault', 500, -32603],
  ])('%s: %i, %i', (code, status, rpcCode) => {
    const refused = answer(code, { detail: 'why' });

    expect(refused).toMatchObject({
      status,
      headers: { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' },
    });
    expect(messageIn(refused)).toMatchObject({
      jsonrpc: '2.0',
      id: 7,
      error: { code: rpcCode },
    });
    expect(errorOf(refused).message).toMatch(/\w/);
  });

  test('if access cannot be checked, the caller may retry after a second', () => {
    expect(answer('unavailable').headers).toMatchObject({ 'Retry-After': '1' });
  });

  test.each<[RefusalCode, number]>([
    ['unknown_method', 404],
    ['bad_params', 400],
    ['unknown_tool', 200],
    ['not_theirs', 400],
  ])('%s in the modern era: %i', (code, status) => {
    expect(answer(code, {}, { era: 'modern' }).status).toBe(status);
  });
});

describe('a challenge links to the metadata and names', () => {
  test.each<[string, RefusalCode, RefusalDetails, string]>([
    [
      'the ordinary scopes for who has no credential',
      'no_credential',
      {},
      `Bearer ${metadata}, ${ordinary}`,
    ],
    [
      'the error for a bad one',
      'bad_credential',
      {},
      `Bearer error="invalid_token", ${metadata}, ${ordinary}`,
    ],
    [
      'the error and its reason for a suspended one',
      'suspended',
      { detail: 'suspended: by a setting' },
      `Bearer error="invalid_token", error_description="suspended: by a setting", ${metadata}, ${ordinary}`,
    ],
    [
      'granted and needed together for a scope that is missing',
      'insufficient_scope',
      { scopes: ['mcp:tools:execute', 'mcp:tools:read'] },
      `Bearer error="insufficient_scope", ${metadata}, scope="mcp:tools:read mcp:tools:execute"`,
    ],
  ])('%s', (_, code, details, challenge) => {
    expect(answer(code, details).headers['WWW-Authenticate']).toBe(challenge);
  });

  test('no scope where another credential would not help', () => {
    expect(answer('unknown_tool').headers).not.toHaveProperty('WWW-Authenticate');
  });
});

test('every bad credential gets the same answer, whatever the reason', () => {
  const causes = ['expired', 'revoked', 'for another server', new Error('unknown kid')];
  const answers = causes.map((cause) => answer('bad_credential', { cause, detail: String(cause) }));

  expect(new Set(answers.map((refused) => JSON.stringify(refused))).size).toBe(1);
});

test('an id is returned as its original text', () => {
  for (const id of ['1.50', '12345678901234567890', '"a\\n"', 'null']) {
    expect(answer('fault', {}, { id }).body).toContain(`"id":${id},`);
  }
});

test('a cause stays private, and a detail is quoted so that the body remains valid JSON', () => {
  const refused = answer('not_json', { detail: 'a "quote"\n', cause: new Error('mcp_private') });

  expect(errorOf(refused).message).toBe('the body is not JSON: a "quote"\n');
  expect(JSON.stringify(refused)).not.toContain('mcp_private');
  expect(errorOf(answer('fault', { cause: new Error('mcp_private') })).message).toBe(
    'internal error',
  );
});

test('a caller that must wait gets Retry-After', () => {
  expect(answer('upstream_busy', { retryAfterSeconds: 7 }).headers).toMatchObject({
    'Retry-After': '7',
  });
  expect(answer('upstream_busy').headers).not.toHaveProperty('Retry-After');
});

test('a caller with an unsupported version gets the list of supported ones', () => {
  expect(errorOf(answer('unsupported_version', { requested: '2099-01-01' })).data).toEqual({
    supported: ['2026-07-28'],
    requested: '2099-01-01',
  });
});

test('a method that is not allowed gets the list of allowed ones', () => {
  expect(answer('method_not_allowed').headers).toMatchObject({ Allow: 'POST, GET, DELETE' });
});

test.each<[RefusalCode, string]>([
  ['not_connected', 'open https://latchkey.example.com/account'],
  ['key_missing', 'open https://latchkey.example.com/account'],
  ['key_refused', 'enter a new one at https://latchkey.example.com/account'],
  ['upstream_token', 'connect it again at https://latchkey.example.com/account'],
  ['upstream_scope', 'connect it again at https://latchkey.example.com/account'],
  ['no_person', 'sign in as a person'],
])('a tool that needs an account answers with a result that the model reads: %s', (code, words) => {
  const details = { page: `${base}/account` };
  const told = answer(code, details, { awaitsToolResult: true });

  expect(told).toMatchObject({ status: 200, headers: { 'Cache-Control': 'no-store' } });
  expect(messageIn(told)).toEqual({
    jsonrpc: '2.0',
    id: 7,
    result: { content: [{ type: 'text', text: expect.stringContaining(words) }], isError: true },
  });
  expect(errorOf(answer(code, details)).code).toBe(-32000);
});

test('a tool’s caller gets an error where it can show URLs, or where no account is missing', () => {
  const asked = { awaitsToolResult: true };

  expect(errorOf(answer('not_connected', { showsUrls: true }, asked)).code).toBe(-32042);
  expect(errorOf(answer('insufficient_scope', {}, asked)).code).toBe(-32003);
});

test('the error of a member of a collection names the member', () => {
  const refused = answer('upstream_timeout', { isOutcomeUnknown: true }, { member: 'sales' });

  expect(errorOf(refused)).toEqual({
    code: -32000,
    message: 'sales: the MCP server behind this endpoint failed',
    data: { outcome: 'unknown' },
  });
});

test.each<[RefusalCode, GatewayAnswer['refused']]>([
  ['hidden_tool', 'unknown'],
  ['closed_resource', 'unknown'],
  ['bad_credential', 'no_access'],
  ['unavailable', 'not_sent'],
  ['node_unreachable', 'not_sent'],
  ['upstream_busy', 'failed'],
  ['agent_offline', 'failed'],
  ['too_many_requests', 'failed'],
])('an error of ours says what it means, whatever its status: %s', (code, meaning) => {
  expect(answer(code).refused).toBe(meaning);
});
