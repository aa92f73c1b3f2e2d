import type { FastifyReply } from 'fastify';
import { AccountRefusal } from '#accounts/account-refusal';
import type {
  EmailProof,
  IdentityProvider,
  ProviderCheck,
  UpstreamIdentity,
} from '#accounts/openid-provider';
import { type ProviderFault, providerFault } from '#accounts/provider-faults';
import { logoutPathOf } from '#accounts/provider-setup';
import {
  beginUpstreamSignIn,
  finishUpstreamSignIn,
  upstreamPurpose,
} from '#accounts/single-sign-on';
import { notFound } from '#admin/refusal';
import { startOptions, variableOf } from '#config/option';
import { insertAuditEvent } from '#db/audit';
import { findUser } from '#db/people';
import { findUserIdByIdentity } from '#db/identities';
import { summarizeChecks } from '#db/provider-checks';
import { postForm } from '#web/forms';
import { displayName, html, type Html } from '#web/html';
import { type Badge, dashboardPath, type Frame, layout, pageHeading } from '#web/layout';
import { redirectPage } from '#web/messages';
import { queryText, sendPage } from '#web/page-request';
import { providerCallbackPath } from '#web/provider-routes';
import { copyable, type Fact, factList } from '#web/tables';
import type { DashboardGuard, DashboardVisit, FormHandler, PageHandler } from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { type ProviderRemoval, removalSection } from './provider-removal.ts';

const needs = 'people.manage';

/** `/single-sign-on`: the OpenID provider of the whole server, and a test of it that does not sign anyone in. */
export function singleSignOnRoutes(guard: DashboardGuard): void {
  guard.get('/single-sign-on', needs, showProvider);
  guard.post('/single-sign-on/test', needs, testProvider);
  guard.get('/single-sign-on/result', needs, showResult);
}

const showProvider: PageHandler = async (visit, _request, reply, options) =>
  sendProvider(visit, reply, undefined, options);

async function sendProvider(
  visit: DashboardVisit,
  reply: FastifyReply,
  result: TestResult | undefined,
  { base, ports }: DashboardOptions,
) {
  const { identityProvider: provider } = ports;
  const data = {
    home: `${dashboardPath(visit.organization)}/single-sign-on`,
    provider,
    removal: provider && {
      logoutUri: base + logoutPathOf(),
      checking: provider.checking,
      checks: await summarizeChecks(ports.db, provider.issuer),
    },
    redirectUri: base + providerCallbackPath,
    email: visit.person.user.email,
    result,
    now: ports.clock.now(),
  };
  const home = `${dashboardPath(visit.organization)}/sign-in`;
  const crumbs = [{ text: 'Sign-in', href: home }, { text: 'Single sign-on' }];
  return sendDashboardPage(reply, visit, singleSignOnPage, data, { crumbs });
}

function note(
  { person, actor }: DashboardVisit,
  outcome: 'done' | 'refused',
  { db, clock, identityProvider }: DashboardPorts,
) {
  return insertAuditEvent(db, {
    at: clock.now(),
    actor: `user:${person.user.id}`,
    organization: undefined,
    action: 'identity.test',
    target: identityProvider?.issuer,
    address: actor.address,
    requestId: actor.requestId,
    outcome,
  });
}

const testProvider: FormHandler = async (visit, _form, _request, reply, options) => {
  const { identityProvider: provider, ...ports } = options.ports;
  if (!provider) throw notFound('provider');
  const show = (result: TestResult) => sendProvider(visit, reply, result, options);
  const check = await provider.check();
  if (check.outcome === 'failed') return show(checkFailed(check, provider));
  const start = {
    purpose: 'test',
    next: visit.organization,
    cookieToken: visit.person.sessionToken,
  } as const;
  try {
    const { href } = await beginUpstreamSignIn(start, { ...ports, provider });
    return await sendPage(reply, redirectPage, { heading: `To ${provider.name}`, path: href });
  } catch (error) {
    if (!(error instanceof AccountRefusal)) throw error;
    return show(answerInvalid(providerFault(error.cause), provider));
  }
};

