import type { Input } from './read-options.ts';
import { UsageError } from './usage-error.ts';

/**
 * The PostgreSQL database that `--database-url` names; `undefined` for SQLite in the data folder.
 *
 * @throws {UsageError} when it is not a PostgreSQL URL; the message does not contain the password
 */
export function databasePlace(input: Input): { readonly url: string } | undefined {
  const url = input.text('database-url');
  return url === undefined ? undefined : { url: checkDatabaseUrl(url, '--database-url') };
}

/** @throws {UsageError} naming the option, without the password */
export function checkDatabaseUrl(url: string, option: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !/^postgres(ql)?:$/.test(parsed.protocol) || parsed.pathname.length < 2) {
    throw new UsageError(
      `${option} is not the URL of a PostgreSQL database`,
      'write it as postgres://USER:PASSWORD@HOST:5432/DATABASE',
    );
  }
  return url;
}

/**
 * The NATS server that `--nats-url` names; `undefined` without that option.
 *
 * @throws {UsageError} when it is not a NATS URL or a required option is missing; the message does not contain the password
 */
export function natsPlace(
  input: Input,
): { readonly url: string; readonly credentialsFile: string | undefined } | undefined {
  const url = input.text('nats-url');
  const credentialsFile = input.text('nats-credentials');
  if (url === undefined) {
    if (credentialsFile === undefined) return undefined;
    throw new UsageError('--nats-credentials needs --nats-url');
  }
  if (input.text('database-url') === undefined) {
    throw new UsageError(
      '--nats-url needs --database-url',
      'only nodes that share a PostgreSQL database can pass calls to each other',
    );
  }
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !/^(nats|tls):$/.test(parsed.protocol) || parsed.hostname === '') {
    throw new UsageError(
      '--nats-url is not the URL of a NATS server',
      'write it as nats://HOST:4222, or tls://HOST:4222',
    );
  }
  return { url, credentialsFile };
}
