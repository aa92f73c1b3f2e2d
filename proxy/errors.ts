import { AgentError } from '#agent/agent-key';
import { ConfigurationError, UsageError } from '#config/errors';
import type { Connection } from '#config/connection';
import type { SignInMode } from '#config/options';
import { isInKeychain } from '#config/secret';
import { asTyped } from '#config/typed-program';
import { HttpError, platformCode } from '#transport/http-error';
import type { Failure } from 'latchkey-mcp/raw-message';
import { isAboutKey, UnavailableError, type Trouble } from '#pipeline/contact';
import { newKeyCommands } from '#key-file-commands';
import { SecretStoreError } from '#keychain/secret-store';
import { printable, redact } from 'latchkey-mcp/safe-text';
import { LoopbackError, OAuthError, TokenError } from '#auth/errors';
import { serverListUrl } from '#auth/server-list';
import { UpstreamError } from '#transport/upstream';
import { JsonError } from 'latchkey-mcp/json';

type Words = { message: string; hint: string; data?: Record<string, unknown> };

/** The classes of expected errors. Each has a message below. Anything else that is thrown is a bug. */
const classes = [
  UsageError,
  ConfigurationError,
  AgentError,
  SecretStoreError,
  OAuthError,
  TokenError,
  LoopbackError,
  UnavailableError,
  HttpError,
  UpstreamError,
  JsonError,
] as const;
type ExpectedError = InstanceType<(typeof classes)[number]>;

function isExpected(error: unknown): error is ExpectedError {
  return classes.some((expected) => error instanceof expected);
}

/**
 * The message for a person: what went wrong and what to do about it. Never contains a secret. `login` is the command that signs in.
 *
 * @throws an error that is not expected, unchanged
 */
export function words(
  error: unknown,
  connection?: Connection,
  login = loginCommand(connection),
): Words {
  if (!isExpected(error)) throw error;
  const { message, hint, data } = wordsOf(error, connection, login);
  // A message may quote a server, so it is printed as one line. A `ConfigurationError` has a line for each problem.
  return {
    message: error instanceof ConfigurationError ? message : printable(message),
    hint: printable(hint),
    ...(data && { data }),
  };
}

function wordsOf(error: ExpectedError, connection: Connection | undefined, login: string): Words {
  const { message } = error;
  const who = connection ? `${connection.name} (${connection.source})` : 'the connection';
  switch (error.name) {
    case 'UsageError':
      return { message, hint: error.hint };
    case 'ConfigurationError':
      return { message, hint: error.hint };
    case 'AgentError':
      return { message, hint: error.remedy };
    case 'SecretStoreError':
      return secretStoreWords(error);
    case 'OAuthError':
      return oauthWords(error, who, login);
    case 'TokenError':
      return tokenWords(error, login);
    case 'LoopbackError':
      return loopbackWords(error, who, login);
    case 'UnavailableError':
      return unavailableWords(error, connection, login);
    case 'HttpError':
      return { message, hint: error.remedy ?? checkNetwork };
    case 'UpstreamError':
      return upstreamWords(error, who, connection);
    case 'JsonError':
      return {
        message: `a message contains an object with a duplicate member (at byte ${error.at})`,
        hint: 'send each member once',
      };
  }
}

const checkNetwork = 'check the network and that the server is running';
const suspendedHint =
  'ask an administrator of the organization to turn it on again; you need not sign in again then';
const contactAdministrator = 'contact the administrator of the server';

function secretStoreWords({ code, message, cause, remedy: known }: SecretStoreError): Words {
  switch (code) {
    case 'unavailable':
      if (isFolderError(cause))
        return {
          message: `cannot store secrets in files: ${message}`,
          hint: 'check the permissions and the free disk space, or choose other paths with --state-dir and --secret-store-key-file',
        };
      return {
        message,
        hint:
          known ??
          `start a keychain (gnome-keyring, KWallet), or keep secrets in an encrypted file, and add the export command to your shell's profile: ${newKeyCommands}`,
      };
    case 'key_file':
    case 'other_key':
      return { message, hint: known ?? '' };
    case 'locked':
      return {
        message: `the keychain is locked: ${message}`,
        hint: 'unlock the keychain, then try again',
      };
    case 'timeout':
      return {
        message: `the keychain does not respond: ${message}`,
        hint: 'answer the prompt of the keychain, or restart the keychain, then try again',
      };
  }
}

/** Remedies for refusals that would happen again at the next sign-in. RFC 6749 §4.1.2.1, RFC 8707 §2 */
const refusals = new Map([
  ['invalid_target', (who: string) => `check the URL of ${who}`],
  ['invalid_scope', (who: string) => `check the scopes of ${who}`],
  ['unauthorized_client', (who: string) => `check the clientId of ${who}`],
]);