const showResult: PageHandler = async (visit, request, reply, options) => {
  const { base, ports } = options;
  const { identityProvider: provider, db } = ports;
  if (!provider) throw notFound('provider');
  const show = (result: TestResult) => sendProvider(visit, reply, result, options);
  const callback = new URL(providerCallbackPath + new URL(request.url, base).search, base);
  const cookieToken = visit.person.sessionToken;
  try {
    if (upstreamPurpose(queryText(request, 'state')) !== 'test') {
      throw new AccountRefusal('state_unknown', 'the state of a sign-in');
    }
    const answer = { callback, cookieToken };
    const { identity } = await finishUpstreamSignIn(answer, { ...ports, provider });
    const userId = await findUserIdByIdentity(db, identity.issuer, identity.subject);
    const account = userId === undefined ? undefined : (await findUser(db, userId))?.email;
    await note(visit, 'done', ports);
    return show(answered(identity, account));
  } catch (error) {
    if (!(error instanceof AccountRefusal)) throw error;
    request.log.info({ code: error.code, reason: error.message }, 'test of single sign-on');
    // Not recorded, because any site can send a browser here with an unknown state, endlessly.
    if (error.code === 'state_unknown') return show(unknownState);
    await note(visit, 'refused', ports);
    return show(answerInvalid(providerFault(error.cause), provider));
  }
};

/** The result of a test, and what to do about it. */
export interface TestResult {
  readonly heading: string;
  readonly isGood: boolean;
  readonly text: string;
  /** What the provider said about the person. */
  readonly facts: readonly Fact[];
}

export const unknownState: TestResult = {
  heading: 'The test was not completed',
  isGood: false,
  text: 'This test was completed before, is older than five minutes, or was started in another browser. Start a new test.',
  facts: [],
};

function checkFailed(
  { what, fault }: Extract<ProviderCheck, { outcome: 'failed' }>,
  { issuer }: IdentityProvider,
): TestResult {
  const read =
    what === 'keys' ? 'the signing keys of the provider' : 'the configuration of the provider';
  return {
    heading: 'The provider cannot be used',
    isGood: false,
    text: `Latchkey could not read ${read} ${issuer} (${quoted(fault)}). ${remedyOf(fault)}`,
    facts: [],
  };
}

function answerInvalid(fault: ProviderFault, { issuer }: IdentityProvider): TestResult {
  const heading = 'The sign-in failed';
  const text = `${wordsOf(fault, issuer)} (${quoted(fault)}). ${remedyOf(fault)}`;
  return { heading, isGood: false, text, facts: [] };
}

export function quoted({ detail }: ProviderFault): string {
  return displayName(detail, 200) || 'no details';
}

export function wordsOf({ code }: ProviderFault, issuer: string): string {
  switch (code) {
    case 'unreachable':
      return `${issuer} could not be reached to complete the sign-in`;
    case 'not-openid':
      return `${issuer} did not respond as an OpenID provider should`;
    case 'other-issuer':
      return `The response does not name ${issuer} as its issuer`;
    case 'sign-in-refused':
      return `${issuer} refused the sign-in`;
    case 'client-refused':
      return `${issuer} did not accept the client ID and secret of this server`;
    case 'code-refused':
      return `${issuer} refused to complete the sign-in`;
    case 'clock':
      return `The ID token of ${issuer} is expired or not valid yet`;
    case 'token-invalid':
      return `The response from ${issuer} does not show who signed in`;
  }
}

