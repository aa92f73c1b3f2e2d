import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

import proxyAddress from '@fastify/proxy-addr';

import type { Gateway } from '#gateway/gateway';
import type { Logger } from '#log/log';
import { IncomingCall } from './incoming-call.ts';
import { mcpRoutePath } from './mcp-route.ts';
import { requestLine } from './request-line.ts';
import { sendAnswer } from './send-answer.ts';

export interface CallFrontOptions {
  readonly gateway: Pick<Gateway, 'handle'>;
  readonly maxBodyBytes: number;
  readonly trustedProxies: readonly string[];
  readonly log: Logger;
  /** The checks that hold for every request. */
  readonly isAmbiguous: (request: IncomingMessage) => boolean;
  readonly isOwnHost: (host: string | undefined) => boolean;
}

const slug = '([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)';
const endpoint = new RegExp(`^/mcp/${slug}/${slug}$`);

/**
 * Takes the calls that nearly all requests are to the gateway without the framework, which costs as much as all else
 * that is done for one: a POST to an endpoint, spelt in the only way, to our own host, by no page. Whatever is unusual
 * about a request sends it through the framework, where the same route answers it.
 */
export class CallFront {
  readonly #options: CallFrontOptions;
  readonly #addressOf: (request: IncomingMessage) => string | undefined;
  #isClosing = false;

  constructor(options: CallFrontOptions) {
    this.#options = options;
    const { trustedProxies } = options;
    const trusts = proxyAddress.compile([...trustedProxies]);
    this.#addressOf =
      trustedProxies.length === 0
        ? ({ socket }) => socket.remoteAddress
        : (request) => proxyAddress(request, trusts);
  }

  /** From now on it takes nothing: what still comes is told that the server stops. */
  close(): void {
    this.#isClosing = true;
  }

  /** Answers the request, or says `false` and has not touched it. */
  takes(request: IncomingMessage, response: ServerResponse): boolean {
    const { method, url = '', headers } = request;
    if (method !== 'POST' || this.#isClosing || headers.origin !== undefined) return false;
    const place = endpoint.exec(url);
    if (!place || !this.#options.isOwnHost(headers.host)) return false;
    const { trustedProxies, isAmbiguous } = this.#options;
    // The operator may be to be warned of it.
    const isProxied = headers['x-forwarded-for'] !== undefined;
    if ((isProxied && trustedProxies.length === 0) || isAmbiguous(request)) return false;
    this.#answer(request, response, place[1] ?? '', place[2] ?? '').catch((err: unknown) => {
      this.#options.log.error({ err }, 'an answer could not be sent');
      response.destroy();
    });
    return true;
  }

  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    organization: string,
    server: string,
  ): Promise<void> {
    const { gateway, maxBodyBytes, log } = this.#options;
    const id = randomUUID();
    const address = this.#addressOf(request);
    requestLine(request, response, { log, name: () => ({ id, route: mcpRoutePath }) });
    const details = { id, organization, server, maxBodyBytes, address };
    const answer = await gateway.handle(new IncomingCall(request, response, details));
    const headers = { ...answer.headers, 'X-Request-Id': id };
    await sendAnswer(response, { ...answer, headers });
  }
}
