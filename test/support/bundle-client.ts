import * as oauth from 'oauth4webapi';
import { insertServer } from '#server/db/servers';
import { hiddenFields, type Browser, type GrantingServer } from './granting-server.ts';

const insecure = { [oauth.allowInsecureRequests]: true };
const redirectUri = 'http://127.0.0.1:49152/callback';

/** A server that the consent page offers, listed by `{organization}/{server}`. */
export interface OfferedServer {
  readonly field: string;
  readonly value: string;
  readonly isTicked: boolean;
  /** The text beside the box. */
  readonly text: string;
}

/** An independent OAuth client that asks for several servers with one authorization. */
export interface BundleClient {
  readonly list: string;
  resource(server: string): string;
  /** Opens the page for these resources. */
  ask(
    browser: Browser,
    resources: readonly string[],
    scope?: string,
    claims?: Record<string, string>,
  ): Promise<AskedPage>;
  /** Exchanges a code for the tokens of one resource. */
  redeem(callback: URL, verifier: string, resource?: string): Promise<oauth.TokenEndpointResponse>;
  refresh(
    refreshToken: string,
    resource?: string,
    more?: Record<string, string>,
  ): Promise<oauth.TokenEndpointResponse>;
  revoke(token: string): Promise<void>;
  /** The status of `tools/list` at a server. */
  call(server: string, accessToken: string): Promise<number>;
  /** The list of servers, by `{organization}/{server}`; the status if it is refused. */
  servers(accessToken: string): Promise<Map<string, Record<string, unknown>> | number>;
}

export interface AskedPage {
  readonly status: number;
  readonly location: string | null;
  readonly html: string;
  readonly offered: ReadonlyMap<string, OfferedServer>;
  readonly verifier: string;
  /** Ticks these servers and allows. The redirect is not followed. */
  allow(servers: readonly string[], more?: Record<string, string>): Promise<Response>;
  /** Ticks these servers and allows; the URL to which the answer redirects. */
  allowed(servers: readonly string[]): Promise<URL>;
  deny(): Promise<Response>;
}

/** Adds servers of `acme`, each with the demo behind it. */
export async function addServers(
  { stores }: Pick<GrantingServer, 'stores'>,
  names: readonly string[],
  organizationId = 'org_acme',
): Promise<void> {
  for (const name of names) {
    await insertServer(stores.db, {
      id: `srv_${name}`,
      targetId: `target_${name}`,
      organizationId,
      name,
      upstream: { kind: 'demo' },
      createdAt: 1,
    });
  }
}

/** By default the client is Latchkey's own proxy, whose metadata document every server knows. */
export async function bundleClient(
  { base }: Pick<GrantingServer, 'base'>,
  clientId = `${base}/oauth/clients/latchkey.json`,
): Promise<BundleClient> {
  const issuer = new URL(base);
  const found = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...insecure });
  const as = await oauth.processDiscoveryResponse(issuer, found);
  const [list = ''] = as.protected_resources ?? [];
  const me: oauth.Client = { client_id: clientId };
  const proof = oauth.None();
  const withResource = (resource: string | undefined, more: Record<string, string> = {}) => ({
    ...insecure,
    additionalParameters: { ...more, ...(resource !== undefined && { resource }) },
  });

  return {
    list,
    resource: (server) => `${base}/mcp/${server}`,
    async ask(browser, resources, scope = 'mcp:tools:read mcp:tools:execute', claims = {}) {
      const verifier = oauth.generateRandomCodeVerifier();
      const query = new URLSearchParams({
        ...claims,
        client_id: clientId,
        redirect_uri: redirectUri,
        response_type: 'code',
        scope,
        state: 'the state',
        code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      });
      for (const resource of resources) query.append('resource', resource);
      const headers = { cookie: browser.cookie };
      const page = await fetch(`${as.authorization_endpoint}?${query.toString()}`, {
        headers,
        redirect: 'manual',
      });
      const html = await page.text();
      const offered = new Map(offers(html));
      const send = async (fields: Record<string, string>) =>
        fetch(`${base}/oauth/consent`, {
          method: 'POST',
          headers: { ...headers, origin: base },
          body: new URLSearchParams({ ...hiddenFields(html, '/oauth/consent'), ...fields }),
          redirect: 'manual',
        });
      const allow: AskedPage['allow'] = async (servers, more = {}) => {
        const boxes = servers.map((server): [string, string] => {
          const box = offered.get(server);
          if (!box) throw new Error(`${server} is not offered in:\n${html}`);
          return [box.field, box.value];
        });
        return send({ ...Object.fromEntries(boxes), decision: 'allow', ...more });
      };
      return {
        status: page.status,
        location: page.headers.get('location'),
        html,
        offered,
        verifier,
        allow,
        async allowed(servers) {
          const answer = await allow(servers);
          return new URL(answer.headers.get('location') ?? `none:${answer.status}`);
        },
        deny: async () => send({ decision: 'deny' }),
      };
    },
    async redeem(callback, verifier, resource) {
      const answered = oauth.validateAuthResponse(as, me, callback, 'the state');
      const exchange = [as, me, proof, answered, redirectUri, verifier] as const;
      const answer = await oauth.authorizationCodeGrantRequest(...exchange, withResource(resource));
      return oauth.processAuthorizationCodeResponse(as, me, answer);
    },
    async refresh(refreshToken, resource, more) {
      const again = [as, me, proof, refreshToken, withResource(resource, more)] as const;
      return oauth.processRefreshTokenResponse(
        as,
        me,
        await oauth.refreshTokenGrantRequest(...again),
      );
    },
    async revoke(token) {
      const answer = await oauth.revocationRequest(as, me, proof, token, insecure);
      await oauth.processRevocationResponse(answer);
    },
    async call(server, accessToken) {
      const answer = await fetch(`${base}/mcp/${server}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${accessToken}`, 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
      });
      await answer.arrayBuffer();
      return answer.status;
    },
    async servers(accessToken) {
      const headers = { authorization: `Bearer ${accessToken}` };
      const answer = await fetch(list, { headers });
      if (answer.status !== 200) return answer.status;
      const { servers }: { servers: Record<string, unknown>[] } = JSON.parse(await answer.text());
      return new Map(
        servers.map((one) => [`${String(one['organization'])}/${String(one['name'])}`, one]),
      );
    },
  };
}

/** The tick boxes of the page. The text beside each names its server. */
function* offers(html: string): Generator<[string, OfferedServer]> {
  const boxes = html.matchAll(
    /<input type="checkbox" name="(server\.[^"]+)" id="[^"]+" value="([^"]*)"[^>]*?( checked)?>([\s\S]*?)<\/div>\n<\/div>/g,
  );
  for (const [, field = '', value = '', ticked, beside = ''] of boxes) {
    const [, server = ''] =
      /\b([a-z\d-]+\/[a-z\d-]+)[.)]/.exec(beside.replaceAll(/<[^>]*>/g, ' ')) ?? [];
    const text = beside.replaceAll(/<[^>]*>/g, ' ');
    yield [server, { field, value, isTicked: ticked !== undefined, text }];
  }
}

/** The error code with which a token endpoint refused. */
export async function refusalOf(refused: Promise<unknown>): Promise<string> {
  try {
    await refused;
  } catch (error) {
    if (error instanceof oauth.ResponseBodyError) return error.error;
    throw error;
  }
  return 'nothing was refused';
}
