import { isSharedIssuer } from '#model/issuers';
import { checkAgainModes, checkIntervals, type ProviderChecking } from '#model/provider-checks';
import { readNamedSecret } from './named-file.ts';
import type { Input } from './read-options.ts';
import { UsageError } from './usage-error.ts';

/** The upstream OpenID provider that the operator configured. */
export interface OidcOptions {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly name: string;
  readonly groupsClaim: string;
  readonly scopes: readonly string[];
  /** Whether the operator trusts addresses that the provider does not claim to have verified. */
  readonly trustsEmail: boolean;
  readonly checking: ProviderChecking;
}

const example = 'example: --oidc-issuer https://idp.example.com --oidc-client-id latchkey …';

/** `undefined` if none is configured. @throws {UsageError} @throws {CommandError} */
export function readOidcOptions(input: Input): OidcOptions | undefined {
  const issuer = input.text('oidc-issuer');
  const clientId = input.text('oidc-client-id');
  const file = input.text('oidc-client-secret-file');
  if (issuer === undefined && clientId === undefined && file === undefined) return undefined;
  if (issuer === undefined || clientId === undefined || file === undefined) {
    const names = '--oidc-issuer, --oidc-client-id and --oidc-client-secret-file';
    throw new UsageError(`${names} must be set together`, example);
  }
  const url = URL.canParse(issuer) ? new URL(issuer) : undefined;
  const isLoopback =
    url !== undefined && ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname);
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && isLoopback)) {
    throw new UsageError(`--oidc-issuer '${issuer}' is not an https URL`, example);
  }
  const trustsEmail = input.flag('oidc-trust-email');
  if (trustsEmail && isSharedIssuer(url)) {
    throw new UsageError(
      `--oidc-trust-email cannot be used with ${issuer}, where people of other organizations sign in too`,
      'use the issuer of your own organization, for example https://login.microsoftonline.com/TENANT-ID/v2.0',
    );
  }
  return {
    issuer,
    clientId,
    clientSecret: readNamedSecret(file, 'oidc-client-secret-file'),
    name: input.must('oidc-name'),
    groupsClaim: input.must('oidc-groups-claim'),
    scopes: input.list('oidc-scope'),
    trustsEmail,
    checking: readChecking(input),
  };
}

function readChecking(input: Input): ProviderChecking {
  const text = input.must('oidc-check-again');
  const checkAgain = checkAgainModes.find((mode) => mode === text);
  if (!checkAgain) {
    throw new UsageError(`--oidc-check-again '${text}' is none of ${checkAgainModes.join(', ')}`);
  }
  return {
    checkAgain,
    sessionCheckMinutes: readInterval(input, 'oidc-session-check-minutes', 'sessionCheckMinutes'),
    grantCheckHours: readInterval(input, 'oidc-grant-check-hours', 'grantCheckHours'),
  };
}

function readInterval(input: Input, option: string, of: keyof typeof checkIntervals): number {
  const { least, most } = checkIntervals[of];
  const text = input.must(option);
  const value = /^\d{1,6}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new UsageError(`--${option} '${text}' is not a number from ${least} to ${most}`);
}
