import { AgentError } from '#agent/agent-error';
import { ConfigurationError, UsageError } from '#config/errors';
import type { Connection } from '#config/connection';
import type { SignInMode } from '#config/options';
import { HttpError, platformCode } from '#transport/http-client';
import type { Failure } from 'latchkey-mcp/raw-message';
import { UnavailableError } from '#pipeline/contact';
import { SecretStoreError } from '#keychain/secret-store';
import { printable } from '#log/printable';
import { redact } from '#log/redact';
import { LoopbackError, OAuthError, TokenError } from '#auth/errors';
import { UpstreamError } from '#transport/upstream';
import { JsonError } from 'latchkey-mcp/json';

type Words = { message: string; hint: string; data?: Record<string, unknown> };

/** What to do about a no that another sign-in would only get again. RFC 6749 §4.1.2.1, RFC 8707 §2 */
const refusals: Record<string, (who: string) => string> = {
  invalid_target: (who) => `check the URL of ${who}`,
  invalid_scope: (who) => `check the scopes of ${who}`,
  unauthorized_client: (who) => `check the clientId of ${who}`,
};

/**
 * What went wrong and what to do about it, for a person; never with a secret. What is not listed
 * here is a bug and goes on as it came.
 */
export function words(error: unknown, connection?: Connection): Words {
  const { message, hint, data } = wordsOf(error, connection);
  // What a server said is one line; the lines of this one are ours, one for each problem.
  const isOurs = error instanceof ConfigurationError;
  return {
    message: isOurs ? message : printable(message),
    hint: printable(hint),
    ...(data && { data }),
  };
}

function wordsOf(error: unknown, connection?: Connection): Words {
  const who = connection ? `${connection.name} (${connection.source})` : 'the connection';
  if (error instanceof UsageError) return { message: error.message, hint: error.hint };
  if (error instanceof AgentError) return { message: error.message, hint: error.remedy };
  if (error instanceof ConfigurationError) return { message: error.message, hint: '' };
  if (error instanceof SecretStoreError) {
    switch (error.code) {
      case 'unavailable':
        if (isOfDisk(error.cause))
          return {
            message: `secrets cannot be kept in files: ${error.message}`,
            hint: 'look at permissions and room on the disk, or name others with --state-dir and --secret-store-key-file',
          };
        return {
          message: `no keychain is available: ${error.message}`,
          hint: 'start one (gnome-keyring, KWallet), or use --secret-store file with LATCHKEY_SECRET_STORE_KEY_FILE, or --secret-store memory, which keeps tokens only while it runs; an API key or an OAuth client from the environment needs no keychain',
        };
      case 'locked':
        return {
          message: `the keychain is locked: ${error.message}`,
          hint: 'unlock it, then repeat',
        };
      case 'timeout':
        return {
          message: `the keychain does not answer: ${error.message}`,
          hint: 'answer its prompt, then repeat',
        };
    }
  }
  if (error instanceof OAuthError) {
    const { endpoint, status, error: code, errorDescription } = error.details;
    const data = { endpoint, status, error: code, error_description: errorDescription };
    switch (error.code) {
      case 'refused':
        return {
          message: `no access token: ${error.message}`,
          hint: `check clientId, clientSecret and scopes of ${who}`,
          data,
        };
      case 'issuer':
        return {
          message: `no access token: ${error.message}`,
          hint: `if that is right, run ${loginCommand(connection)}, or name the issuer in oauth.issuer of ${who}`,
          data,
        };
      case 'metadata':
        return {
          message: `no access token: ${error.message}`,
          hint: `check the URL of ${who}, or tell whoever runs the server`,
          data,
        };
      case 'unreachable':
        return {
          message: `no access token: ${error.message}`,
          hint: remedy(error) ?? 'check the network and whether the server runs, then try again',
          data,
        };
      case 'client':
        return {
          message: `no access token: ${error.message}`,
          hint: `set oauth.clientId of ${who}; whoever runs the server can tell it`,
          data,
        };
      case 'redirect':
        return {
          message: `not signed in: ${error.message}`,
          hint: `begin again with ${loginCommand(connection)}; if it happens twice, tell whoever runs the server`,
          data,
        };
      case 'denied':
        return {
          message: `not signed in: ${error.message}`,
          hint: refusals[code ?? '']?.(who) ?? loginCommand(connection),
          data,
        };
    }
  }
  if (error instanceof TokenError) {
    switch (error.code) {
      case 'rejected':
        return { message: error.message, hint: 'tell whoever runs the server' };
      case 'busy':
        return { message: error.message, hint: 'try again, or end the other process' };
      case 'no_lock':
        return { message: error.message, hint: 'name a directory of your own with --state-dir' };
      case 'signed_out':
      case 'narrow':
        return {
          message: `sign-in needed: ${error.message}`,
          hint: loginCommand(connection),
          data: { remedy: loginCommand(connection) },
        };
      case 'signing_in':
        return {
          message: `sign-in needed: ${error.message}`,
          hint: 'finish it there, then repeat',
        };
    }
  }
  if (error instanceof UnavailableError) return unavailableWords(error, connection);
  if (error instanceof LoopbackError) {
    switch (error.code) {
      case 'port':
        return {
          message: error.message,
          hint: `end what holds it, or change oauth.redirectPort of ${who}`,
        };
      case 'timeout':
      case 'pasted':
      case 'other_browser':
        return { message: `not signed in: ${error.message}`, hint: loginCommand(connection) };
      case 'aborted':
        return { message: `not signed in: ${error.message}`, hint: '' };
    }
  }
  if (error instanceof HttpError)
    return {
      message: `cannot reach ${error.message}`,
      hint: error.remedy ?? 'check the network and whether the server runs',
    };
  if (error instanceof UpstreamError) {
    const { outcomeUnknown, ...figures } = error.details;
    const data = { ...figures, ...(outcomeUnknown && { outcome: 'unknown' }) };
    const said = { message: error.message, ...(Object.keys(data).length > 0 && { data }) };
    if (outcomeUnknown)
      return {
        ...said,
        message: `${error.message}; whether it ran is unknown, so it was not sent again`,
        hint: 'look whether it took effect before you repeat it',
      };
    switch (error.code) {
      case 'unauthorized':
        return {
          ...said,
          hint: `check the credential of ${who}; it may have been revoked`,
        };
      case 'forbidden':
        return { ...said, hint: `the credential of ${who} lacks a scope for this` };
      case 'redirected':
        return { ...said, hint: `if you trust that place, put it into the URL of ${who}` };
      case 'unreachable':
        return { ...said, hint: remedy(error) ?? 'check the network and whether the server runs' };
      case 'status':
        if (error.status === 404) return { ...said, hint: `check the URL of ${who}` };
        return { ...said, hint: later(error.details.retryAfterSeconds) };
      case 'no_answer':
        return { ...said, hint: later(error.details.retryAfterSeconds) };
      case 'not_json_rpc':
        return { ...said, hint: `check the URL of ${who}` };
      case 'too_large':
        return { ...said, hint: 'raise --max-message-bytes, or ask for less' };
      case 'aborted':
        return { ...said, hint: '' };
    }
  }
  if (error instanceof JsonError)
    return {
      message: `a message names a member of an object twice (at byte ${error.at})`,
      hint: 'name each member once',
    };
  throw error;
}

