import type { FastifyReply } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import type { EmailProof, IdentityProvider, UpstreamIdentity } from '#accounts/openid-provider';
import { type Entry, entryOf, isEntryOf, type NoEntry } from '#accounts/organization-providers';
import { type ProviderFault, providerFault } from '#accounts/provider-faults';
import {
  beginUpstreamSignIn,
  finishUpstreamSignIn,
  upstreamPurpose,
} from '#accounts/single-sign-on';
import { ownProvider } from '#admin/identity-providers';
import { notFound } from '#admin/refusal';
import { insertAuditEvent } from '#db/audit';
import { noteProviderTest, type ProviderRecord } from '#db/identity-providers';
import { findOrganization } from '#db/organizations';
import { findUser } from '#db/people';
import { displayName } from '#web/html';
import { redirectPage } from '#web/messages';
import { queryText, sendPage } from '#web/page-request';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { identityFacts, quoted, type TestResult, unknownState, wordsOf } from './single-sign-on.ts';

type Show = (
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  shown: { readonly result?: TestResult },
  options: DashboardOptions,
) => Promise<FastifyReply>;

const needs = 'provider.manage';

/** A test of a provider that signs no one in. `path` is the path of the provider's page. */
export function testRoutes(guard: DashboardGuard, path: string, show: Show): void {
  guard.post(`${path}/test`, needs, beginTest(show));
  guard.get(`${path}/result`, needs, showResult(show));
}

async function providerOf(
  visit: DashboardVisit,
  request: DashboardRequest,
  ports: DashboardPorts,
): Promise<ProviderRecord> {
  const organization = await findOrganization(ports.db, visit.organization);
  if (!organization) throw notFound('identity provider');
  const provider = await ownProvider(organization, request.params['providerId'] ?? '', ports);
  if (provider.disabledAt !== undefined) throw notFound('identity provider');
  return provider;
}

const beginTest =
  (show: Show): FormHandler =>
  async (visit, _sent, request, reply, options) => {
    const { ports } = options;
    const client = ports.providerSetup.clientOf(await providerOf(visit, request, ports));
    const answer = (result: TestResult) => show(visit, request, reply, { result }, options);
    const check = await client.check();
    if (check.outcome === 'failed') return answer(failed(check.fault, client));
    const { organization: next } = visit;
    const start = {
      purpose: 'member-test',
      next,
      cookieToken: visit.person.sessionToken,
    } as const;
    try {
      const { href } = await beginUpstreamSignIn(start, { ...ports, provider: client });
      return await sendPage(reply, redirectPage, { heading: `To ${client.name}`, path: href });
    } catch (error) {
      if (!(error instanceof AccountRefusal)) throw error;
      return answer(failed(providerFault(error.cause), client));
    }
  };

const showResult =
  (show: Show): PageHandler =>
  async (visit, request, reply, options) => {
    const { base, ports } = options;
    const provider = await providerOf(visit, request, ports);
    const client = ports.providerSetup.clientOf(provider);
    const answer = (result: TestResult) => show(visit, request, reply, { result }, options);
    const callback = new URL(ports.providerSetup.redirectUriOf(provider.id) ?? base);
    callback.search = new URL(request.url, base).search;
    try {
      if (upstreamPurpose(queryText(request, 'state')) !== 'member-test') {
        throw new AccountRefusal('state_unknown', 'the state of a sign-in');
      }
      const brought = { callback, cookieToken: visit.person.sessionToken };
      const { identity } = await finishUpstreamSignIn(brought, { ...ports, provider: client });
      const owned = { ...provider, organization: visit.organization };
      const entry = await entryOf(identity, owned, ports);
      const { id: userId } = visit.person.user;
      const isMine = isEntryOf(entry, userId);
      if (isMine && visit.role === 'owner') {
        await noteProviderTest(ports.db, provider, { at: ports.clock.now(), by: userId });
      }
      await note(visit, provider, isMine ? 'done' : 'refused', ports);
      return await answer(await answered(identity, entry, { userId, ports }));
    } catch (error) {
      if (!(error instanceof AccountRefusal)) throw error;
      request.log.info({ code: error.code, reason: error.message }, 'test of a provider');
      // Not recorded, because any site can send a browser here with an unknown state, endlessly.
      if (error.code === 'state_unknown') return answer(unknownState);
      await note(visit, provider, 'refused', ports);
      return answer(failed(providerFault(error.cause), client));
    }
  };

