/** A browser without scripts, as far as Latchkey's pages need one: cookies, forms and their hidden fields. */
export interface Visitor {
  readonly cookies: Map<string, string>;
  get(path: string, headers?: Record<string, string>): Promise<Response>;
  post(
    path: string,
    fields: Record<string, string>,
    headers?: Record<string, string>,
  ): Promise<Response>;
  /** The CSRF token of the forms on a page. */
  csrfToken(path: string): Promise<string>;
  /** Opens the page at `path` and posts its form to the same path, with these fields filled in. */
  submit(path: string, fields: Record<string, string>): Promise<Response>;
  signIn(email: string, password: string, next?: string): Promise<Response>;
}

/** Redirects are not followed; a test looks at them. `address` is claimed by `X-Forwarded-For`. */
export function visitor(base: string, { address }: { address?: string } = {}): Visitor {
  const cookies = new Map<string, string>();
  const send = async (path: string, init: RequestInit): Promise<Response> => {
    const headers = new Headers(init.headers);
    headers.set('Cookie', [...cookies].map(([name, value]) => `${name}=${value}`).join('; '));
    if (address !== undefined) headers.set('X-Forwarded-For', address);
    const answer = await fetch(base + path, { ...init, headers, redirect: 'manual' });
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (/Max-Age=0/.test(line)) cookies.delete(name);
      else cookies.set(name, value);
    }
    return answer;
  };
  const visit: Visitor = {
    cookies,
    get: (path, headers = {}) => send(path, { headers }),
    post: (path, fields, headers = {}) =>
      send(path, {
        method: 'POST',
        headers: { Origin: base, ...headers },
        body: new URLSearchParams(fields),
      }),
    async csrfToken(path) {
      const html = await (await visit.get(path)).text();
      return /name="csrf_token" value="([^"]+)"/.exec(html)?.[1] ?? '';
    },
    async submit(path, fields) {
      return visit.post(path, { csrf_token: await visit.csrfToken(path), ...fields });
    },
    async signIn(email, password, next) {
      const token = await visit.csrfToken('/sign-in');
      const fields = { csrf_token: token, email, password, ...(next !== undefined && { next }) };
      return visit.post('/sign-in', fields);
    },
  };
  return visit;
}
