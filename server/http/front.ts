import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

import proxyAddress from '@fastify/proxy-addr';
import { modernVersions } from 'latchkey-mcp/headers';

import type { Awaitable } from '#model/awaitable';
import { readTogether } from '#db/prepared-query';
import type { Gateway } from '#gateway/gateway';
import type { GatewayAnswer } from '#gateway/request';
import type { Log } from '#log/log';
import { breakOff } from './closed-response.ts';
import { IncomingCall } from './incoming-call.ts';
import { mcpRoutePath } from './mcp-route.ts';
import { sendAnswer } from './send-answer.ts';
import { maxFormBytes, tokenAnswer, type TokenAnswerOptions, tokenPath } from './token-answer.ts';

export interface FrontOptions extends TokenAnswerOptions {
  readonly gateway: Pick<Gateway, 'answer' | 'together'>;
  readonly maxBodyBytes: number;
  readonly trustedProxies: readonly string[];
  readonly log: Log;
  /** The checks that apply to every request. */
  readonly isRefused: (request: IncomingMessage) => boolean;
  readonly isOwnHost: (host: string | undefined) => boolean;
  /** Handles everything unusual. */
  readonly framework: (request: IncomingMessage, response: ServerResponse) => void;
  /** Whether only calls that need no session and no stream are ordinary. */
  readonly isStateless?: boolean;
}

/** A request that waits for the others of its event loop turn. */
interface Waiting {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly startedAt: number;
}

interface WaitingCall extends Waiting {
  readonly organization: string;
  readonly server: string;
}

const slug = '([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)';
const endpoint = new RegExp(`^/mcp/${slug}/${slug}$`);
const ordinaryForm = /^application\/x-www-form-urlencoded(?:; ?charset=utf-8)?$/i;

/**
 * Answers ordinary MCP calls and token requests without the framework, which costs as much as everything else done for
 * them. Ordinary means a POST with the canonical path and our own host, and not from a web page. A token request must also
 * be a form that has arrived completely by the end of the turn, with the head. Anything unusual goes untouched through the
 * framework, whose routes call the same functions.
 *
 * The requests of one turn of the event loop are handled together at its end. By then their bodies have usually arrived,
 * so they can be read synchronously.
 */
export class Front {
  readonly #options: FrontOptions;
  readonly #addressOf: (request: IncomingMessage) => string | undefined;
  #isClosing = false;
  #calls: WaitingCall[] = [];
  #tokenRequests: Waiting[] = [];
  /** Sends what was answered in this turn. */
  #ready: (() => void)[] = [];
  readonly #elsewhere = new WeakSet<ServerResponse>();

  constructor(options: FrontOptions) {
    this.#options = options;
    const { trustedProxies } = options;
    const trusts = proxyAddress.compile([...trustedProxies]);
    this.#addressOf =
      trustedProxies.length === 0
        ? ({ socket }) => socket.remoteAddress
        : (request) => proxyAddress(request, trusts);
  }

  /** Leaves everything to the framework from now on, which tells callers that the server is stopping. */
  close(): void {
    this.#isClosing = true;
  }

