import type { IncomingHttpHeaders } from 'node:http';

import { describe, expect, test } from 'vitest';

import { decodeHeader, encodeHeader, mirroredName } from '#mcp/headers';
import { eraOf, parseAccept } from '#server/gateway/read-message';
import { scannedMessage, scannedRequest } from '#support/scanned-message';

describe('an Accept header', () => {
  const both = { json: true, events: true };
  const json = { json: true, events: false };
  const events = { json: false, events: true };
  const neither = { json: false, events: false };

  describe('an Accept header allows', () => {
    test.each([
      [undefined, json],
      ['', json],
      ['  ', json],
      ['*/*', json],
      ['application/*', json],
      ['application/json', json],
      ['Application/JSON; charset=utf-8', json],
      ['text/html, application/json;q=0.1', json],
      ['text/event-stream', events],
      ['text/*', events],
      ['application/json, text/event-stream', both],
      ['application/json,text/event-stream;q=0.5', both],
      ['text/event-stream, */*', both],
      ['application/json, text/event-stream;q=0', json],
      ['application/json, text/event-stream; Q=0.000', json],
      ['*/*;q=0', neither],
      ['text/html', neither],
      ['application/jsonp', neither],
    ])('%j: %j', (header, accepts) => {
      expect(parseAccept(header)).toEqual(accepts);
    });
  });

  test('the most specific range decides, wherever it is', () => {
    expect(parseAccept('application/json;q=0, */*').json).toBe(false);
    expect(parseAccept('*/*, application/json;q=0.0').json).toBe(false);
    expect(parseAccept('text/*;q=0, text/event-stream').events).toBe(true);
  });
});

