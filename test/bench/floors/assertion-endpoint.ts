/**
 * The floor of an exchange of assertions: reads the form, compares the secret, verifies and signs with `jose`. No store, so it accepts an
 * assertion twice. It publishes the key of the issuer, too, which is its first argument as a JWK.
 */
import { createServer, type ServerResponse } from 'node:http';
import { generateKeyPair, importJWK, jwtVerify, SignJWT } from 'jose';
import { listen } from '#support/loopback';

const published = JSON.parse(process.argv[2] ?? '{}');
const issuerKey = await importJWK(published, 'EdDSA');
const { privateKey } = await generateKeyPair('EdDSA');
let issuer = '';

const answer = (response: ServerResponse, status: number, body: object) => {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify(body));
};

const server = createServer((request, response) => {
  if (request.url === '/keys') return answer(response, 200, { keys: [published] });
  if (request.url === '/.well-known/openid-configuration') {
    return answer(response, 200, { issuer, jwks_uri: `${issuer}/keys` });
  }
  let text = '';
  request.setEncoding('utf8').on('data', (part: string) => (text += part));
  request.on('end', () => {
    exchange(new URLSearchParams(text)).then(
      (body) => answer(response, 200, body),
      () => answer(response, 400, { error: 'invalid_grant' }),
    );
  });
});

async function exchange(form: URLSearchParams): Promise<object> {
  const known = form.get('client_id') === 'client_bench' && form.get('client_secret') === 'bench';
  if (!known) throw new Error('unknown client');
  const { payload } = await jwtVerify(form.get('assertion') ?? '', issuerKey, {
    algorithms: ['EdDSA'],
    typ: 'oauth-id-jag+jwt',
    issuer,
    audience: issuer,
  });
  const scope = 'mcp:tools:read mcp:tools:execute';
  const token = await new SignJWT({ client_id: 'client_bench', scope })
    .setProtectedHeader({ alg: 'EdDSA', typ: 'at+jwt', kid: 'bench' })
    .setIssuer(issuer)
    .setSubject(payload.sub ?? '')
    .setAudience(`${issuer}/mcp/bench/http`)
    .setIssuedAt()
    .setExpirationTime('1h')
    .setJti(crypto.randomUUID())
    .sign(privateKey);
  return { access_token: token, token_type: 'Bearer', expires_in: 3600, scope };
}

issuer = `http://127.0.0.1:${await listen(server)}`;
console.log(`listening on ${issuer}`);
