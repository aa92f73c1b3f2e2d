import { z } from 'zod';

import { allows } from '#model/tool-rights';
import { allScopes, methodScope, type Scope, subscriptionScope } from '#model/scopes';
import { mirroredMember } from 'latchkey-mcp/headers';
import type { Envelope } from 'latchkey-mcp/message';
import type { Admission } from './admission.ts';
import { GatewayRefusal } from './gateway-refusal.ts';

/**
 * Refuses what the caller's scopes do not cover, and what an upstream could read as a different request from the one
 * that was checked. Only the body counts, not the headers.
 *
 * @throws {GatewayRefusal} `unknown_method`, `insufficient_scope`, `hidden_tool`, `withheld_tool`, `bad_params`, `not_a_message`
 */
export function authorize(envelope: Envelope, body: Buffer, { scopes, rights }: Admission): void {
  const { method = '', name, params } = envelope;
  // Methods under `notifications/` are known, and need no scope, only in notifications.
  const isMisused = envelope.kind === 'request' && method.startsWith('notifications/');
  const needed = isMisused ? undefined : methodScope(method);
  if (needed === undefined) throw new GatewayRefusal('unknown_method', { detail: method });
  require(needed === 'any' ? [] : [needed], scopes);
  checkId(envelope);
  checkParams(envelope, body);
  if (method === 'subscriptions/listen') {
    require(listenedScopes(params && body.subarray(params.start, params.end)), scopes);
  }
  if (method !== 'tools/call' || name === undefined) return;
  const verdict = rights.verdict('tool', name);
  if (allows(verdict)) return;
  throw new GatewayRefusal(verdict === 'hidden' ? 'hidden_tool' : 'withheld_tool', {
    detail: name,
  });
}

function require(needed: readonly Scope[], granted: readonly Scope[]): void {
  if (needed.every((scope) => granted.includes(scope))) return;
  const union = allScopes.filter((scope) => granted.includes(scope) || needed.includes(scope));
  throw new GatewayRefusal('insufficient_scope', { scopes: union, detail: needed.join(' ') });
}

/** A request without an id gets no response, but an upstream may still execute it. MCP basic, "Notifications" */
function checkId({ kind, method = '' }: Envelope): void {
  if (kind !== 'notification' || method.startsWith('notifications/')) return;
  throw new GatewayRefusal('not_a_message', {
    detail: `${method} is a request and requires an id`,
  });
}

/**
 * Members that decisions depend on must have the expected type: an upstream that looks up a tool by `["drop"]` could
 * find the one called `drop`.
 */
function checkParams(envelope: Envelope, body: Buffer): void {
  const { method, params, notAString } = envelope;
  if (params && body[params.start] !== 0x7b) throw badParams('params must be an object');
  if (notAString) throw badParams(`params.${notAString} must be a string`);
  const needed = mirroredMember(method);
  if (needed && envelope[needed] === undefined) throw badParams(`params.${needed} is missing`);
}

function badParams(detail: string): GatewayRefusal {
  return new GatewayRefusal('bad_params', { detail });
}

const listenSchema = z.object({ notifications: z.record(z.string(), z.unknown()).optional() });

/** The scopes for the kinds of notification that a `subscriptions/listen` asks for. MCP 2026-07-28 */
function listenedScopes(params: Buffer | undefined): Scope[] {
  const read = listenSchema.safeParse(JSON.parse(params?.toString('utf8') ?? '{}'));
  if (!read.success) {
    throw badParams('params.notifications must be an object');
  }
  return Object.keys(read.data.notifications ?? {}).map((kind) => {
    const scope = subscriptionScope(kind);
    if (scope) return scope;
    throw badParams(`notifications.${kind.slice(0, 40)} is unknown`);
  });
}
