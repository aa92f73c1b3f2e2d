import { Resolver } from 'node:dns/promises';

import type { OrganizationDomain } from '#db/organization-domains';
import type { ProviderRecord } from '#db/identity-providers';
import type { Clock, EpochSeconds } from '#model/clock';
import { hasManyTenants } from '#model/issuers';
import { LimitedMap } from '#model/limited-map';
import {
  checkedAddresses,
  hostFault,
  isNamed,
  OutboundError,
  type OutboundGuard,
} from '#outbound/checked-addresses';
import { guardedFetch } from '#outbound/guarded-fetch';
import type { Sealing } from '#secrets/master-key';
import { type IdentityProvider, openIdProvider } from './openid-provider.ts';

/** `absent`: the domain answers without the record. `unreachable`: its name servers do not answer, which proves nothing. */
export type DomainCheck = 'found' | 'absent' | 'unreachable';

/** Returns the TXT records of a name, each in parts, as `dns.resolveTxt` does. */
export type ResolveTxt = (name: string) => Promise<readonly (readonly string[])[]>;

/** Looks up TXT records with the system's DNS configuration, within a few seconds. */
export function systemTxt(): ResolveTxt {
  const resolver = new Resolver({ timeout: 2000, tries: 2 });
  return (name) => resolver.resolveTxt(name);
}

const limits = { timeoutMs: 10_000, maxBytes: 256 * 1024 };
const mostClients = 200;
const clientLifeSeconds = 3600;

/** The name and value of the DNS record that proves a domain. */
export function domainRecord({
  domain,
  verificationToken,
}: Pick<OrganizationDomain, 'domain' | 'verificationToken'>) {
  return { name: `_latchkey.${domain}`, value: `latchkey-domain=${verificationToken}` };
}

export function providerSetup({
  base,
  sealing,
  guard,
  resolveTxt,
  clock,
}: {
  /** Our public URL; `undefined` in a command that does not know it. */
  base: string | undefined;
  sealing: Pick<Sealing, 'seal' | 'open'>;
  guard: OutboundGuard;
  resolveTxt: ResolveTxt;
  clock: Clock;
}) {
  const fetch = guardedFetch({ ...limits, ...guard });
  const clients = new LimitedMap<string, { client: IdentityProvider; until: EpochSeconds }>(
    mostClients,
  );
  const redirectUriOf = (providerId: string) =>
    base === undefined ? undefined : `${base}/sign-in/provider/${providerId}/callback`;
  return {
    /** The redirect URI to register at a provider; `undefined` in a command that does not know the public URL. */
    redirectUriOf,

    /** Where a provider can announce logouts; `undefined` in a command that does not know the public URL. */
    logoutUriOf: (providerId: string) =>
      base === undefined ? undefined : `${base}${logoutPathOf(providerId)}`,

    /** The problem with an issuer's URL, worded to follow the name of the field; `undefined` if requests to it are allowed. */
    async problemOf(issuer: string): Promise<string | undefined> {
      const problem = issuerProblem(issuer, guard.allowedHosts);
      if (problem !== undefined) return problem;
      try {
        await checkedAddresses(new URL(issuer), guard);
      } catch (error) {
        if (!(error instanceof OutboundError)) throw error;
        const fault = `has a host that ${hostFault(error)}`;
        const isOperator = guard.tellsUnknownNames === true;
        const isInside = error.code === 'forbidden' || error.code === 'not_public';
        return isInside && !isOperator
          ? `${fault}: check the spelling, or ask the operator to allow it`
          : fault;
      }
      return undefined;
    },

    sealSecret: (providerId: string, secret: string) =>
      sealing.seal(secretPurpose(providerId), secret),

    /** The client of a provider. Its configuration and keys are read at most once an hour. */
    clientOf(provider: ProviderRecord): IdentityProvider {
      const { id, issuer, name, clientId, sealedSecret, scopes, groupsClaim } = provider;
      const { checkAgain, sessionCheckMinutes, grantCheckHours } = provider;
      const checking = { checkAgain, sessionCheckMinutes, grantCheckHours };
      const settings = { id, issuer, name, clientId, scopes, groupsClaim, checking };
      const key = JSON.stringify([settings, sealedSecret, provider.emailTrusted]);
      const known = clients.get(key);
      if (known && known.until > clock.now()) return known.client;
      const client = openIdProvider({
        ...settings,
        clientSecret: sealing.open(secretPurpose(id), sealedSecret),
        trustsEmail: provider.emailTrusted,
        redirectUri: redirectUriOf(id) ?? '',
        fetch,
      });
      clients.set(key, { client, until: clock.now() + clientLifeSeconds });
      return client;
    },

    /** Whether the DNS record of a domain proves it now. Never rejects. */
    async checkDomain(
      domain: Pick<OrganizationDomain, 'domain' | 'verificationToken'>,
    ): Promise<DomainCheck> {
      const { name, value } = domainRecord(domain);
      try {
        const records = await resolveTxt(name);
        return records.some((parts) => parts.join('').trim() === value) ? 'found' : 'absent';
      } catch (error) {
        const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined;
        return code === 'ENODATA' || code === 'ENOTFOUND' ? 'absent' : 'unreachable';
      }
    },
  };
}

/** The dependencies of organizations' identity providers besides the database. */
export type ProviderSetup = ReturnType<typeof providerSetup>;

/** The path at which a provider announces logouts; without an id, the path of the installation's provider. */
export function logoutPathOf(providerId?: string): string {
  return `/sign-in/provider/${providerId === undefined ? '' : `${providerId}/`}backchannel-logout`;
}

function secretPurpose(providerId: string): string {
  return `identity provider ${providerId} client secret`;
}

/** The problem with the URL itself. A host that the operator allowed may use http. */
function issuerProblem(text: string, allowedHosts: readonly string[]): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:' && url?.protocol !== 'http:') return 'is not an https URL';
  const { username, password, hash, search } = url;
  if (username || password || hash || search) {
    return 'must not contain a user, a password, a query or a fragment';
  }
  if (hasManyTenants(url)) {
    return 'stands for the directories of many companies: use the issuer of your own, for example https://login.microsoftonline.com/TENANT-ID/v2.0';
  }
  return url.protocol === 'https:' || isNamed(url, allowedHosts)
    ? undefined
    : 'is not an https URL';
}