  /** Handles a request, now or at the end of the turn. */
  receive(request: IncomingMessage, response: ServerResponse): void {
    if (!this.#isOrdinary(request)) return this.#options.framework(request, response);
    const { url = '', headers } = request;
    const isTokenRequest = url === tokenPath && ordinaryForm.test(headers['content-type'] ?? '');
    const place = isTokenRequest ? undefined : endpoint.exec(url);
    const isOurs = isTokenRequest || (place && !(this.#options.isStateless && needsState(request)));
    if (!isOurs) return this.#options.framework(request, response);
    if (this.#calls.length + this.#tokenRequests.length === 0) {
      setImmediate(() => this.#answerWaiting());
    }
    const waiting = { request, response, startedAt: performance.now() };
    if (!place) return void this.#tokenRequests.push(waiting);
    const [, organization = '', server = ''] = place;
    this.#calls.push({ ...waiting, organization, server });
  }

  #isOrdinary(request: IncomingMessage): boolean {
    const { method, headers } = request;
    if (method !== 'POST' || this.#isClosing || headers.origin !== undefined) return false;
    const { trustedProxies, isRefused, isOwnHost } = this.#options;
    // The framework's route warns the operator about this header if no proxy is trusted.
    const isProxied = headers['x-forwarded-for'] !== undefined;
    if (isProxied && trustedProxies.length === 0) return false;
    return isOwnHost(headers.host) && !isRefused(request);
  }

  #answerWaiting(): void {
    const calls = this.#calls;
    const tokenRequests = this.#tokenRequests;
    this.#calls = [];
    this.#tokenRequests = [];
    if (tokenRequests.length > 0) {
      readTogether(this.#options.ports.db, () => {
        for (const waiting of tokenRequests) this.#answerTokenRequest(waiting);
      });
    }
    if (calls.length === 0) return;
    this.#options.gateway.together(() => {
      for (const call of calls) this.#answerCall(call);
    });
  }

  #answerCall(call: WaitingCall): void {
    const { request, response, organization, server } = call;
    const { gateway, maxBodyBytes } = this.#options;
    const id = randomUUID();
    const closed = this.#logLine(call, id, mcpRoutePath);
    if (response.closed) return closed();
    const address = this.#addressOf(request);
    const details = { id, organization, server, maxBodyBytes, address, closed };
    this.#send(call, id, () => gateway.answer(new IncomingCall(request, response, details)));
  }

  #answerTokenRequest(waiting: Waiting): void {
    const { request, response } = waiting;
    const isReadable = request.complete && request.readableLength <= maxFormBytes;
    if (!response.closed && !isReadable) return this.#options.framework(request, response);
    const id = randomUUID();
    const closed = this.#logLine(waiting, id, tokenPath);
    if (response.closed) return closed();
    response.once('close', closed);
    const ip = this.#addressOf(request) ?? '';
    const body: Buffer | null = request.read();
    this.#send(waiting, id, () => tokenAnswer({ id, ip, raw: request, body }, this.#options));
  }

  /** Writes the log line of a request whose response is closed. */
  #logLine({ response, startedAt }: Waiting, id: string, route: string): () => void {
    return () => {
      if (this.#elsewhere.has(response)) return;
      const { headersSent, statusCode, writableFinished } = response;
      this.#options.log.callEnded({
        id,
        method: 'POST',
        route,
        status: headersSent ? statusCode : undefined,
        ms: Math.round(performance.now() - startedAt),
        isCut: !writableFinished,
      });
    };
  }

  #send(
    { request, response }: Waiting,
    id: string,
    answerOf: () => Awaitable<GatewayAnswer>,
  ): void {
    const broken = (err: unknown) => {
      this.#options.log.error({ err }, 'an answer could not be sent');
      breakOff(response);
    };
    const send = (answer: GatewayAnswer) => {
      try {
        if (answer.isElsewhere) {
          this.#elsewhere.add(response);
          return this.#options.framework(request, response);
        }
        sendAnswer(response, answer, ['X-Request-Id', id])?.catch(broken);
      } catch (err) {
        broken(err);
      }
    };
    try {
      const answer = answerOf();
      if (answer instanceof Promise) answer.then((made) => this.#soon(() => send(made)), broken);
      else send(answer);
    } catch (err) {
      broken(err);
    }
  }

  /** Sends the answers that become ready in a turn together at its end: each alone wakes its reader while others are made. */
  #soon(send: () => void): void {
    if (this.#ready.push(send) > 1) return;
    setImmediate(() => {
      for (const act of this.#ready.splice(0)) act();
    });
  }
}

/** Whether a call may belong to a session or listen. A modern call names its method in a header, which its body must repeat. */
function needsState({ headers }: IncomingMessage): boolean {
  const version = headers['mcp-protocol-version'];
  const isModern = typeof version === 'string' && modernVersions.includes(version);
  return (
    !isModern ||
    headers['mcp-session-id'] !== undefined ||
    headers['mcp-method'] === 'subscriptions/listen'
  );
}
