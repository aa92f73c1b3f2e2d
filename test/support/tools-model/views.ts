// The requests to the gateway for each kind, and the parsers of its answers.

import { vi } from 'vitest';
import { z } from 'zod';

import { mcpCall, modern, rpc } from '../mcp-call.ts';
import { patient } from '../patient.ts';
import { type Credential, eventStream, legacySession } from '../talking-gateway.ts';
import { lists } from './model-server.ts';
import type { Kind } from './reference.ts';

/** A modern request, a legacy one without a session, and one in a session. */
export const ways = ['modern', 'plain', 'session'] as const;
export type Way = (typeof ways)[number];

/** The lists whose changes are announced. */
export const announced = ['tools', 'prompts', 'resources'] as const;
export type Announced = (typeof announced)[number];

export const argument = { name: 'x', value: '' };

/** The request that uses something. A template is used by completing it. */
export function use(kind: Kind, name: string): { method: string; params: Record<string, unknown> } {
  switch (kind) {
    case 'tool':
      return { method: 'tools/call', params: { name, arguments: {} } };
    case 'prompt':
      return { method: 'prompts/get', params: { name } };
    case 'template':
      return {
        method: 'completion/complete',
        params: { ref: { type: 'ref/resource', uri: name }, argument },
      };
    case 'resource':
      return { method: 'resources/read', params: { uri: name } };
  }
}

/** A caller with a session, and with a stream of each era that receives the announcements of changed lists. */
export class McpCaller {
  readonly #endpoint: string;
  readonly #credential: Credential;
  readonly #session: Readonly<Record<string, string>>;
  readonly #heard: Readonly<Record<'modern' | 'session', () => string>>;

  private constructor(
    endpoint: string,
    credential: Credential,
    session: Readonly<Record<string, string>>,
    heard: Readonly<Record<'modern' | 'session', () => string>>,
  ) {
    this.#endpoint = endpoint;
    this.#credential = credential;
    this.#session = session;
    this.#heard = heard;
  }

  static async open(endpoint: string, credential: Credential): Promise<McpCaller> {
    const session = await legacySession(endpoint, credential);
    const all = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
    const asked = modern('subscriptions/listen', { notifications: all });
    const [ofSession, ofModern] = await Promise.all([
      eventStream(endpoint, credential, { headers: session }),
      eventStream(endpoint, credential, asked),
    ]);
    return new McpCaller(endpoint, credential, session, {
      session: ofSession.text,
      modern: ofModern.text,
    });
  }

  /** Sends a request; the text of the answer. */
  async ask(way: Way, method: string, params: Record<string, unknown> = {}): Promise<string> {
    const asked = {
      modern: () => modern(method, params),
      plain: () => ({ body: rpc(method, params) }),
      session: () => ({ body: rpc(method, params), headers: this.#session }),
    }[way]();
    return (await mcpCall(this.#endpoint, { ...this.#credential, ...asked })).text;
  }

  /** The names on a list, in order of their characters. */
  async list(way: Way, kind: Kind): Promise<string[]> {
    const { method, member, key } = lists[kind];
    const text = await this.ask(way, method);
    const answer = z.object({ result: z.record(z.string(), z.unknown()) }).safeParse(jsonIn(text));
    const entries = z.array(record).parse(answer.data?.result[member] ?? []);
    return entries.map((entry) => String(entry[key])).toSorted();
  }

  /** Whether it may subscribe to changes of a resource, which a plain request cannot ask for. */
  async subscribes(way: Way, uri: string): Promise<boolean> {
    if (way === 'session') return isResult(await this.ask(way, 'resources/subscribe', { uri }));
    const notifications = { resourceSubscriptions: [uri] };
    const { body, headers } = modern('subscriptions/listen', { notifications });
    const stream = await eventStream(this.#endpoint, this.#credential, { body, headers });
    await vi.waitUntil(() => stream.text() !== '', patient);
    stream.leave();
    return stream.text().includes('acknowledged');
  }

  /** How often each stream was told that a list changed. */
  told(list: Announced): Readonly<Record<'modern' | 'session', number>> {
    const count = (text: string) => text.split(`notifications/${list}/list_changed`).length - 1;
    return { modern: count(this.#heard.modern()), session: count(this.#heard.session()) };
  }
}

const record = z.record(z.string(), z.unknown());

export function isResult(text: string): boolean {
  return text.includes('"result"');
}

/** The JSON of an answer, which may be an event. */
function jsonIn(text: string): unknown {
  return JSON.parse(text.startsWith('{') ? text : (/^data: (.+)$/m.exec(text)?.[1] ?? 'null'));
}

/** The lines of the page that checks a caller. */
export function linesOf(html: string): { name: string; isAllowed: boolean }[] {
  const [, list = ''] = /<ul class="rows checked">([\s\S]*?)<\/ul>/.exec(html) ?? [];
  return list.split('<li>').flatMap((line) => {
    const name = /<code[^>]*>([^<]+)<\/code>/.exec(line)?.[1];
    return name === undefined ? [] : [{ name, isAllowed: />Allowed</.test(line) }];
  });
}

/** The tools that the console offers, in order. */
export function consoleTools(html: string): string[] {
  return [...html.matchAll(/href="[^"]*\/try\?tool=([^"&]+)"/g)]
    .map(([, name = '']) => decodeURIComponent(name))
    .toSorted();
}
