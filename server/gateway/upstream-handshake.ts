/*
 * Finds out which era an upstream speaks, by `server/discover`, which only the modern era knows. Opens a session with a
 * legacy upstream, by `initialize` and `notifications/initialized`.
 */
import type { EndSignal } from '#model/ending';
import { legacyVersions, postHeaders } from 'latchkey-mcp/headers';
import { changedObject } from 'latchkey-mcp/json-edit';
import { type Message, messageOf, stringAt, valueAt } from 'latchkey-mcp/message';
import {
  type ClientDescription,
  clientRequests,
  metaOf,
  modernVersion,
} from 'latchkey-mcp/translation';
import { carriesMessages, maxKeptBytes, messagesOf, modernPost } from './adapter-messages.ts';
import { discardAnswer, endFailedHandshake, failure, failureOfStatus } from './answers.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import type { Upstream, UpstreamAnswer } from './upstream.ts';

const timeoutMs = 30_000;

/** The client description when the gateway makes requests of its own. */
export const gatewayClient: ClientDescription = {
  capabilities: '{}',
  clientInfo: JSON.stringify({ name: 'latchkey-server', version: '1' }),
  logLevel: undefined,
};

/** Whether an upstream speaks `modernVersion`; `unclear` if it is busy, fails, or requires authentication first. */
export type Discovered =
  | { readonly outcome: 'modern'; readonly answer: Message }
  | { readonly outcome: 'refused' }
  | { readonly outcome: 'unclear'; readonly refusal: GatewayRefusal };

/**
 * Asks an upstream with `server/discover`.
 *
 * MCP 2026-07-28 server/discover
 *
 * @throws {UpstreamError} if the request fails
 */
export async function discover(
  upstream: Upstream,
  client: ClientDescription = gatewayClient,
  signal: EndSignal = AbortSignal.timeout(timeoutMs),
): Promise<Discovered> {
  const meta = changedObject(Buffer.alloc(0), undefined, metaOf(client));
  const request = messageOf(
    `{"jsonrpc":"2.0","id":"discover","method":"server/discover","params":{"_meta":${meta}}}`,
  );
  const answer = await upstream.send(modernPost(request, signal));
  if (!carriesMessages(answer)) {
    const refusal = await unclear(answer);
    return refusal ? { outcome: 'unclear', refusal } : { outcome: 'refused' };
  }
  const response = await responseIn(answer);
  const versions = response && valueAt(response, 'result', 'supportedVersions');
  const isModern = Array.isArray(versions) && versions.includes(modernVersion);
  return response && isModern ? { outcome: 'modern', answer: response } : { outcome: 'refused' };
}

/** An open handshake with a legacy upstream. */
export interface Handshake {
  readonly upstream: Upstream;
  readonly client: ClientDescription;
  /** The upstream's answer to `initialize`. */
  readonly initialized: Message;
  readonly protocolVersion: string;
  /** Absent if the upstream keeps no sessions. */
  readonly sessionId: string | undefined;
}

/** The outcome of `initialize`; `refusal` tells why the upstream opened no handshake of the legacy era. */
export type Initialized =
  | { readonly outcome: 'opened'; readonly handshake: Handshake }
  | { readonly outcome: 'refused'; readonly refusal: GatewayRefusal };

/**
 * Opens a handshake with `initialize`. `initializedNotification` completes it.
 *
 * MCP 2025-11-25 lifecycle
 *
 * @throws {UpstreamError} if the upstream cannot be reached
 * @throws {GatewayRefusal} the failure of an answer that says nothing about the era, or is too long
 */
export async function initialize(
  upstream: Upstream,
  client: ClientDescription = gatewayClient,
): Promise<Initialized> {
  const { capabilities, clientInfo = gatewayClient.clientInfo } = client;
  const params = `{"protocolVersion":"${legacyVersions[0]}","capabilities":${capabilities},"clientInfo":${clientInfo}}`;
  const answer = await upstream.send({
    method: 'POST',
    headers: postHeaders,
    body: Buffer.from(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`),
    signal: AbortSignal.timeout(timeoutMs),
  });
  const { sessionId } = answer;
  try {
    const initialized = await initializedIn(answer);
    const named = initialized && stringAt(initialized, 'result', 'protocolVersion');
    const protocolVersion = legacyVersions.find((version) => version === named);
    if (initialized && protocolVersion !== undefined) {
      const handshake = { upstream, client, initialized, protocolVersion, sessionId };
      return { outcome: 'opened', handshake };
    }
    await endFailedHandshake(upstream, answer);
    const isRefused = initialized !== undefined || answer.status !== 200;
    const detail = isRefused ? 'it refused the MCP handshake' : 'its response is not JSON-RPC';
    const code = initialized ? 'upstream_failed' : failureOfStatus(answer.status);
    return { outcome: 'refused', refusal: new GatewayRefusal(code, { detail }) };
  } catch (error) {
    await endFailedHandshake(upstream, answer);
    throw error;
  }
}

/** The methods of the questions that a client can answer. */
export function askableMethods({
  capabilities,
}: Pick<ClientDescription, 'capabilities'>): ReadonlySet<string> {
  const can: object = JSON.parse(capabilities);
  const answerable = [...clientRequests].filter(([, capability]) => Object.hasOwn(can, capability));
  return new Set(answerable.map(([method]) => method));
}

/** The headers of every request that follows `initialize`. */
export function handshakeHeaders({
  protocolVersion,
  sessionId,
}: Pick<Handshake, 'protocolVersion' | 'sessionId'>): Record<string, string> {
  return {
    'mcp-protocol-version': protocolVersion,
    ...(sessionId !== undefined && { 'mcp-session-id': sessionId }),
  };
}

/** The notification that completes a handshake. */
export const initializedNotification = '{"jsonrpc":"2.0","method":"notifications/initialized"}';

async function initializedIn(answer: UpstreamAnswer): Promise<Message | undefined> {
  if (!carriesMessages(answer)) {
    const refusal = await unclear(answer);
    if (refusal) throw refusal;
    return undefined;
  }
  const response = await responseIn(answer);
  if (!response || response.body.length <= maxKeptBytes) return response;
  throw new GatewayRefusal('upstream_too_large', {
    detail: `its answer to initialize has more than ${maxKeptBytes} bytes`,
  });
}

/** The refusal for an answer that says nothing about the era; `undefined` if it refuses the handshake. */
async function unclear(answer: UpstreamAnswer): Promise<GatewayRefusal | undefined> {
  const { status } = answer;
  await discardAnswer(answer);
  const isUnclear = status === 401 || status === 403 || status === 429 || status >= 500;
  return isUnclear ? failure(answer) : undefined;
}

async function responseIn(answer: UpstreamAnswer): Promise<Message | undefined> {
  for await (const message of messagesOf(answer, maxKeptBytes)) {
    if (message.envelope.kind === 'response') return message;
  }
  return undefined;
}
