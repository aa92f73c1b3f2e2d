import type { Clock } from '#clock/clock';
import {
  modernVersion,
  readMessage,
  stringAt,
  textAt,
  type Message,
  answerTo,
} from 'latchkey-mcp/raw-message';
import { madeMessage, withMember } from './messages.ts';
import { listKinds, type ListMethod } from './list-methods.ts';
import type { SignInPage } from '#auth/sign-in-service';
import type { PersonSignIn, Elicited, OwnTool } from './sign-in-page.ts';

/** Answers in place of a server that cannot be used. This file is loaded only then. */

/** The legacy protocol versions, newest first. */
const revisions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

/** The handshake of the last run. It announces notifications of changes, because the lists may change. */
export function cachedHandshake(cached: Message, { tools }: { tools: boolean }): Message {
  let { bytes } = cached;
  for (const kind of listKinds)
    if (textAt(cached, 'result', 'capabilities', kind) !== undefined || (tools && kind === 'tools'))
      bytes = withMember(bytes, ['result', 'capabilities', kind, 'listChanged'], 'true');
  return withoutLifetime(readMessage(bytes));
}

/** A handshake for a server that never answered. It promises every kind of list. */
export function madeHandshake(initialize: Message, name: string, instructions: string): Message {
  const asked = stringAt(initialize, 'params', 'protocolVersion');
  const protocolVersion = revisions.find((one) => one === asked) ?? revisions[0];
  const capabilities = Object.fromEntries(listKinds.map((kind) => [kind, { listChanged: true }]));
  const serverInfo = { name, version: 'unknown' };
  return madeMessage({
    id: 0,
    result: { protocolVersion, capabilities, serverInfo, instructions },
  });
}

/** A list without entries. */
export function emptyList(request: Message, { member }: ListMethod): Message {
  const era =
    modernVersion(request) === undefined
      ? {}
      : { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
  return madeMessage({ id: 0, result: { ...era, [member]: [] } });
}

/** The list of the last run, with a time to live of 0. */
export function cachedList(cached: Message): Message {
  return withoutLifetime(cached);
}

/** Adds one of our own tools at the start of a list of tools, unless the server has a tool with that name. */
export function withOwnTool(list: Message, own: OwnTool, subject: ToolSubject): Message {
  const tools = textAt(list, 'result', 'tools') ?? '[]';
  const others: { name?: unknown }[] = JSON.parse(tools);
  if (others.some(({ name }) => name === own)) return list;
  const tool = JSON.stringify(ownTools[own].described(subject));
  const inner = tools.slice(1, -1).trim();
  const all = `[${inner === '' ? tool : `${tool},${inner}`}]`;
  return readMessage(withMember(list.bytes, ['result', 'tools'], all));
}

function withoutLifetime(cached: Message): Message {
  if (textAt(cached, 'result', 'ttlMs') === undefined) return cached;
  return readMessage(withMember(cached.bytes, ['result', 'ttlMs'], '0'));
}

export type ToolSubject = { name: string; url: string };

/** The tool that a person signs in with, listed while sign-in is required. */
export const signInTool = {
  name: 'sign_in',
  described: ({ name, url }: ToolSubject) => ({
    name: signInTool.name,
    title: `Sign in to ${name}`,
    description: `The user is not signed in to ${name} (${url}) on this computer, so its tools cannot be used yet. Call this tool so that they can sign in with the browser. Afterwards, continue with the original task.`,
    inputSchema: { type: 'object', properties: {}, additionalProperties: false },
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true },
  }),
};

/** The tool that returns the page for a person whose account or key the server asks for. */
const connectTool = {
  name: 'connect_account',
  described: ({ name, url }: ToolSubject) => ({
    name: connectTool.name,
    title: `Connect your account of ${name}`,
    description: `${name} (${url}) needs the user's own account or key, so its tools cannot be used yet. Call this tool for the page on which the user connects or enters it. Afterwards, continue with the original task.`,
    inputSchema: { type: 'object', properties: {}, additionalProperties: false },
    annotations: { readOnlyHint: true },
  }),
};

const ownTools = { sign_in: signInTool, connect_account: connectTool } as const satisfies Record<
  OwnTool,
  object
>;

/** The instructions in the handshake of a server that the assistant cannot use yet. */
export function instructionsFor(own: OwnTool | undefined, name: string): string {
  switch (own) {
    case 'sign_in':
      return `The user is not signed in to ${name} yet. Call the tool sign_in so that they can sign in; the server's own tools appear afterwards.`;
    case 'connect_account':
      return `${name} needs the user's own account or key. Call the tool connect_account for the page on which they connect or enter it; the server's own tools appear afterwards.`;
    case undefined:
      return `${name} cannot be reached at the moment. The connection is retried automatically, and the tools appear when it succeeds.`;
  }
}

