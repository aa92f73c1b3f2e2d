import type { IncomingHttpHeaders } from 'node:http';

import { GatewayRefusal } from './gateway-refusal.ts';
import type { Envelope } from './json-scan.ts';

/** Revisions without a handshake: every request says in `_meta` what it speaks. */
export const modernVersions: readonly string[] = ['2026-07-28'];

/** Revisions with `initialize` and sessions. */
export const legacyVersions: readonly string[] = [
  '2025-11-25',
  '2025-06-18',
  '2025-03-26',
  '2024-11-05',
  '2024-10-07',
];

/** Methods of the legacy era that the modern one has not, and that would be refused for other reasons first. */
export const legacyOnlyMethods: ReadonlySet<string> = new Set(['tasks/result']);

/** Which of MCP's two eras a request belongs to. */
export type Era = 'modern' | 'legacy';

/** Methods whose `Mcp-Name` header mirrors a member of `params`. MCP 2026-07-28 transports, tasks */
const mirrored: Readonly<Record<string, 'name' | 'uri' | 'taskId'>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
};

/** The member of `params` that a method cannot do without and `Mcp-Name` repeats. */
export function mirroredMember(method = ''): 'name' | 'uri' | 'taskId' | undefined {
  return Object.hasOwn(mirrored, method) ? mirrored[method] : undefined;
}

/** What `Mcp-Name` must say for this message; `undefined` when it says nothing. */
export function mirroredName(envelope: Envelope): string | undefined {
  const member = mirroredMember(envelope.method);
  return member && envelope[member];
}

/**
 * The era of a message. A version named in `_meta`, or a modern one in the header, makes it modern; the
 * headers must then repeat what the body says, so that whoever routes by header and whoever reads the
 * body agree. The plain request, without any of it, is legacy.
 *
 * MCP 2026-07-28 transports, "Request metadata"
 *
 * @throws {GatewayRefusal} `unsupported_version`, `header_mismatch`, `bad_meta`
 */
export function eraOf(envelope: Envelope, headers: IncomingHttpHeaders): Era {
  const header = single(headers['mcp-protocol-version']);
  const named = envelope.protocolVersion;
  const said = named ?? header;
  if (named !== undefined && header !== undefined) {
    expectHeader('MCP-Protocol-Version', header, named);
  }
  const known = named === undefined ? [...modernVersions, ...legacyVersions] : modernVersions;
  if (said !== undefined && !known.includes(said)) {
    throw new GatewayRefusal('unsupported_version', { requested: said });
  }
  const isModern = named !== undefined || (header !== undefined && modernVersions.includes(header));
  if (!isModern) return 'legacy';
  if (envelope.kind === 'request' && named === undefined) {
    throw new GatewayRefusal('bad_meta', {
      detail: 'params._meta names no io.modelcontextprotocol/protocolVersion',
    });
  }
  if (named !== undefined) expectHeader('MCP-Protocol-Version', header, named);
  expectHeader('Mcp-Method', single(headers['mcp-method']), envelope.method);
  const name = mirroredName(envelope);
  if (name !== undefined) expectHeader('Mcp-Name', decodeHeader(single(headers['mcp-name'])), name);
  return 'modern';
}

function expectHeader(name: string, header: string | undefined, body: string | undefined): void {
  if (header !== undefined && header === body) return;
  const problem = header === undefined ? 'is missing' : 'differs from the body';
  throw new GatewayRefusal('header_mismatch', { detail: `the header ${name} ${problem}` });
}

/** A header value as text: `=?base64?…?=` stands for what a header cannot carry as it is. */
export function decodeHeader(value: string | undefined): string | undefined {
  const encoded = value === undefined ? undefined : /^=\?base64\?(.*)\?=$/i.exec(value)?.[1];
  return encoded === undefined ? value : Buffer.from(encoded, 'base64').toString('utf8');
}

/** The inverse of `decodeHeader`. */
export function encodeHeader(value: string): string {
  const fits = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value);
  return fits && !value.startsWith('=?')
    ? value
    : `=?base64?${Buffer.from(value).toString('base64')}?=`;
}

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}