/** Whether it is the directory that files stand in, not a keychain, that cannot be used. */
function isOfDisk(cause: unknown): boolean {
  return /^(EACCES|EPERM|EROFS|ENOTDIR|ENOSPC|EDQUOT|EFBIG)$/.test(platformCode(cause));
}

function later(seconds: number | undefined): string {
  return seconds === undefined ? 'try again later' : `try again in ${seconds} s`;
}

/** What the network's own error says to do about it. */
function remedy({ cause }: Error): string | undefined {
  return cause instanceof HttpError ? cause.remedy : undefined;
}

/** Words for a server that is away: what the last attempt met, since when, and that it goes on. */
function unavailableWords(
  { code, message, sinceAt, cause }: UnavailableError,
  connection?: Connection,
): Words {
  const met = cause === undefined ? undefined : words(cause, connection);
  const since = new Date(sinceAt * 1000).toISOString();
  switch (code) {
    case 'stalled':
      return { message, hint: 'it goes on waiting by itself; repeat in a moment' };
    case 'offline':
      return {
        message: `${met?.message ?? message}; offline since ${since}, trying again by itself`,
        hint: met?.hint ?? 'check the network and whether the server runs',
        data: { ...met?.data, offlineSince: since },
      };
    case 'signed_out': {
      const command = loginCommand(connection);
      return {
        message: met?.message ?? `sign-in needed: ${message}`,
        hint: `call the tool sign_in, or run ${command}`,
        data: { ...met?.data, remedy: command },
      };
    }
  }
}

/** What an error says about the server as a whole; `undefined` when it is about one request, or us. */
export function troubleOf(error: unknown, mode: SignInMode): 'offline' | 'signed_out' | undefined {
  if (error instanceof UnavailableError)
    return error.code === 'signed_out' ? 'signed_out' : 'offline';
  if (error instanceof OAuthError && error.code === 'unreachable') return 'offline';
  if (error instanceof UpstreamError) {
    const { code, status = 0 } = error;
    return code === 'unreachable' || [502, 503, 504].includes(status) ? 'offline' : undefined;
  }
  // Where requests wait for a person, one that was not signed in is told so, and waits the next time.
  if (!(error instanceof TokenError) || mode === 'always') return undefined;
  return error.code === 'signed_out' || error.code === 'signing_in' ? 'signed_out' : undefined;
}

/** What to type to sign in. */
export function loginCommand(connection: Connection | undefined): string {
  const file = connection?.configFile === undefined ? '' : ` --config ${connection.configFile}`;
  return `latchkey login ${connection?.name ?? 'NAME'}${file}`;
}

/** The same as the JSON-RPC error of a request. Without a keychain the next one would fail too. */
export function explain(
  error: unknown,
  connection: Connection,
): { failure: Failure; fatal: boolean } {
  const { message, hint, data } = words(error, connection);
  const text = redact(hint ? `${message}; ${hint}` : message);
  const code = error instanceof JsonError ? -32600 : -32603;
  const failure = { code, message: text, ...(data && { data }) };
  return { failure, fatal: error instanceof SecretStoreError && error.code === 'unavailable' };
}
