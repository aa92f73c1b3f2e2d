import type { IncomingHttpHeaders } from 'node:http';

import type { Era } from 'latchkey-mcp/headers';
import type { Span } from 'latchkey-mcp/json';
import { memberIn, memberNames, valuesOf } from 'latchkey-mcp/json-edit';
import { membersOf } from 'latchkey-mcp/json-value';
import type { Envelope } from 'latchkey-mcp/message';
import type { AnnouncedApplication } from '#model/calls';
import { LimitedMap } from '#model/limited-map';
import { ownerOf } from './admission.ts';

/** A message as its caller sent it, and the result of its scan. */
export interface ReadMessage {
  readonly envelope: Envelope;
  readonly era: Era;
  readonly received: Buffer;
}

/** The application of a session, if the session knows it. */
export interface Announcing {
  readonly application?: string | undefined;
}

const clientInfo = memberNames('io.modelcontextprotocol/clientInfo');
/** A `clientInfo` only states a name and a version, so longer ones are ignored. */
const maxClientInfoBytes = 2048;
const maxKnown = 500;
const maxCallers = 5000;
const maxAgentLength = 500;

/** The sender of a request: a principal at an endpoint. Not a client, because several people may use one client. */
export interface ApplicationCaller {
  readonly principal: string;
  readonly endpoint: { readonly id: string };
}

/** The application that a caller announced when it connected to a server that opens no session. */
interface Initialized {
  readonly agent: string | undefined;
  readonly announced: AnnouncedApplication;
}

/** Finds out which applications call. Each call of the modern era repeats its `clientInfo`, so what was parsed is cached. */
export class Applications {
  /** By the bytes of `clientInfo`. */
  readonly #known = new LimitedMap<string, AnnouncedApplication | null>(maxKnown);

  /** By principal and endpoint. */
  readonly #initialized = new LimitedMap<string, Initialized>(maxCallers);

  /**
   * The application that a request announces: in its message, with its session, with the last `initialize` of this caller with
   * this `User-Agent`, or in the `User-Agent` header.
   */
  of(
    headers: IncomingHttpHeaders,
    message: ReadMessage | undefined,
    session: Announcing | undefined,
    caller?: ApplicationCaller,
  ): AnnouncedApplication | undefined {
    const announced = message && this.#announcedBy(message);
    if (announced) return announced;
    const text = session?.application;
    if (text !== undefined) return { text, source: 'client_info' };
    const agent = headers['user-agent'];
    const initialized = caller && this.#initializedBy(caller, agent, message);
    if (initialized) return initialized;
    return agent === undefined ? undefined : { text: agent, source: 'user_agent' };
  }

  /** If a server opens no session, only `initialize` names the application. */
  #initializedBy(
    { principal, endpoint }: ApplicationCaller,
    agent: string | undefined,
    message: ReadMessage | undefined,
  ): AnnouncedApplication | undefined {
    const caller = ownerOf(principal, endpoint.id);
    if (message?.envelope.method !== 'initialize') {
      const known = this.#initialized.get(caller);
      return known?.agent === agent ? known?.announced : undefined;
    }
    const text = applicationIn(message.received, message.envelope);
    if (text === undefined) return undefined;
    const announced = { text, source: 'client_info' } as const;
    if ((agent?.length ?? 0) <= maxAgentLength) {
      this.#initialized.set(caller, { agent, announced });
    }
    return announced;
  }

  #announcedBy({ envelope, received }: ReadMessage): AnnouncedApplication | null {
    // The spans of the envelope are positions in `received`, from which it was scanned.
    const [info] = envelope.meta ? valuesOf(received, envelope.meta, clientInfo) : [];
    if (!info || info.end - info.start > maxClientInfoBytes) return null;
    const bytes = received.toString('latin1', info.start, info.end);
    const known = this.#known.get(bytes);
    if (known !== undefined) return known;
    const text = announcedIn(received, info);
    const announced = text === undefined ? null : ({ text, source: 'client_info' } as const);
    this.#known.set(bytes, announced);
    return announced;
  }
}

/** Name and version of the application that sends `initialize`, copied out of the message. */
export function applicationIn(body: Buffer, { params }: Envelope): string | undefined {
  const info = params && memberIn(body, params, 'clientInfo');
  return info && announcedIn(body, info);
}

/**
 * Name and version of an application from its `clientInfo`; `undefined` if it has no name.
 *
 * MCP 2025-11-25 `Implementation`
 */
function announcedIn(body: Buffer, { start, end }: Span): string | undefined {
  if (end - start > maxClientInfoBytes) return undefined;
  const info = membersOf(JSON.parse(body.toString('utf8', start, end)));
  const { name, version } = info;
  if (typeof name !== 'string' || name === '') return undefined;
  return (typeof version === 'string' ? `${name} ${version}` : name).slice(0, 200);
}