function oauthWords(oauthError: OAuthError, who: string, login: string): Words {
  const { endpoint, status, error, errorDescription, remedy: known } = oauthError.details;
  const data = { endpoint, status, error, error_description: errorDescription };
  const noToken = { message: `no access token: ${oauthError.message}`, data };
  const notSignedIn = { message: `not signed in: ${oauthError.message}`, data };
  switch (oauthError.code) {
    case 'refused':
      return { ...noToken, hint: known ?? `check clientId, clientSecret and scopes of ${who}` };
    case 'suspended':
      return { message: errorDescription ?? oauthError.message, hint: suspendedHint, data };
    case 'issuer':
      return {
        ...noToken,
        hint: `if you trust the new issuer, run ${login}, or set oauth.issuer of ${who}`,
      };
    case 'metadata':
      return { ...noToken, hint: `check the URL of ${who}, or ${contactAdministrator}` };
    case 'unreachable':
      return {
        message: oauthError.message,
        hint: remedy(oauthError) ?? `${checkNetwork}, then try again`,
        data,
      };
    case 'client':
      return {
        ...noToken,
        hint: known ?? `set oauth.clientId of ${who}; ask the administrator of the server for it`,
      };
    case 'redirect':
      return {
        ...notSignedIn,
        hint: `run ${login} again; if the error persists, ${contactAdministrator}`,
      };
    case 'declined':
      return { ...notSignedIn, hint: known ?? login };
    case 'no_access':
      return {
        message: oauthError.message,
        hint: known ?? `ask an administrator for access, then run ${login} again`,
        data,
      };
    case 'denied':
      return { ...notSignedIn, hint: known ?? refusals.get(error ?? '')?.(who) ?? login };
  }
}

function tokenWords({ code, message }: TokenError, login: string): Words {
  switch (code) {
    case 'rejected':
      return { message, hint: contactAdministrator };
    case 'busy':
      return { message, hint: 'try again, or stop the other process' };
    case 'no_lock':
      return {
        message,
        hint: 'check the permissions and the free disk space, or choose another directory with --state-dir',
      };
    case 'signed_out':
    case 'narrow':
      return { message: `sign-in needed: ${message}`, hint: login, data: { remedy: login } };
    case 'not_chosen':
      return { message, hint: `run ${login} again` };
    case 'withdrawn':
      return { message, hint: contactAdministrator };
    case 'signing_in':
      return {
        message: `sign-in needed: ${message}`,
        hint: 'finish the sign-in there, then try again',
      };
  }
}

function loopbackWords({ code, message }: LoopbackError, who: string, login: string): Words {
  switch (code) {
    case 'port':
      return {
        message,
        hint: `stop the program that uses the port, or change oauth.redirectPort of ${who}`,
      };
    case 'timeout':
    case 'pasted':
    case 'other_browser':
      return { message: `not signed in: ${message}`, hint: login };
    case 'aborted':
      return { message: `not signed in: ${message}`, hint: '' };
  }
}

function upstreamWords(error: UpstreamError, who: string, connection?: Connection): Words {
  const { message, code, status } = error;
  const { outcomeUnknown, ...figures } = error.details;
  const data = { ...figures, ...(outcomeUnknown && { outcome: 'unknown' }) };
  const known = { message, ...(Object.keys(data).length > 0 && { data }) };
  if (outcomeUnknown)
    return {
      ...known,
      message: `${message}; it is unknown whether the request ran, so it was not sent again`,
      hint: 'check whether the request took effect before you repeat it',
    };
  if (error.remedy !== undefined) return { ...known, hint: error.remedy };
  switch (code) {
    case 'unauthorized':
      return { ...known, hint: credentialHint(who, connection) };
    case 'suspended':
      return { ...known, hint: suspendedHint };
    case 'forbidden':
      return { ...known, hint: `the credential of ${who} lacks a required scope` };
    case 'redirected':
      return { ...known, hint: `if you trust that address, change the URL of ${who} to it` };
    case 'unreachable':
      return { ...known, hint: remedy(error) ?? checkNetwork };
    case 'status':
      if (status === 404)
        return { ...known, hint: `that is not an MCP endpoint; check the URL of ${who}` };
      return { ...known, hint: later(error.details.retryAfterSeconds) };
    case 'no_answer':
      return { ...known, hint: later(error.details.retryAfterSeconds) };
    case 'not_json_rpc':
      return { ...known, hint: `check the URL of ${who}` };
    case 'refused':
      return { ...known, hint: contactAdministrator };
    case 'account':
      return {
        ...known,
        hint: `open that page and ${isAboutKey(message) ? 'enter your key' : 'connect your account'}`,
      };
    case 'too_large':
      return { ...known, hint: 'increase --max-message-bytes, or request less data' };
    case 'aborted':
      return { ...known, hint: '' };
  }
}

function credentialHint(who: string, connection: Connection | undefined): string {
  const { name, credentials } = connection ?? {};
  return credentials?.kind === 'api_key' && isInKeychain(credentials.apiKeySecret)
    ? `it may be mistyped, expired or revoked; get a new key, then run latchkey rotate ${name}`
    : `check the credential of ${who}; it may be mistyped, expired or revoked`;
}

