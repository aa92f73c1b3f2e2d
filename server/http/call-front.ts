import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

import proxyAddress from '@fastify/proxy-addr';

import type { Gateway } from '#gateway/gateway';
import type { GatewayAnswer } from '#gateway/request';
import type { Log } from '#log/log';
import { IncomingCall } from './incoming-call.ts';
import { mcpRoutePath } from './mcp-route.ts';
import { sendAnswer } from './send-answer.ts';

export interface CallFrontOptions {
  readonly gateway: Pick<Gateway, 'answer' | 'together'>;
  readonly maxBodyBytes: number;
  readonly trustedProxies: readonly string[];
  readonly log: Log;
  /** The checks that apply to every request. */
  readonly isAmbiguous: (request: IncomingMessage) => boolean;
  readonly isOwnHost: (host: string | undefined) => boolean;
}

/** A call that waits for the others of its event loop turn. */
interface WaitingCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly organization: string;
  readonly server: string;
  readonly startedAt: number;
}

const slug = '([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)';
const endpoint = new RegExp(`^/mcp/${slug}/${slug}$`);

/**
 * Passes ordinary MCP calls to the gateway without the framework, which costs as much as everything else done for a
 * call. Ordinary means a POST to an endpoint, with the canonical path and our own host, and not from a web page.
 * Anything unusual goes through the framework, where the same route handles it.
 *
 * The calls of one turn of the event loop are handled together at its end. By then their bodies have usually arrived,
 * so they can be read synchronously.
 */
export class CallFront {
  readonly #options: CallFrontOptions;
  readonly #addressOf: (request: IncomingMessage) => string | undefined;
  #isClosing = false;
  #waiting: WaitingCall[] = [];

  constructor(options: CallFrontOptions) {
    this.#options = options;
    const { trustedProxies } = options;
    const trusts = proxyAddress.compile([...trustedProxies]);
    this.#addressOf =
      trustedProxies.length === 0
        ? ({ socket }) => socket.remoteAddress
        : (request) => proxyAddress(request, trusts);
  }

  /** Stops taking requests. Those that still come are told that the server is stopping. */
  close(): void {
    this.#isClosing = true;
  }

  /** Handles the request, or returns `false` and leaves it untouched. */
  takes(request: IncomingMessage, response: ServerResponse): boolean {
    const { method, url = '', headers } = request;
    if (method !== 'POST' || this.#isClosing || headers.origin !== undefined) return false;
    const place = endpoint.exec(url);
    if (!place || !this.#options.isOwnHost(headers.host)) return false;
    const { trustedProxies, isAmbiguous } = this.#options;
    // The framework's route may have to warn the operator about it.
    const isProxied = headers['x-forwarded-for'] !== undefined;
    if ((isProxied && trustedProxies.length === 0) || isAmbiguous(request)) return false;
    if (this.#waiting.length === 0) setImmediate(() => this.#answerWaiting());
    const [, organization = '', server = ''] = place;
    this.#waiting.push({ request, response, organization, server, startedAt: performance.now() });
    return true;
  }

  #answerWaiting(): void {
    const calls = this.#waiting;
    this.#waiting = [];
    this.#options.gateway.together(() => {
      for (const call of calls) this.#answer(call);
    });
  }

  #answer({ request, response, organization, server, startedAt }: WaitingCall): void {
    const { gateway, maxBodyBytes, log } = this.#options;
    const id = randomUUID();
    const logLine = () => {
      const { headersSent, statusCode, writableFinished } = response;
      log.callEnded({
        id,
        method: 'POST',
        route: mcpRoutePath,
        status: headersSent ? statusCode : undefined,
        ms: Math.round(performance.now() - startedAt),
        isCut: !writableFinished,
      });
    };
    if (response.closed) return logLine();
    const address = this.#addressOf(request);
    const details = { id, organization, server, maxBodyBytes, address, closed: logLine };
    const broken = (err: unknown) => {
      log.error({ err }, 'an answer could not be sent');
      response.destroy();
    };
    const send = (answer: GatewayAnswer) => {
      try {
        sendAnswer(response, answer, ['X-Request-Id', id])?.catch(broken);
      } catch (err) {
        broken(err);
      }
    };
    try {
      const answer = gateway.answer(new IncomingCall(request, response, details));
      if (answer instanceof Promise) answer.then(send, broken);
      else send(answer);
    } catch (err) {
      broken(err);
    }
  }
}