/** The answer to a call of `connect_account`. `asked`: the server's request to the person. `problem`: why the server is unusable. */
export function connectAnswer(
  request: Message,
  name: string,
  { asked, problem }: { asked?: string | undefined; problem?: string | undefined },
): Message {
  if (asked !== undefined) return toolResult(request, askingFor(name, asked));
  if (problem !== undefined) return toolResult(request, problem, true);
  const ready = `Nothing is missing for ${name}. Its tools are available now; continue with the original task.`;
  return toolResult(request, ready);
}

/** The text that passes a server's request for an account or a key on to the person. */
function askingFor(name: string, asked: string): string {
  return `${name} asks the user: ${asked}\nGive them this address. The tools of ${name} appear automatically afterwards.`;
}

type OfferSignInPorts = {
  name: string;
  signInService: PersonSignIn;
  /** Lets a legacy assistant show the page; `undefined` if it cannot. */
  elicit: ((page: SignInPage, text: string) => Promise<Elicited>) | undefined;
  /** Checks whether the server can be used now. */
  reached: () => Promise<boolean>;
  /** The message with which the server asks the person for an account or a key; `undefined` if it does not ask. */
  asked: () => string | undefined;
  /** Describes a failure, with its remedy. */
  explain: (error: unknown) => string;
  clock: Clock;
  signal: AbortSignal;
};

/** Less than the minute after which assistants give up. */
const signInTimeoutMs = 45_000;

/**
 * The answer to a call of `sign_in`. The assistant shows the page if it can (URL elicitation, MCP 2025-11-25 and
 * 2026-07-28). Otherwise the page opens in the browser if `--sign-in` allows that. Otherwise the answer contains its URL. An
 * open page is not opened a second time.
 */
export async function offerSignIn(request: Message, ports: OfferSignInPorts): Promise<Message> {
  const { name, signInService, elicit, reached, asked, explain, clock, signal } = ports;
  const modern = modernVersion(request) !== undefined;
  const reply = (text: string, isError = false) => toolResult(request, text, isError);
  const ready = `You are signed in to ${name}. Its tools are available now; continue with the original task.`;
  const failed = `The sign-in to ${name} was not completed. Call sign_in again, or run in a terminal: ${signInService.command}`;

  if (await reached()) return reply(ready);
  const prompt = `Sign in to ${name} with the browser`;
  const handed = elicit !== undefined || (modern && takesPages(request));
  let page: SignInPage | undefined;
  try {
    page = await signInService.begin(handed);
  } catch (error) {
    return reply(explain(error), true);
  }
  if (!page) {
    if (await reached()) return reply(ready);
    return reply(
      `A sign-in to ${name} is open in another window. Complete it there; the tools then appear automatically.`,
    );
  }
  if (handed && !page.opened) {
    const action = elicit ? await elicit(page, prompt) : response(request);
    if (action === undefined) return inputRequired(request, page, prompt);
    if (action !== 'accept') {
      page.giveUp();
      return reply(failed, true);
    }
    page.opened = true;
  }
  const link = `Sign-in page: ${page.link().href}\nAlternatively, run in a terminal: ${signInService.command}\nThe tools of ${name} appear automatically after the sign-in.`;
  if (!page.opened && !handed)
    return reply(
      `To sign in to ${name}, open the sign-in page in a browser on this computer. ${link}`,
    );
  const ended = new AbortController();
  const outcome = await Promise.race([
    page.done,
    clock.sleep(signInTimeoutMs, AbortSignal.any([ended.signal, signal])).then(() => undefined),
  ]);
  ended.abort();
  if (outcome === undefined) return reply(`The browser shows the sign-in page of ${name}. ${link}`);
  if (!outcome) return reply(failed, true);
  if (await reached()) return reply(ready);
  const problem = asked();
  if (problem !== undefined) return reply(`You are signed in. ${askingFor(name, problem)}`);
  return reply(
    `You are signed in to ${name}, but it cannot be reached. The connection is retried automatically.`,
  );
}

/** Whether a modern assistant can show pages. */
function takesPages(request: Message): boolean {
  const key = 'io.modelcontextprotocol/clientCapabilities';
  return textAt(request, 'params', '_meta', key, 'elicitation', 'url') !== undefined;
}

function response(request: Message): Elicited | undefined {
  const action = stringAt(request, 'params', 'inputResponses', 'sign_in', 'action');
  if (action === undefined) return undefined;
  return action === 'accept' || action === 'decline' ? action : 'cancel';
}

function inputRequired(request: Message, page: SignInPage, text: string): Message {
  const params = { mode: 'url', message: text, url: page.link().href };
  const inputRequests = { sign_in: { method: 'elicitation/create', params } };
  return answered(request, { resultType: 'input_required', inputRequests });
}

/** A tool result, because assistants show it to the model, unlike a JSON-RPC error. */
export function toolResult(request: Message, text: string, isError = false): Message {
  return answered(request, {
    ...(modernVersion(request) !== undefined && { resultType: 'complete' }),
    content: [{ type: 'text', text }],
    ...(isError && { isError }),
  });
}

function answered({ id = 'null' }: Message, value: object): Message {
  return answerTo(id, madeMessage({ id: 0, result: value }));
}
