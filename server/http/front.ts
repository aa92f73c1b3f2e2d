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
import { IncomingCall, type IncomingCallDetails } from './incoming-call.ts';
import { mcpRoutePath } from './mcp-route.ts';
import { sendAnswer } from './send-answer.ts';
import { maxFormBytes, tokenAnswer, type TokenAnswerOptions, tokenPath } from './token-answer.ts';

export interface FrontOptions extends TokenAnswerOptions {
  readonly gateway: Pick<Gateway, 'answer' | 'together'>;
  readonly maxBodyBytes: number;
  readonly trustedProxies: readonly string[];
  readonly log: Log;
  /** Whether a request fails the checks that apply to every request. */
  readonly isRefused: (request: IncomingMessage) => boolean;
  readonly isOwnHost: (host: string | undefined) => boolean;
  /** Handles unusual requests. */
  readonly framework: (request: IncomingMessage, response: ServerResponse) => void;
  /** Whether only calls that need no session and no stream are ordinary. */
  readonly isStateless?: boolean;
}

const slug = '([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)';
const endpoint = new RegExp(`^/mcp/${slug}/${slug}$`);
const ordinaryForm = /^application\/x-www-form-urlencoded(?:; ?charset=utf-8)?$/i;

/**
 * Answers ordinary MCP calls and token requests without the framework, which costs as much as everything else done for
 * them. Ordinary means a POST with the canonical path and the server's own host, and not from a web page. A token request
 * must also be a form, whose body has arrived completely by the end of the turn in which its head arrived. Anything
 * unusual goes untouched through the framework, whose routes call the same functions.
 *
 * The requests of one turn of the event loop are handled together at its end. By then their bodies have usually arrived,
 * so they can be read synchronously.
 */
export class Front {
  readonly #options: FrontOptions;
  readonly #addressOf: (request: IncomingMessage) => string | undefined;
  #isClosing = false;
  #calls: FrontCall[] = [];
  #tokenRequests: FrontRequest[] = [];
  /** The answers of this turn that are not sent yet. */
  #ready: Ready[] = [];

  constructor(options: FrontOptions) {
    this.#options = options;
    const { trustedProxies } = options;
    const trusts = proxyAddress.compile([...trustedProxies]);
    this.#addressOf =
      trustedProxies.length === 0
        ? ({ socket }) => socket.remoteAddress
        : (request) => proxyAddress(request, trusts);
  }

  /** From now on leaves everything to the framework, which tells callers that the server is stopping. */
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
    const { log } = this.#options;
    if (!place) {
      return void this.#tokenRequests.push(new FrontRequest(request, response, tokenPath, log));
    }
    this.#calls.push(new FrontCall(request, response, place, this.#options));
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
      const answered: Ready[] = [];
      readTogether(this.#options.ports.db, () => {
        for (const waiting of tokenRequests) this.#answerTokenRequest(waiting, answered);
      });
      for (const { to, answer } of answered) this.#sendNow(to, answer);
    }
    if (calls.length === 0) return;
    this.#options.gateway.together(() => {
      for (const call of calls) this.#answerCall(call);
    });
  }

  #answerCall(call: FrontCall): void {
    const { request, response } = call;
    if (response.closed) return call.closed();
    call.address = this.#addressOf(request);
    try {
      this.#send(call, this.#options.gateway.answer(new IncomingCall(request, response, call)));
    } catch (err) {
      this.#break(call, err);
    }
  }

  /** Adds the answer to `answered` if it is ready immediately. */
  #answerTokenRequest(waiting: FrontRequest, answered: Ready[]): void {
    const { request, response, id } = waiting;
    const isReadable = request.complete && request.readableLength <= maxFormBytes;
    if (!response.closed && !isReadable) return this.#options.framework(request, response);
    if (response.closed) return waiting.closed();
    response.once('close', () => waiting.closed());
    const ip = this.#addressOf(request) ?? '';
    const body: Buffer | null = request.read();
    try {
      const answer = tokenAnswer({ id, ip, raw: request, body }, this.#options);
      if (answer instanceof Promise) this.#send(waiting, answer);
      else answered.push({ to: waiting, answer });
    } catch (err) {
      this.#break(waiting, err);
    }
  }

  #send(to: FrontRequest, answer: Awaitable<GatewayAnswer>): void {
    if (!(answer instanceof Promise)) return this.#sendNow(to, answer);
    answer.then(
      (made) => this.#sendSoon(to, made),
      (err: unknown) => this.#break(to, err),
    );
  }

  /** Sends all answers of a turn together at its end: sent one by one, each would wake its reader while others are being made. */
  #sendSoon(to: FrontRequest, answer: GatewayAnswer): void {
    if (this.#ready.push({ to, answer }) > 1) return;
    setImmediate(() => {
      const ready = this.#ready;
      this.#ready = [];
      for (const each of ready) this.#sendNow(each.to, each.answer);
    });
  }

  #sendNow(to: FrontRequest, answer: GatewayAnswer): void {
    const { request, response, id } = to;
    try {
      if (answer.isElsewhere) {
        to.isElsewhere = true;
        return this.#options.framework(request, response);
      }
      sendAnswer(response, answer, ['X-Request-Id', id])?.catch((err) => this.#break(to, err));
    } catch (err) {
      this.#break(to, err);
    }
  }

  #break({ response }: FrontRequest, err: unknown): void {
    this.#options.log.error({ err }, 'an answer could not be sent');
    breakOff(response);
  }
}

interface Ready {
  readonly to: FrontRequest;
  readonly answer: GatewayAnswer;
}

/** A request that is answered without the framework, together with the others of its event loop turn. */
class FrontRequest {
  readonly id = randomUUID();
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Whether another process answers it, and writes its log line. */
  isElsewhere = false;
  readonly #route: string;
  readonly #log: Log;
  readonly #startedAt = performance.now();

  constructor(request: IncomingMessage, response: ServerResponse, route: string, log: Log) {
    this.request = request;
    this.response = response;
    this.#route = route;
    this.#log = log;
  }

  /** Writes its log line. Called when its response is closed. */
  closed(): void {
    if (this.isElsewhere) return;
    const { headersSent, statusCode, writableFinished } = this.response;
    this.#log.callEnded({
      id: this.id,
      method: 'POST',
      route: this.#route,
      status: headersSent ? statusCode : undefined,
      ms: Math.round(performance.now() - this.#startedAt),
      isCut: !writableFinished,
    });
  }
}

/** A call of an MCP endpoint. */
class FrontCall extends FrontRequest implements IncomingCallDetails {
  readonly organization: string;
  readonly server: string;
  readonly maxBodyBytes: number;
  address: string | undefined;

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    [, organization = '', server = '']: RegExpExecArray,
    { log, maxBodyBytes }: FrontOptions,
  ) {
    super(request, response, mcpRoutePath, log);
    this.organization = organization;
    this.server = server;
    this.maxBodyBytes = maxBodyBytes;
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
