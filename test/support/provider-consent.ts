/**
 * Signs in as `login` on the pages of oidc-provider that follow `page`, and consents, without a browser. Returns the URL to
 * which the provider then redirects.
 */
export async function consentAt(
  page: string,
  { issuer, login }: { issuer: string; login: string },
): Promise<URL> {
  const cookies = new Map<string, string>();
  const send = async (url: string, init: RequestInit = {}) => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(url, { ...init, headers: { cookie }, redirect: 'manual' });
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      cookies.set(name, value);
    }
    return answer;
  };
  let url = page;
  for (let steps = 0; steps < 20; steps += 1) {
    let answer = await send(url);
    if (answer.status === 200) {
      const html = await answer.text();
      const prompt = /name="prompt" value="(\w+)"/.exec(html)?.[1] ?? '';
      const action = /action="([^"]+)"/.exec(html)?.[1] ?? '';
      const body = new URLSearchParams({ prompt, login, password: 'x' });
      answer = await send(new URL(action, issuer).href, { method: 'POST', body });
    }
    const location = answer.headers.get('location');
    if (location === null) throw new Error(`${url} answers ${answer.status}`);
    url = new URL(location, url).href;
    if (!url.startsWith(issuer)) return new URL(url);
  }
  throw new Error('the authorization server leads nowhere');
}