function note(
  { person, organization, actor }: DashboardVisit,
  { id }: ProviderRecord,
  outcome: 'done' | 'refused',
  { db, clock }: DashboardPorts,
) {
  return insertAuditEvent(db, {
    at: clock.now(),
    actor: `user:${person.user.id}`,
    organization,
    action: 'provider.test',
    target: `provider:${id}`,
    address: actor.address,
    requestId: actor.requestId,
    outcome,
  });
}

function failed(fault: ProviderFault, { issuer }: Pick<IdentityProvider, 'issuer'>): TestResult {
  return {
    heading: 'The provider cannot be used',
    isGood: false,
    text: `${wordsOf(fault, issuer)} (${quoted(fault)}). ${remedyOf(fault)}`,
    facts: [],
  };
}

/** Says what an owner can do. The text never contains the secret. */
function remedyOf({ code }: ProviderFault): string {
  switch (code) {
    case 'unreachable':
      return 'Check the issuer. For a provider in your own network, ask the operator of Latchkey to allow its host.';
    case 'not-openid':
    case 'other-issuer':
      return 'Check the issuer: remove this provider and add it with the exact issuer from its documentation.';
    case 'sign-in-refused':
      return 'Check at the provider that you may use this application, and that the redirect URL below is registered there.';
    case 'client-refused':
      return 'Check the client ID and the client secret. The secret may have expired.';
    case 'code-refused':
      return 'Check that the redirect URL below is registered at the provider, exactly as it is.';
    case 'clock':
      return 'The clocks of this server and the provider differ. Ask the operator of Latchkey.';
    case 'token-invalid':
      return 'Check that the provider signs ID tokens for the client ID below, with a key that it publishes.';
  }
}

const proofWords: Record<EmailProof, string> = {
  verified: 'Yes',
  trusted: 'Not sent; trusted',
  unsaid: 'Not sent',
  unverified: 'No',
};

async function answered(
  identity: UpstreamIdentity,
  entry: Entry,
  { userId, ports }: { userId: string; ports: DashboardPorts },
): Promise<TestResult> {
  const facts = identityFacts(identity, proofWords);
  const { acr, amr } = identity.authentication;
  facts.push(
    {
      label: 'Methods (amr)',
      text: amr.map((one) => displayName(one, 40)).join(', ') || 'None sent',
    },
    { label: 'Class (acr)', text: acr === undefined ? 'Not sent' : displayName(acr, 100) },
  );
  if (isEntryOf(entry, userId)) {
    const text = 'Signing in with this account of the provider opens this organization for you.';
    return { heading: 'Single sign-on works', isGood: true, text, facts };
  }
  const heading = 'The provider works, but this account does not let you in';
  return { heading, isGood: false, text: await whyNot(entry, ports), facts };
}

async function whyNot(entry: Entry, { db }: DashboardPorts): Promise<string> {
  switch (entry.outcome) {
    case 'linked':
    case 'linkable': {
      const email = (await findUser(db, entry.userId))?.email ?? 'another person';
      return `It opens the organization for ${email}. Test with your own account there.`;
    }
    case 'joining':
      return `It would join as a new member with the address ${entry.email}. Test with an account that has your own address.`;
    case 'refused':
      return noEntryWords[entry.why];
  }
}

const noEntryWords: Record<NoEntry, string> = {
  'email-missing':
    'The provider sent no e-mail address. Configure it to send the claim email, in the ID token or in userinfo.',
  'email-unverified':
    'The provider does not say that it verified the address. Configure it to send email_verified with the value true, or, if only your administrators can set addresses there, trust addresses without that claim.',
  'domain-unproved': 'The domain of the address is not proved. Add it on the page Sign-in.',
  'domain-foreign':
    'The account does not belong to a domain at Google (claim hd) that this organization has proved.',
  'no-member':
    'No member of this organization has the address. Invite the person, or let people join by signing in.',
  'other-account':
    'Another account at this provider is linked to the member with this address. Unlink it below first.',
  'address-taken':
    'A person outside this organization has an account here with the address. Invite them.',
  deactivated:
    'The directory of this organization deactivated the person. Activate them there, or remove their entry.',
};