/** Says what the operator can do. The text never contains the secret. */
function remedyOf({ code }: ProviderFault): string {
  switch (code) {
    case 'unreachable':
      return 'Check that this server can reach the provider over the network, then test again.';
    case 'not-openid':
      return 'Check that --oidc-issuer is the issuer URL from the provider’s documentation.';
    case 'other-issuer':
      return 'Set --oidc-issuer to exactly the issuer that the provider names, including any slash at its end.';
    case 'sign-in-refused':
      return 'Check at the provider that you may use this application, that its redirect URL is the one below, and that it allows the requested scopes.';
    case 'client-refused':
      return 'Check --oidc-client-id and the file that --oidc-client-secret-file names. The secret may have expired.';
    case 'code-refused':
      return 'Check that the redirect URL below is registered at the provider, exactly as it is.';
    case 'clock':
      return 'Synchronize the clock of this server, for example with NTP, then test again.';
    case 'token-invalid':
      return 'Check that the provider signs ID tokens for the client ID below, with a key that it publishes.';
  }
}

function answered(identity: UpstreamIdentity, account: string | undefined): TestResult {
  const facts = identityFacts(identity, proofWords);
  facts.push({ label: 'Opens the account', text: account ?? 'None' });
  return { ...verdict(identity, account), facts };
}

/** The facts that a provider sent about a person. */
export function identityFacts(
  { issuer, subject, email, emailProof, groups }: UpstreamIdentity,
  proofs: Record<EmailProof, string>,
): Fact[] {
  return [
    { label: 'Issuer', text: displayName(issuer, 200) },
    { label: 'Subject', cell: { kind: 'id', text: displayName(subject, 200) } },
    { label: 'E-mail', text: email === undefined ? 'Not sent' : displayName(email, 200) },
    { label: 'E-mail verified', text: proofs[emailProof] },
    { label: 'Groups', text: groupWords(groups) },
  ];
}

const proofWords: Record<EmailProof, string> = {
  verified: 'Yes',
  trusted: 'Not sent; trusted by --oidc-trust-email',
  unsaid: 'Not sent',
  unverified: 'No',
};

function verdict(
  identity: UpstreamIdentity,
  account: string | undefined,
): Pick<TestResult, 'heading' | 'isGood' | 'text'> {
  if (account === undefined) {
    const remedy = emailRemedy(identity);
    if (remedy !== undefined) {
      const heading = 'This provider account cannot be linked, or used to join';
      return { heading, isGood: false, text: remedy };
    }
    const heading = 'The provider works, but no account is linked';
    const text =
      'No person here has linked this account of the provider. Link it on your account page, or accept an invitation with it.';
    return { heading, isGood: true, text };
  }
  const text = `Signing in with this account of the provider opens the account ${account}.`;
  return { heading: 'Single sign-on works', isGood: true, text };
}

/** Says what to do before an account with this address can be linked; `undefined` if it can be linked now. */
function emailRemedy({ email, emailProof }: UpstreamIdentity): string | undefined {
  if (email === undefined) {
    return 'The provider sent the claim email neither in the ID token nor in userinfo. Configure it to send the claim, and check that this account has an e-mail address there.';
  }
  switch (emailProof) {
    case 'verified':
    case 'trusted':
      return undefined;
    case 'unsaid':
      return 'The provider sent the claim email_verified neither in the ID token nor in userinfo. Configure it to send the claim with the value true. If only administrators of your own provider can set addresses, set --oidc-trust-email instead.';
    case 'unverified':
      return 'The provider sent the claim email_verified with another value than true. Mark the address of this account as verified there.';
  }
}

/** `The client id`: the first letter in upper case. */
function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const mostGroups = 20;

