import { hiddenFields } from './granting-server.ts';
import { visitor, type Visitor } from './visitor.ts';

export interface Person {
  readonly email: string;
  readonly password: string;
}

/**
 * Acts as a person in a browser on the page that an application opens: signs in, reads who asks for what,
 * and allows it. Returns the URL of the redirect, which is not followed.
 *
 * @throws {Error} when a page on the way is not the one that was expected
 */
export async function allow(
  page: URL,
  person: Person,
  { beforeDeciding }: { beforeDeciding?: () => Promise<void> } = {},
): Promise<URL> {
  const { browser, answer } = await signInTo(page, person);
  const consent = await answer.text();
  if (!consent.includes(person.email)) throw new Error(`not asked as ${person.email}:\n${consent}`);
  const fields = { ...hiddenFields(consent, '/oauth/consent'), decision: 'allow' };
  await beforeDeciding?.();
  const decided = await browser.post('/oauth/consent', fields);
  if (decided.status !== 303) throw new Error(`not sent back: ${decided.status}`);
  return new URL(decided.headers.get('location') ?? '');
}

/** Signs a person in on the way to the page; the browser, and the answer of the page. */
export async function signInTo(
  page: URL,
  { email, password }: Person,
): Promise<{ browser: Visitor; answer: Response }> {
  const { origin: base } = page;
  const browser = visitor(base);
  const asked = await browser.get(`${page.pathname}${page.search}`);
  const signIn = new URL(asked.headers.get('location') ?? '', base);
  const next = signIn.searchParams.get('next') ?? '';
  if (signIn.pathname !== '/sign-in') throw new Error(`not asked to sign in but ${signIn.href}`);
  const onward = await browser.signIn(email, password, next);
  if (onward.status !== 200) throw new Error(`not signed in: ${onward.status}`);
  return { browser, answer: await browser.get(next) };
}
