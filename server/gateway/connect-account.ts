import { createHash } from 'node:crypto';

import { z } from 'zod';

import type { Era } from 'latchkey-mcp/headers';
import { changedObject, memberIn, replaced } from 'latchkey-mcp/json-edit';
import { type Message, readMessage } from 'latchkey-mcp/message';
import { GatewayRefusal, type RefusalDetails } from './gateway-refusal.ts';
import { jsonAnswer } from './reply.ts';
import type { GatewayAnswer } from './request.ts';

interface AccountError {
  /**
   * 200, because this is about an account at another server and must not look like a refusal of the caller's own
   * credential.
   */
  readonly status: 200;
  readonly code: number;
  readonly message: string;
  readonly data?: object;
  /** Whether the caller of a tool gets the message as the result of the tool. */
  readonly isForTheModel: boolean;
}

/**
 * The errors when the MCP server requires an account or a key of the person who calls. A caller that can show a URL is asked to
 * open the page where the person connects the account or enters the key. MCP 2025-11-25 elicitation, "URL Elicitation Required Error"
 */
export const accountErrors = {
  not_connected: ({ page = '', showsUrls }: RefusalDetails) => {
    const message = `connect your account for this MCP server first: open ${page}`;
    return askedFor('not_connected', message, { page, showsUrls });
  },
  key_missing: ({ page = '', showsUrls }: RefusalDetails) => {
    const message = `enter your own key for this MCP server first: open ${page}`;
    return askedFor('key_missing', message, { page, showsUrls });
  },
  key_refused: ({ page = '' }: RefusalDetails) =>
    forTheModel(`this MCP server refused your key: enter a new one at ${page}`),
  no_person: () =>
    forTheModel(
      'this MCP server requires a personal account or key: sign in as a person instead of using an API key or a client secret',
    ),
  upstream_scope: ({ page = '' }: RefusalDetails) =>
    forTheModel(
      `your account has too few permissions at this MCP server: connect it again at ${page}, or ask an administrator to request more scopes`,
    ),
  upstream_token: ({ page = '' }: RefusalDetails) =>
    forTheModel(
      `this MCP server refused your account: connect it again at ${page}, or ask an administrator to check the upstream authentication`,
    ),
};

function askedFor(
  code: 'not_connected' | 'key_missing',
  message: string,
  { page, showsUrls }: { readonly page: string; readonly showsUrls: boolean | undefined },
): AccountError {
  if (!showsUrls) return forTheModel(message);
  const elicitations = [{ ...connectElicitation(code, page), elicitationId: idOf(page) }];
  return { status: 200, code: -32042, message, data: { elicitations }, isForTheModel: false };
}

function forTheModel(message: string): AccountError {
  return { status: 200, code: -32000, message, isForTheModel: true };
}

/**
 * Whether a message calls a tool and expects its result. A task-augmented call does not, because it is answered with a task.
 *
 * MCP 2025-11-25 tasks, "Task-Augmented Requests"
 */
export function awaitsToolResult({ body, envelope }: Message): boolean {
  const { method, id, params } = envelope;
  if (method !== 'tools/call' || id === undefined) return false;
  return !params || memberIn(body, params, 'task') === undefined;
}

/** A failed tool's result, as JSON text: unlike errors, assistants show it to the model, and so to the person. */
export function failedTool(message: string, era: Era): string {
  return JSON.stringify({
    ...(era === 'modern' && { resultType: 'complete' }),
    content: [{ type: 'text', text: message }],
    isError: true,
  });
}

/** The key under which a modern caller gets the request to connect an account, and returns the response. */
const connectRequestKey = 'latchkey-connect';

/** The request to show a person the page on which they connect their account or enter their key. */
function connectElicitation(code: 'not_connected' | 'key_missing', page: string) {
  const message =
    code === 'key_missing'
      ? 'Enter your own key for the MCP server, then try again.'
      : 'Connect your account at the MCP server, then try again.';
  return { mode: 'url', url: page, message } as const;
}

function idOf(page: string): string {
  return createHash('sha256').update(page).digest('base64url').slice(0, 22);
}

/** Methods whose result may ask for input first. MCP 2026-07-28, "Multi Round-Trip Requests" */
const mayAsk: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);

/**
 * The answer for a caller whose person has not connected an account or entered a key: a request to open the page if the caller
 * supports that; any other error is rethrown. With `inSession`, the caller announced this when its session began. The caller hands
 * `requestState` back when it tries again.
 *
 * @throws {GatewayRefusal}
 */
export function askForAccount(
  error: unknown,
  { body, envelope }: Message,
  {
    era,
    inSession = false,
    requestState,
  }: { era: Era; inSession?: boolean | undefined; requestState: string },
): GatewayAnswer {
  if (!(error instanceof GatewayRefusal)) throw error;
  const { code, details } = error;
  if (code !== 'not_connected' && code !== 'key_missing') throw error;
  const showsUrls = inSession || saysItShowsUrls(body);
  if (era === 'legacy') throw new GatewayRefusal(code, { ...details, showsUrls });
  if (!showsUrls || !mayAsk.has(envelope.method ?? '') || envelope.id === undefined) throw error;
  const params = connectElicitation(code, details.page ?? '');
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
  const given = memberIn(body, params, 'inputResponses');
  if (!given || !memberIn(body, given, connectRequestKey)) return { body, envelope };
  const rest = changedObject(body, given, { [connectRequestKey]: undefined });
  const edit =
    rest === '{}'
      ? { span: params, text: changedObject(body, params, { inputResponses: undefined }) }
      : { span: given, text: rest };
  return readMessage(replaced(body, [edit])) ?? { body, envelope };
}
