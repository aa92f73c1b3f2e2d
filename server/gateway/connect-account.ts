import { createHash } from 'node:crypto';

import { z } from 'zod';

import type { Era } from 'latchkey-mcp/headers';
import { membersIn, replaced } from 'latchkey-mcp/json-edit';
import { type Envelope, scanMessage } from 'latchkey-mcp/message';
import { GatewayRefusal, type RefusalDetails } from './gateway-refusal.ts';
import { jsonAnswer } from './reply.ts';
import type { GatewayAnswer } from './request.ts';
import type { MessageCall } from './call.ts';

export interface AccountError {
  /**
   * 200, because this is about an account at another server and must not look like a refusal of the caller's own
   * credential.
   */
  readonly status: 200;
  readonly code: number;
  readonly message: string;
  readonly data?: object;
}

/**
 * The error when the MCP server requires an account of the person who calls. A caller that can show a URL is asked to
 * open the page where the person connects one. MCP 2025-11-25 elicitation, "URL Elicitation Required Error"
 */
export function accountError(
  code: 'not_connected' | 'no_person' | 'upstream_scope' | 'upstream_token',
  { page = '', showsUrls = false }: RefusalDetails,
): AccountError {
  switch (code) {
    case 'not_connected': {
      const message = `connect your account for this MCP server first: open ${page}`;
      if (!showsUrls) return { status: 200, code: -32000, message };
      const elicitations = [{ ...connectElicitation(page), elicitationId: idOf(page) }];
      return { status: 200, code: -32042, message, data: { elicitations } };
    }
    case 'no_person':
      return {
        status: 200,
        code: -32000,
        message:
          'this MCP server requires a personal account: sign in as a person instead of using an API key or a client secret',
      };
    case 'upstream_scope':
      return {
        status: 200,
        code: -32000,
        message: `your account has too few permissions at this MCP server: connect it again at ${page}, or ask an administrator to request more scopes`,
      };
    case 'upstream_token':
      return {
        status: 200,
        code: -32000,
        message: `this MCP server refused your account: connect it again at ${page}, or ask an administrator to check the upstream authentication`,
      };
  }
}

/** The key under which a modern caller gets the request to connect an account, and returns the response. */
export const connectRequestKey = 'latchkey-connect';

/** The request to show a person the page on which they connect their account. */
export function connectElicitation(page: string) {
  const message = 'Connect your account at the MCP server, then try again.';
  return { mode: 'url', url: page, message } as const;
}

function idOf(page: string): string {
  return createHash('sha256').update(page).digest('base64url').slice(0, 22);
}

/** Methods whose result may ask for input first. MCP 2026-07-28, "Multi Round-Trip Requests" */
const mayAsk: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);

/**
 * The answer for a caller whose person has not connected an account: a request to open the page if the caller
 * supports that; any other error is rethrown. In a session, the capability was announced at its start. The caller hands
 * `requestState` back when it tries again.
 *
 * @throws {GatewayRefusal}
 */
export function askForAccount(
  error: unknown,
  { body, envelope }: Pick<MessageCall, 'body' | 'envelope'>,
  {
    era,
    inSession = false,
    requestState,
  }: { era: Era; inSession?: boolean | undefined; requestState: string },
): GatewayAnswer {
  if (!(error instanceof GatewayRefusal) || error.code !== 'not_connected') throw error;
  const { details } = error;
  const showsUrls = inSession || saysItShowsUrls(body);
  if (era === 'legacy') throw new GatewayRefusal('not_connected', { ...details, showsUrls });
  if (!showsUrls || !mayAsk.has(envelope.method ?? '') || envelope.id === undefined) throw error;
  const params = connectElicitation(details.page ?? '');
  const result = JSON.stringify({
    resultType: 'input_required',
    inputRequests: { [connectRequestKey]: { method: 'elicitation/create', params } },
    requestState,
  });
  return jsonAnswer(200, `{"jsonrpc":"2.0","id":${envelope.id},"result":${result}}`);
}

const capabilities = z.object({ elicitation: z.object({ url: z.looseObject({}) }) });
const saying = z.object({
  params: z.union([
    z.object({ capabilities }),
    z.object({ _meta: z.object({ 'io.modelcontextprotocol/clientCapabilities': capabilities }) }),
  ]),
});

/** Whether a message says that its sender can show a URL. The body has been scanned strictly. */
export function saysItShowsUrls(body: Uint8Array): boolean {
  return saying.safeParse(JSON.parse(Buffer.from(body).toString('utf8'))).success;
}

interface Message {
  readonly body: Buffer;
  readonly envelope: Envelope;
}

/**
 * A retry without the response to our own request to connect an account, because the upstream did not make that request
 * and must not see the response. If it was the only response, `inputResponses` is removed, too. All other values keep
 * their bytes.
 *
 * MCP 2026-07-28 "Multi Round-Trip Requests"
 */
export function withoutConnectResponse({ body, envelope }: Message): Message {
  const { params } = envelope;
  if (!params || !body.includes(connectRequestKey)) return { body, envelope };
  const given = membersIn(body, params).get('inputResponses');
  const responses = given && membersIn(body, given);
  if (!given || !responses?.delete(connectRequestKey)) return { body, envelope };
  const rest = membersIn(body, params);
  if (responses.size === 0) rest.delete('inputResponses');
  const edit =
    responses.size === 0
      ? { span: params, text: objectOf(body, rest) }
      : { span: given, text: objectOf(body, responses) };
  const stripped = replaced(body, [edit]);
  const scan = scanMessage(stripped);
  return scan.outcome === 'message'
    ? { body: stripped, envelope: scan.envelope }
    : { body, envelope };
}

function objectOf(body: Buffer, members: ReturnType<typeof membersIn>): string {
  const texts = [...members].map(
    ([name, { start, end }]) => `${JSON.stringify(name)}:${body.toString('utf8', start, end)}`,
  );
  return `{${texts.join(',')}}`;
}
