import type { Browser, GrantingServer } from './granting-server.ts';

const hiddenField = /name="(csrf_token|place)" value="([^"]+)"/g;

/** A person who opens the page of their own key in a browser, and sends its form. */
export interface EnteringPerson extends Browser {
  readonly page: () => Promise<string>;
  /**
   * Sends the key; the URL of the redirect, or the page that explains why the key was not saved. `shown` is the page whose form is
   * sent; by default the page is opened now.
   */
  readonly enter: (key: string, shown?: string) => Promise<string>;
  readonly press: (path: string) => Promise<string>;
}

/** The page of the key for a server of acme. */
export function keyPage(name = 'sales'): string {
  return `/dashboard/acme/servers/${name}/account`;
}

export function enteringPerson(
  { base }: Pick<GrantingServer, 'base'>,
  browser: Browser,
  path = keyPage(),
): EnteringPerson {
  const headers = { cookie: browser.cookie, origin: base };
  const page = async () => (await fetch(base + path, { headers })).text();
  const send = async (to: string, fields: Record<string, string>, shown?: string) => {
    const html = shown ?? (await page());
    const body = new URLSearchParams(fields);
    for (const [, name = '', value = ''] of html.matchAll(hiddenField)) body.set(name, value);
    const answer = await fetch(base + path + to, {
      method: 'POST',
      headers,
      body,
      redirect: 'manual',
    });
    return answer.headers.get('location') ?? answer.text();
  };
  return {
    ...browser,
    page,
    enter: (key, shown) => send('/key', { key }, shown),
    press: (to) => send(to, {}),
  };
}
