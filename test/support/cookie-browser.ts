/** A browser without scripts: it follows redirects, and keeps each host's cookies for all its ports. */
export interface CookieBrowser {
  /** Opens an address and follows its redirects to the last page. */
  open(address: string | URL): Promise<Response>;

  /** One request, whose redirect is not followed. */
  step(address: string | URL): Promise<Response>;

  /** Where an address redirects to. */
  follow(address: string | URL): Promise<URL>;
}

const mostRedirects = 10;

export function cookieBrowser(): CookieBrowser {
  const jars = new Map<string, Map<string, string>>();
  const jarOf = ({ hostname }: URL) => {
    const jar = jars.get(hostname) ?? new Map<string, string>();
    jars.set(hostname, jar);
    return jar;
  };

  async function step(address: string | URL): Promise<Response> {
    const url = new URL(address);
    const jar = jarOf(url);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(url, { redirect: 'manual', headers: cookie ? { cookie } : {} });
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      jar.set(name, value);
    }
    return answer;
  }

  return {
    step,
    async follow(address) {
      const answer = await step(address);
      await answer.arrayBuffer();
      return new URL(answer.headers.get('location') ?? '', address);
    },
    async open(address) {
      let url = new URL(address);
      for (let count = 0; count <= mostRedirects; count += 1) {
        const answer = await step(url);
        const location = answer.headers.get('location');
        if (location === null) return answer;
        await answer.arrayBuffer();
        url = new URL(location, url);
      }
      throw new Error(`more than ${mostRedirects} redirects from ${String(address)}`);
    },
  };
}
