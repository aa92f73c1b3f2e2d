import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { singleSignOn, type SingleSignOnOptions } from '#support/single-sign-on';
import { visitor, type Visitor } from '#support/visitor';

// An independent provider (oidc-provider) tells about people what Microsoft Entra ID, Keycloak and others do.
const password = 'correct horse battery';

/** What the provider tells about a person, by the name that they sign in with there. */
const told: Record<string, (use: 'id_token' | 'userinfo') => Record<string, unknown>> = {
  dana: () => ({ email: 'dana@example.com' }),
  nora: () => ({ email: 'nora@example.com' }),
  unverified: () => ({ email: 'una@example.com', email_verified: false }),
  nameless: () => ({}),
  split: (use) => ({
    email: 'split@example.com',
    ...(use === 'userinfo' && { email_verified: true, groups: ['sales'] }),
  }),
  // The address in userinfo is verified, and that in the ID token is not.
  other: (use) =>
    use === 'userinfo'
      ? { email: 'other@example.com', email_verified: true }
      : { email: 'boss@example.com' },
};

/** A server and its provider, and what people do with both. */
async function company(options: SingleSignOnOptions) {
  const sso = await singleSignOn({
    ...options,
    claims: (sub, use) => told[sub]?.(use) ?? { email: `${sub}@example.com`, email_verified: true },
  });
  const { base, command, program } = sso.server;
  await command(['organization', 'create', 'acme']);
  const words = ['user', 'create', 'owner@example.com', '--organization', 'acme'];
  await command([...words, '--role', 'owner'], password);
  const owner = visitor(base);
  await owner.signIn('owner@example.com', password);

  /** Presses the button at `action`, signs in at the provider as `name`, and returns the page to which this leads. */
  const through = async (visit: Visitor, page: string, action: string, name: string) => {
    const csrf_token = await visit.csrfToken(page);
    const html = await (await visit.post(action, { csrf_token, next: '/account' })).text();
    const href = /content="0; url=([^"]+)"/.exec(html)?.[1]?.replaceAll('&amp;', '&') ?? '';
    const { pathname, search } = await sso.consent(href, name);
    const answer = await visit.get(pathname + search);
    return { visit, status: answer.status, text: await answer.text() };
  };
  return {
    close: () => sso[Symbol.asyncDispose](),
    log: () => program.stderr,
    /** A person with a password links their account at the provider. */
    async link(email: string, name: string) {
      await command(
        ['user', 'create', email, '--organization', 'acme', '--role', 'member'],
        password,
      );
      const visit = visitor(base);
      await visit.signIn(email, password);
      return through(visit, '/account', '/account/provider', name);
    },
    signIn: (name: string) => through(visitor(base), '/sign-in', '/sign-in/provider', name),
    /** A person without an account accepts an invitation. */
    async join(name: string) {
      const at = '/dashboard/acme/people/invite';
      const form = await (await owner.submit(at, { note: name, role: 'member' })).text();
      const invitation = /\/invitation\/[\w-]+/.exec(form)?.[0] ?? '';
      return through(visitor(base), invitation, `${invitation}/provider`, name);
    },
  };
}

/** Opens a company for the tests of a suite. */
function companyOf(options: SingleSignOnOptions) {
  let open: Awaited<ReturnType<typeof company>> | undefined;
  beforeAll(async () => {
    open = await company(options);
  });
  afterAll(() => open?.close());
  return () => {
    if (!open) throw new Error('not open');
    return open;
  };
}

describe('a provider that is not trusted with addresses, and requires pushed requests', () => {
  const at = companyOf({ requiresPushedRequests: true });

  test('84: unverified address: without email_verified it links and joins no one, and page and log name the claim', async () => {
    const linked = await at().link('dana@example.com', 'dana');
    const joined = await at().join('nora');
    const equal = await at().signIn('dana');

    for (const { status, text } of [linked, joined]) {
      expect(status).toBe(403);
      expect(text).toContain('did not send the claim email_verified');
    }
    expect(at().log()).toContain('the claim email_verified is missing');
    expect(equal.status).toBe(403);
    expect(equal.text).toContain('not linked to an account here');
  });

  test('84: userinfo: claims that the ID token leaves out are read there', async () => {
    const joined = await at().join('split');
    const signedIn = await at().signIn('split');

    expect([joined.status, signedIn.status]).toEqual([303, 303]);
  });

  test('84: userinfo: its claim about one address verifies no other', async () => {
    const { visit, status } = await at().join('other');
    const account = await (await visit.get('/account')).text();

    expect(status).toBe(303);
    expect(account).toContain('other@example.com');
    expect(account).not.toContain('boss@example.com');
  });
});

describe('a provider that --oidc-trust-email trusts', () => {
  const at = companyOf({ args: ['--oidc-trust-email'] });

  test('84: trusted issuer: an address without email_verified links and joins, and a linked person signs in', async () => {
    const linked = await at().link('dana@example.com', 'dana');
    const joined = await at().join('nora');
    const signedIn = [await at().signIn('dana'), await at().signIn('nora')];

    expect([linked, joined, ...signedIn].map(({ status }) => status)).toEqual([303, 303, 303, 303]);
  });

  test('84: trusted issuer: an address that it calls unverified, or does not send, joins no one', async () => {
    const unverified = await at().join('unverified');
    const nameless = await at().join('nameless');

    expect([unverified.status, nameless.status]).toEqual([403, 403]);
    expect(unverified.text).toContain('has not verified your e-mail address');
    expect(nameless.text).toContain('did not send the claim email.');
  });

  test('84: linked subject: a person signs in with an address that is unverified or missing by then', async () => {
    const linked = await at().link('una@example.com', 'una');
    told['una'] = () => ({ email: 'una@example.com', email_verified: false });
    const unverified = await at().signIn('una');
    told['una'] = () => ({});
    const nameless = await at().signIn('una');

    expect([linked, unverified, nameless].map(({ status }) => status)).toEqual([303, 303, 303]);
  });
});