describe('the era of a message', () => {
  const modern = { _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } };
  const era = (params: object | undefined, headers: IncomingHttpHeaders, method = 'tools/list') =>
    eraOf(scannedRequest(method, params).envelope, headers);

  const listHeaders = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' };
  const callHeaders = { ...listHeaders, 'mcp-method': 'tools/call' };

  describe('a message is legacy', () => {
    test.each<[string, object | undefined, IncomingHttpHeaders]>([
      ['when it is the plain request, without any header or _meta', undefined, {}],
      ['when its _meta names no version', { _meta: { progressToken: 1 } }, {}],
      ['with headers that only a modern one must have', undefined, { 'mcp-method': 'x' }],
      ...['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2024-10-07'].map(
        (version): [string, object, IncomingHttpHeaders] => [
          `when its header names ${version}`,
          {},
          { 'mcp-protocol-version': version },
        ],
      ),
    ])('%s', (_, params, headers) => {
      expect(era(params, headers)).toBe('legacy');
    });
  });

  describe('a message is modern', () => {
    test('when its _meta names the modern version and its headers repeat it', () => {
      expect(era(modern, listHeaders)).toBe('modern');
    });

    test('when it calls a tool whose name its header repeats', () => {
      expect(era({ ...modern, name: 'a' }, { ...callHeaders, 'mcp-name': 'a' }, 'tools/call')).toBe(
        'modern',
      );
    });

    test('when the name in its header is encoded', () => {
      const headers = { ...callHeaders, 'mcp-name': '=?base64?w6k=?=' };

      expect(era({ ...modern, name: 'é' }, headers, 'tools/call')).toBe('modern');
    });

    test('when it is a notification that only its header marks as modern', () => {
      const { envelope } = scannedMessage({ jsonrpc: '2.0', method: 'notifications/cancelled' });
      const headers = { ...listHeaders, 'mcp-method': 'notifications/cancelled' };

      expect(eraOf(envelope, headers)).toBe('modern');
    });
  });

  describe('a modern message is header_mismatch when', () => {
    test.each<[string, object, IncomingHttpHeaders, string]>([
      [
        'its version is in the body alone',
        modern,
        { 'mcp-method': 'tools/list' },
        'MCP-Protocol-Version is missing',
      ],
      [
        'its version is unknown, and another than in the header',
        { _meta: { 'io.modelcontextprotocol/protocolVersion': '2099-01-01' } },
        listHeaders,
        'MCP-Protocol-Version differs',
      ],
      [
        'its method header is missing',
        modern,
        { 'mcp-protocol-version': '2026-07-28' },
        'Mcp-Method is missing',
      ],
      [
        'its method header differs',
        modern,
        { ...listHeaders, 'mcp-method': 'tools/call' },
        'Mcp-Method differs',
      ],
      [
        'its method header has another case',
        modern,
        { ...listHeaders, 'mcp-method': 'Tools/list' },
        'Mcp-Method differs',
      ],
    ])('%s', (_, params, headers, detail) => {
      expect(() => era(params, headers)).toThrow(
        expect.objectContaining({
          code: 'header_mismatch',
          message: expect.stringContaining(detail),
        }),
      );
    });

    test.each([
      ['tools/call', { name: 'a' }],
      ['prompts/get', { name: 'a' }],
      ['resources/read', { uri: 'a' }],
    ])('%s has no name or another one in its header', (method, params) => {
      const headers = { ...listHeaders, 'mcp-method': method };
      const mismatch = expect.objectContaining({ code: 'header_mismatch' });

      expect(() => era({ ...modern, ...params }, headers, method)).toThrow(mismatch);
      expect(() => era({ ...modern, ...params }, { ...headers, 'mcp-name': 'b' }, method)).toThrow(
        mismatch,
      );
      expect(era({ ...modern, ...params }, { ...headers, 'mcp-name': 'a' }, method)).toBe('modern');
    });
  });

  test.each([{}, { _meta: {} }, { _meta: { 'io.modelcontextprotocol/protocolVersion': 1 } }])(
    'a request whose version is in the header alone lacks its _meta: %j',
    (params) => {
      expect(() => era(params, listHeaders)).toThrow(expect.objectContaining({ code: 'bad_meta' }));
    },
  );

  describe('a version is unsupported', () => {
    const named = (version: string) => ({
      _meta: { 'io.modelcontextprotocol/protocolVersion': version },
    });
    test.each<[string, object, IncomingHttpHeaders, string]>([
      ['unknown in the body', named('2099-01-01'), {}, '2099-01-01'],
      ['unknown in the header', {}, { 'mcp-protocol-version': '2099-01-01' }, '2099-01-01'],
      ['legacy in a _meta, which legacy has not', named('2025-11-25'), {}, '2025-11-25'],
      ['empty in the header', {}, { 'mcp-protocol-version': '' }, ''],
    ])('%s', (_, params, headers, requested) => {
      expect(() => era(params, headers)).toThrow(
        expect.objectContaining({ code: 'unsupported_version', details: { requested } }),
      );
    });
  });

  test('only methods that act on one named object mirror its name', () => {
    const params = { name: 'n', uri: 'u' };
    const names = ['tools/call', 'prompts/get', 'resources/read', 'tools/list', 'constructor'].map(
      (method) => mirroredName(scannedRequest(method, params).envelope),
    );

    expect(names).toEqual(['n', 'n', 'u', undefined, undefined]);
  });

  describe('a header value is encoded only where it must be, and read back', () => {
    test.each([
      ['plain', 'plain'],
      ['two words', 'two words'],
      ['é', '=?base64?w6k=?='],
      [' edge', '=?base64?IGVkZ2U=?='],
      ['line\r\nfeed', '=?base64?bGluZQ0KZmVlZA==?='],
      ['=?base64?x?=', '=?base64?PT9iYXNlNjQ/eD89?='],
      ['', '=?base64??='],
    ])('%j: %j', (value, header) => {
      expect(encodeHeader(value)).toBe(header);
      expect(decodeHeader(header)).toBe(value);
    });
  });

  test('a legacy version in the header of a modern body is a mismatch', () => {
    expect(() => era(modern, { 'mcp-protocol-version': '2025-11-25' })).toThrow(
      expect.objectContaining({ code: 'header_mismatch' }),
    );
  });
});
