import type { IncomingMessage } from 'node:http';

import { headerLines } from 'latchkey-mcp/headers';

import { networkOf } from '#model/networks';
import type { CountedRefusals } from '#audit/counted-refusals';
import { type Awaitable, whenFailed, whenReady } from '#model/awaitable';
import { findClient } from '#db/clients';
import type { Logger } from '#log/log';
import { claimedClient } from '#oauth/client-authentication';
import type { FailedAttempts } from '#oauth/failed-attempts';
import { type Form, parseForm } from '#oauth/forms';
import { tokenEndpoint, type TokenEndpointContext } from '#oauth/grants';
import { OAuthError } from '#oauth/oauth-error';
import type { Issued } from '#oauth/token-response';
import { oauthErrorAnswer } from './error-answers.ts';

/** The path of the token endpoint, also in the log. */
export const tokenPath = '/api/oauth/token';

/** The longest body of a request to an OAuth endpoint. */
export const maxFormBytes = 16 * 1024;

/** The parts of a request that the OAuth endpoints use, once its body has arrived. Fastify's requests have this shape. */
export interface FormRequest {
  readonly id: string;
  /** The caller's address. */
  readonly ip: string;
  readonly raw: Pick<IncomingMessage, 'url' | 'headers' | 'rawHeaders'>;
  /** The body as a `Buffer`; anything else counts as an empty body. */
  readonly body: unknown;
}

export interface TokenAnswerOptions {
  readonly failedAttempts: FailedAttempts;
  readonly ports: Omit<TokenEndpointContext, 'source'> & {
    readonly refusals: Pick<CountedRefusals, 'noteLater'>;
  };
  readonly log: Pick<Logger, 'info' | 'error'>;
}

interface TokenAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/**
 * Answers `POST {base}/api/oauth/token`. Refusals become answers, too, and are logged and noted for the audit log.
 * Returns the answer itself, rather than a promise, if there was nothing to wait for, as for client credentials on
 * SQLite.
 */
export function tokenAnswer(
  request: FormRequest,
  { failedAttempts, ports, log }: TokenAnswerOptions,
): Awaitable<TokenAnswer> {
  const source = { address: request.ip, requestId: request.id };
  const exchange = () =>
    guarded(request, failedAttempts, (form) =>
      tokenEndpoint(
        { form, method: 'POST', url: `${ports.base}${tokenPath}`, headers: request.raw.headers },
        { ...ports, source },
      ),
    );
  const noted = (error: unknown) => {
    if (!(error instanceof OAuthError)) throw error;
    return whenReady(noteDenied(request, error, ports), (): never => {
      throw error;
    });
  };
  return whenFailed(
    () => whenReady(whenFailed(exchange, noted), issued),
    (error) => refused(error, request, log),
  );
}

const uncached = {
  'Cache-Control': 'no-store',
  Pragma: 'no-cache',
  'Content-Type': 'application/json; charset=utf-8',
};

function issued({ tokens, headers }: Issued): TokenAnswer {
  return { status: 200, headers: { ...headers, ...uncached }, body: JSON.stringify(tokens) };
}

function refused(
  error: unknown,
  { id: reqId }: FormRequest,
  log: TokenAnswerOptions['log'],
): TokenAnswer {
  const { status, headers, body } = oauthErrorAnswer(error);
  if (status >= 500) log.error({ reqId, err: error }, 'request failed');
  else {
    const { error: code, error_description: reason } = body;
    log.info({ reqId, code, reason, why: causeOf(error) }, 'request refused');
  }
  return { status, headers: { ...uncached, ...headers }, body: JSON.stringify(body) };
}

/** The cause, which the answer does not contain. Of a library's error only the name, because its message may quote the request. */
function causeOf(error: unknown): string | undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  if (typeof cause === 'string') return cause;
  return cause instanceof Error ? cause.name : undefined;
}

/** Runs `act`, unless the client or the address failed to authenticate too often. */
export function guarded<Answer>(
  request: FormRequest,
  failedAttempts: FailedAttempts,
  act: (form: Form, authorization: string | undefined) => Awaitable<Answer>,
): Awaitable<Answer> {
  const form = formOf(request);
  const { authorization } = request.raw.headers;
  const attempt = { address: networkOf(request.ip), clientId: claimedClient(form, authorization) };
  return failedAttempts.guard(attempt, () => act(form, authorization));
}

/** Notes a refused token request for the audit log of the organization whose client the request claimed to come from. */
function noteDenied(
  request: FormRequest,
  { code }: OAuthError,
  { db, refusals }: TokenAnswerOptions['ports'],
): Awaitable<void> {
  const named = new URLSearchParams(bytesOf(request).toString('utf8'));
  const claimed = claimedClient(new Map(named), request.raw.headers.authorization);
  const found = claimed === undefined ? undefined : findClient(db, claimed);
  return whenReady(found, (client) =>
    // Recorded only after the answer, which would otherwise take longer for a client that exists.
    refusals.noteLater({
      actor: 'anonymous',
      organization: client?.organization,
      action: `token.${code.replaceAll('_', '-')}`,
      target: client && `client:${client.id}`,
      address: request.ip,
      requestId: request.id,
    }),
  );
}

/** Headers that must not be repeated, because a reverse proxy might use one copy and Latchkey the other. */
const singleHeaders = ['authorization', 'content-type'];

function formOf(request: FormRequest): Form {
  const { url = '', headers, rawHeaders } = request.raw;
  // Secrets in URLs end up in histories and logs, so the query is not accepted. RFC 6749 §2.3.1
  if (/[?#]/.test(url)) {
    throw new OAuthError('invalid_request', 'send parameters in the body, not in the URL');
  }
  const repeated = singleHeaders.find((name) => headerLines(rawHeaders, name).length > 1);
  if (repeated !== undefined) {
    throw new OAuthError('invalid_request', `the header ${repeated} is repeated`);
  }
  return parseForm(headers['content-type'], bytesOf(request));
}

function bytesOf({ body }: FormRequest): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0);
}
