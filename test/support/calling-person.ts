import { pkcePair } from './authorization-server.ts';
import { allow } from './consenting-person.ts';
import type { ServerProcess } from './server-process.ts';
import { type Visitor, visitor } from './visitor.ts';

const password = 'correct horse battery';
const redirectUri = 'http://127.0.0.1:49152/callback';

/** A person of an organization in their own browser, with a token for the admin API and applications that call for them. */
export interface CallingPerson {
  readonly email: string;
  /** Signed in. */
  readonly browser: Visitor;
  /** A request to the admin API, below `/organizations`. Default: `GET`. */
  readonly ask: (
    path: string,
    request?: { readonly method?: string; readonly body?: unknown },
  ) => Promise<Response>;
  /** Allows a client access and returns its token; for a client that belongs to no server, `resource` is the URL of one. */
  readonly allow: (clientId: string, scope?: string, resource?: string) => Promise<string>;
}

/** Creates a person, signs them in, and creates their personal access token. */
export async function callingPerson(
  { base, command }: Pick<ServerProcess, 'base' | 'command'>,
  email: string,
  { organization, role }: { readonly organization: string; readonly role: string },
): Promise<CallingPerson> {
  const made = ['user', 'create', email, '--organization', organization, '--role', role];
  await command(made, `${password}\n`);
  const { token } = JSON.parse(
    await command(['token', 'create', email, '--name', 'script', '--json']),
  );
  const browser = visitor(base);
  await browser.signIn(email, password);
  return {
    email,
    browser,
    ask: (path, { method = 'GET', body } = {}) =>
      fetch(`${base}/api/admin/organizations${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
    async allow(clientId, scope = 'mcp:tools:read mcp:tools:execute', resource) {
      const { challenge, verifier } = pkcePair();
      const asked = {
        client_id: clientId,
        response_type: 'code',
        redirect_uri: redirectUri,
        scope,
        state: 'a state',
        code_challenge: challenge,
        code_challenge_method: 'S256',
        ...(resource !== undefined && { resource }),
      };
      const page = new URL(`${base}/oauth/consent?${new URLSearchParams(asked).toString()}`);
      const answer = await allow(page, { email, password });
      const redeemed = await fetch(`${base}/api/oauth/token`, {
        method: 'POST',
        body: new URLSearchParams({
          grant_type: 'authorization_code',
          code: answer.searchParams.get('code') ?? '',
          code_verifier: verifier,
          client_id: clientId,
          redirect_uri: redirectUri,
        }),
      });
      const { access_token } = Object(await redeemed.json());
      return String(access_token);
    },
  };
}
