import { randomUUID } from 'node:crypto';

import type { CryptoKey } from 'jose';
import { z } from 'zod';

import {
  assertionIssuer,
  type AssertionIssuer,
  jwtBearer,
  type Signed,
} from './assertion-issuer.ts';
import { serverProcess, type ServerProcess, type ServerProcessOptions } from './server-process.ts';

const password = 'correct horse battery';
const madeProvider = z.object({ id: z.string() });
const madeClient = z.object({ client_id: z.string(), client_secret: z.string() });

const answerSchema = z.object({
  error: z.string().optional(),
  access_token: z.string().optional(),
  scope: z.string().optional(),
});

type Fields = Readonly<Record<string, string | undefined>>;

export interface TokenAnswer {
  readonly status: number;
  readonly body: z.output<typeof answerSchema>;
}

/**
 * A server with two organizations, acme and other, each with the servers `sales` and `wiki`, a provider that vouches for its members
 * (`id`, `otherId`) and a client of the whole organization. Dana is a member of acme, Eve of other.
 */
export interface VouchingCompany extends AsyncDisposable {
  readonly server: ServerProcess;
  readonly id: AssertionIssuer;
  readonly otherId: AssertionIssuer;
  readonly providerId: string;
  readonly otherProviderId: string;
  readonly client: { readonly id: string; readonly secret: string };
  readonly otherClient: { readonly id: string; readonly secret: string };
  /** An assertion about Dana that is right, except for the claims and header members in `but`. */
  assertion(but?: Signed, key?: CryptoKey | Uint8Array): Promise<string>;
  /** Exchanges an assertion as acme's client with the right fields, except those in `but`. */
  exchange(assertion: string, but?: Fields, headers?: Record<string, string>): Promise<TokenAnswer>;
  /** The status of an MCP call with Dana's token. */
  call(accessToken: string, path?: string): Promise<number>;
}

export async function vouchingCompany(
  options: ServerProcessOptions = {},
): Promise<VouchingCompany> {
  const id = await assertionIssuer();
  const otherId = await assertionIssuer();
  const hosts = ['--outbound-host', '127.0.0.1'];
  const server = await serverProcess({ ...options, args: [...hosts, ...(options.args ?? [])] });
  const made: { provider: string; client: { id: string; secret: string } }[] = [];
  for (const [organization, { issuer }] of [
    ['acme', id],
    ['other', otherId],
  ] as const) {
    await server.command(['organization', 'create', organization]);
    for (const name of ['sales', 'wiki']) {
      await server.command(['server', 'create', `${organization}/${name}`, '--demo']);
    }
    const words = ['provider', 'create', organization, '--name', 'ID', '--issuer', issuer];
    const provider = await server.command([...words, ...hosts, '--json']);
    const { id: providerId } = madeProvider.parse(JSON.parse(provider));
    await server.command(['provider', 'assertions', organization, providerId, '--allow', 'yes']);
    await server.command(['domain', 'add', organization, `${organization}.example`]);
    await server.command(['domain', 'confirm', organization, `${organization}.example`]);
    const client = madeClient.parse(
      JSON.parse(
        await server.command([
          'client',
          'create-for-organization',
          organization,
          '--name',
          'Claude',
          '--json',
        ]),
      ),
    );
    made.push({
      provider: providerId,
      client: { id: client.client_id, secret: client.client_secret },
    });
  }
  const user = (email: string, organization: string) =>
    server.command(
      ['user', 'create', email, '--organization', organization, '--role', 'member'],
      password,
    );
  await user('dana@acme.example', 'acme');
  await user('eve@other.example', 'other');
  const [acme, other] = made;
  if (!acme || !other) throw new TypeError('two organizations were expected');
  const { client } = acme;
  return {
    server,
    id,
    otherId,
    providerId: acme.provider,
    otherProviderId: other.provider,
    client,
    otherClient: other.client,
    assertion({ claims = {}, header = {} } = {}, key) {
      const now = Math.floor(Date.now() / 1000);
      const right = {
        sub: 'dana there',
        email: 'dana@acme.example',
        email_verified: true,
        aud: server.base,
        client_id: client.id,
        jti: randomUUID(),
        iat: now,
        exp: now + 300,
        resource: `${server.base}/mcp/acme/sales`,
        ...claims,
      };
      return id.sign({ claims: right, header: { typ: 'oauth-id-jag+jwt', ...header } }, key);
    },
    async exchange(assertion, but = {}, headers = {}) {
      const fields = {
        grant_type: jwtBearer,
        assertion,
        client_id: client.id,
        client_secret: client.secret,
        ...but,
      };
      const answer = await fetch(`${server.base}/api/oauth/token`, {
        method: 'POST',
        headers,
        body: new URLSearchParams(
          Object.entries(fields).filter(
            (entry): entry is [string, string] => entry[1] !== undefined,
          ),
        ),
      });
      return { status: answer.status, body: answerSchema.parse(await answer.json()) };
    },
    async call(accessToken, path = 'acme/sales') {
      const answer = await fetch(`${server.base}/mcp/${path}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${accessToken}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
      });
      await answer.text();
      return answer.status;
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await id[Symbol.asyncDispose]();
      await otherId[Symbol.asyncDispose]();
    },
  };
}