/**
 * The message for a system error about a file or program that cannot be read, written or started; `undefined` for any other error.
 * The message contains no secret.
 */
export function fileWords(error: unknown): { message: string; hint: string } | undefined {
  if (!(error instanceof Error && 'syscall' in error)) return undefined;
  // `path` is the name of a program that did not start.
  if (String(error.syscall).startsWith('spawn'))
    return { message: error.message, hint: 'check that the program is installed' };
  const code = platformCode(error);
  const hint = spaceHints.get(code) ?? ('path' in error ? pathHint(code) : undefined);
  return hint === undefined ? undefined : { message: error.message, hint };
}

/** Remedies for writes that do not fit. Their errors may have no path. */
const spaceHints = new Map([
  ['ENOSPC', 'free some disk space'],
  ['EDQUOT', 'free some disk space'],
  ['EFBIG', 'the file would be too large; check the limits of the disk and of your account'],
]);

function pathHint(code: string): string {
  const isDenied = /^(EACCES|EPERM|EROFS)$/.test(code);
  return isDenied ? 'check the permissions of the file' : 'check the path';
}

/** Whether the error is about a folder of secrets that cannot be used, and not about a keychain. */
function isFolderError(cause: unknown): boolean {
  return /^(EACCES|EPERM|EROFS|ENOTDIR|ENOSPC|EDQUOT|EFBIG)$/.test(platformCode(cause));
}

function later(seconds: number | undefined): string {
  return seconds === undefined ? 'try again later' : `try again in ${seconds} s`;
}

/** The remedy of the network error that caused this one. */
function remedy({ cause }: Error): string | undefined {
  return cause instanceof HttpError ? cause.remedy : undefined;
}

/** The message for a server that cannot be used: the error of the last attempt and, if it is offline, since when. */
function unavailableWords(
  { code, message, sinceAt, cause }: UnavailableError,
  connection: Connection | undefined,
  login: string,
): Words {
  const last = cause === undefined ? undefined : words(cause, connection, login);
  const since = new Date(sinceAt * 1000).toISOString();
  switch (code) {
    case 'stalled':
      return { message, hint: 'Latchkey is still waiting for the server; try again in a moment' };
    case 'offline':
      return {
        message: `${last?.message ?? message}; offline since ${since}, retrying automatically`,
        hint: last?.hint ?? checkNetwork,
        data: { ...last?.data, offlineSince: since },
      };
    case 'signed_out':
      return {
        message: last?.message ?? `sign-in needed: ${message}`,
        hint: `call the tool sign_in, or run ${login}`,
        data: { ...last?.data, remedy: login },
      };
  }
}

/** The trouble that an error indicates for the whole server; `undefined` if it concerns only one request, or this program. */
export function troubleOf(error: unknown, mode: SignInMode): Trouble['kind'] | undefined {
  if (error instanceof UnavailableError)
    return error.code === 'signed_out' ? 'signed_out' : 'offline';
  // A suspension ends like an outage: without the user.
  if (error instanceof OAuthError && ['unreachable', 'suspended'].includes(error.code))
    return 'offline';
  if (error instanceof UpstreamError) {
    const { code, status = 0 } = error;
    if (code === 'account') return 'account';
    const isAway = code === 'unreachable' || code === 'suspended';
    return isAway || [502, 503, 504].includes(status) ? 'offline' : undefined;
  }
  // In the mode `always`, requests wait for the person to sign in. This request fails, and the next one waits.
  if (!(error instanceof TokenError) || mode === 'always') return undefined;
  return ['signed_out', 'signing_in', 'not_chosen'].includes(error.code) ? 'signed_out' : undefined;
}

/** The command that signs in to a connection, or to a list of servers. */
export function loginCommand(connection: Connection | undefined): string {
  if (connection && connection.url === serverListUrl(connection.name))
    return `latchkey setup ${connection.name}`;
  const file = connection?.configFile === undefined ? '' : ` --config ${connection.configFile}`;
  return `latchkey login ${connection?.name ?? 'NAME'}${file}`;
}

function typedData({ remedy: command, ...data }: NonNullable<Words['data']>, program: string) {
  return typeof command === 'string'
    ? { ...data, remedy: redact(asTyped(command, program)) }
    : data;
}

/**
 * The JSON-RPC error of a request. `fatal`: without a keychain, every request would fail. Commands in it begin with `program`.
 */
export function explain(
  error: unknown,
  connection: Connection,
  program: string,
): { failure: Failure; fatal: boolean } {
  const { message, hint, data } = words(error, connection);
  const text = redact(asTyped(hint ? `${message}; ${hint}` : message, program));
  const code = error instanceof JsonError ? -32600 : -32603;
  const failure = { code, message: text, ...(data && { data: typedData(data, program) }) };
  const hasNoStore =
    error instanceof SecretStoreError &&
    ['unavailable', 'key_file', 'other_key'].includes(error.code);
  return { failure, fatal: hasNoStore };
}