function groupWords(groups: readonly string[]): string {
  if (groups.length === 0) return 'None sent';
  const shown = groups.slice(0, mostGroups).map((name) => displayName(name, 60));
  const more = groups.length - shown.length;
  return shown.join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/** The provider, if there is one, and the result of a test. */
interface SingleSignOnData {
  /** Path of the page. */
  readonly home: string;
  readonly provider: IdentityProvider | undefined;
  readonly redirectUri: string;
  readonly removal: ProviderRemoval | undefined;
  /** The person who would make a test. */
  readonly email: string;
  readonly result: TestResult | undefined;
  readonly now: number;
}

const states = {
  on: { text: 'Configured', tone: 'good' },
  off: { text: 'Not configured', tone: 'plain' },
} as const satisfies Record<string, Badge>;

/** The state of single sign-on, how to configure it, and its test. */
function singleSignOnPage(data: SingleSignOnData, frame: Frame): Html {
  const { provider, result, redirectUri, now } = data;
  const lead =
    'People sign in with their accounts of your OpenID provider. The provider serves all organizations of this server.';
  const badges = [provider ? states.on : states.off];
  const content = html`${pageHeading({ heading: 'Single sign-on', lead, badges })}
${result && resultSection(result, now)}
${provider && providerSection(provider, now)}
${provider && testSection(data, frame)}
${data.removal && removalSection(data.removal, now)}
<section class="section" aria-labelledby="set-up-heading">
<h2 id="set-up-heading">${provider ? 'Change the configuration' : 'Set up single sign-on'}</h2>
<ol class="steps">
<li>At the provider, register Latchkey as a web application with this redirect URL:
${copyable(redirectUri, 'the redirect URL')}</li>
<li>Save the client secret in a file that only the account of this server can read.</li>
<li>Set these options, or environment variables, where this server is started, and restart it. The first three are required.
${optionTable()}</li>
</ol>
</section>`;
  return layout({ title: 'Single sign-on', width: 'text' }, frame, content);
}

export function resultSection({ heading, isGood, text, facts }: TestResult, now: number): Html {
  return html`<section class="notice${!isGood && ' warning'} group" role="status" aria-labelledby="result-heading">
<h2 id="result-heading">${heading}</h2>
<p dir="auto">${text}</p>
${facts.length > 0 && factList(facts, now)}
</section>`;
}

function providerSection(
  { name, issuer, clientId, groupsClaim, scopes, trustsEmail }: IdentityProvider,
  now: number,
): Html {
  const facts: readonly Fact[] = [
    { label: 'Name', text: name },
    { label: 'Issuer', cell: { kind: 'address', text: issuer } },
    { label: 'Client ID', cell: { kind: 'address', text: clientId } },
    { label: 'Client secret', text: 'Set; never shown' },
    { label: 'Requested scopes', text: ['openid', 'email', ...scopes].join(' ') },
    { label: 'Groups claim', text: groupsClaim },
    {
      label: 'Addresses without email_verified',
      text: trustsEmail ? 'Trusted' : 'Not trusted',
    },
  ];
  return html`<section class="group" aria-labelledby="provider-heading">
<h2 id="provider-heading">Provider</h2>
${factList(facts, now)}
</section>`;
}

function testSection({ home, email }: SingleSignOnData, frame: Frame): Html {
  return html`<section class="section" aria-labelledby="test-heading">
<h2 id="test-heading">Test</h2>
<p class="help">Latchkey reads the configuration and the keys of the provider. Then you sign in at the provider, and this page shows its answer. You stay signed in here as ${email}, and nothing changes.</p>
${postForm(frame, { action: `${home}/test` }, html`<div class="actions"><button class="primary">Test sign-in</button></div>`)}
</section>`;
}

function optionTable(): Html {
  const options = startOptions.filter(({ name }) => name.startsWith('oidc-'));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Options of single sign-on">
<table>
<caption class="unseen">Options of single sign-on</caption>
<thead>
<tr><th scope="col">Option and environment variable</th><th scope="col">Meaning</th></tr>
</thead>
<tbody>
${options.map(
  (option) =>
    html`<tr>
<th scope="row" class="variable"><code>--${option.name}</code><br><code class="soft">${variableOf(option)}</code></th>
<td data-label="Meaning">${sentence(option.doc)}</td>
</tr>`,
)}
</tbody>
</table>
</div>`;
}
