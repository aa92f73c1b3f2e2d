import type { FastifyReply, FastifyRequest } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import {
  enterThrough,
  isForSignIn,
  type OwnedProvider,
  usableProvider,
} from '#accounts/organization-providers';
import { ownPath } from '#accounts/sign-in';
import {
  beginUpstreamSignIn,
  finishUpstreamSignIn,
  upstreamNext,
  upstreamPurpose,
} from '#accounts/single-sign-on';
import { findProvider, listProviders, type ProviderRecord } from '#db/identity-providers';
import { findProvedDomain } from '#db/organization-domains';
import { findOrganization } from '#db/organizations';
import { domainOf } from '#model/email';
import { isSlug } from '#model/slug';
import { companySignInPath, dashboardPath } from './layout.ts';
import { redirectPage } from './messages.ts';
import { queryText, readCookie, seeOther, sendPage } from './page-request.ts';
import { browserCsrfToken, browserToken, visitOf, type VisitorGuard } from './page-session.ts';
import {
  type PeoplePorts,
  type PeopleRoutesOptions,
  sendOnward,
  signInBrowser,
  type SignInForm,
  type SignInPage,
} from './sign-in-routes.ts';
import { companySignInPage, type CompanySignInData } from './sign-in.ts';

/** Where the answer to a test of an organization's provider is shown. */
function providerTestPath(organization: string, providerId: string): string {
  return `${dashboardPath(organization)}/sign-in/providers/${providerId}`;
}

/**
 * `/sign-in/organization` asks for a work address or an organization and leads to its identity provider. Each provider has a redirect
 * URI of its own, so that the response of one cannot be taken for that of another. RFC 9700 §4.4
 */
export function memberSignInRoutes(guard: VisitorGuard<PeopleRoutesOptions>): void {
  guard.get(companySignInPath, askForOrganization);
  guard.post(companySignInPath, leadToOrganization);
  guard.post('/sign-in/provider/:providerId', startAtProvider);
  guard.get('/sign-in/provider/:providerId/callback', finish);
}

const askForOrganization: SignInPage = async (request, reply, { base }) => {
  const who = queryText(request, 'organization') ?? '';
  const next = ownPath(queryText(request, 'next'), base);
  return sendCompanySignIn(request, reply, { who, next, providers: [], errors: [] }, base);
};

const leadToOrganization: SignInForm = async (form, request, reply, options) => {
  const { base, people } = options;
  const who = (form.get('who') ?? '').trim();
  const next = ownPath(form.get('next'), base);
  const providers = await providersFor(who, people);
  const [only, ...others] = providers;
  if (only && others.length === 0) return lead(request, reply, { provider: only, next }, options);
  // Unknown and disabled organizations, and those without a provider, are not distinguished.
  const message =
    'No company sign-in is set up for this. Check the spelling, or sign in with your password.';
  const errors = only ? [] : [{ field: 'who', message }];
  return sendCompanySignIn(request, reply, { who, next, providers, errors }, base);
};

const startAtProvider: SignInForm = async (form, request, reply, options) => {
  const { base, people } = options;
  const provider = await usableProvider(people.db, request.params['providerId'] ?? '');
  const next = ownPath(form.get('next'), base);
  return lead(request, reply, { provider, next }, options);
};

/** The providers for signing in to the organization that has this name, or that has proved the domain of this address. */
async function providersFor(who: string, { db }: PeoplePorts): Promise<ProviderRecord[]> {
  const id = who.includes('@')
    ? (await findProvedDomain(db, domainOf(who)))?.organizationId
    : (await findOrganization(db, who.toLowerCase()))?.id;
  const all = id === undefined ? [] : await listProviders(db, id);
  const [first] = all;
  // `findProvider` finds nothing for a disabled organization.
  if (!first || !(await findProvider(db, first.id))) return [];
  return all.filter((one) => isForSignIn(one) && one.disabledAt === undefined);
}

function sendCompanySignIn(
  request: FastifyRequest,
  reply: FastifyReply,
  data: CompanySignInData,
  base: string,
): FastifyReply {
  return sendPage(reply, companySignInPage, data, {
    csrfToken: browserCsrfToken(request, reply, base),
  });
}

async function lead(
  request: FastifyRequest,
  reply: FastifyReply,
  { provider, next }: { provider: ProviderRecord; next: string },
  { base, people }: PeopleRoutesOptions,
): Promise<FastifyReply> {
  const client = people.providerSetup.clientOf(provider);
  const cookieToken = browserToken(request, reply, base);
  const start = { purpose: 'member', next, cookieToken } as const;
  const { href } = await beginUpstreamSignIn(start, { ...people, provider: client });
  return sendPage(reply, redirectPage, { heading: `To ${provider.name}`, path: href });
}

/** The browser comes back from the provider. */
const finish: SignInPage = async (request, reply, options) => {
  const { base, people } = options;
  const { providerId = '' } = request.params;
  const callback = new URL(request.url, base);
  const state = queryText(request, 'state');
  if (upstreamPurpose(state) === 'member-test') {
    // Only redirects, because the organization is not verified yet. The page checks session, role and state.
    const organization = upstreamNext(state);
    if (!isSlug(organization)) throw new AccountRefusal('state_unknown', 'no organization');
    return seeOther(
      reply,
      `${providerTestPath(organization, providerId)}/result${callback.search}`,
    );
  }
  const provider = await usableProvider(people.db, providerId);
  const cookieToken = readCookie(request.headers.cookie, 'latchkey-browser', base);
  if (upstreamPurpose(state) !== 'member' || cookieToken === undefined) {
    throw new AccountRefusal('state_unknown', 'no sign-in at this provider, or no cookie');
  }
  const { session, next } = await entered(request, { callback, cookieToken, provider }, people);
  await signInBrowser(request, reply, session, options);
  return sendOnward(reply, next === '/' ? dashboardPath(provider.organization) : next, base);
};

/** Completes a sign-in. Records an invalid answer of the provider. */
async function entered(
  request: FastifyRequest,
  {
    callback,
    cookieToken,
    provider,
  }: { callback: URL; cookieToken: string; provider: OwnedProvider },
  people: PeoplePorts,
) {
  const visit = visitOf(request);
  const client = people.providerSetup.clientOf(provider);
  try {
    const answer = { callback, cookieToken };
    const { identity, next } = await finishUpstreamSignIn(answer, { ...people, provider: client });
    return { session: await enterThrough(identity, provider, visit, people), next };
  } catch (error) {
    if (error instanceof AccountRefusal && error.code === 'identity_invalid') {
      await people.refusals.note({
        actor: 'anonymous',
        organization: provider.organization,
        action: 'sign-in',
        target: `provider:${provider.id} identity-invalid`,
        address: visit.address,
        requestId: visit.requestId,
      });
    }
    throw error;
  }
}
