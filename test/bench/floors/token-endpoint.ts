/** The floor of a token endpoint: reads the form, compares the secret, signs. No store, no limits. */
import { createServer } from 'node:http';
import { generateKeyPair, SignJWT } from 'jose';
import { listen } from '#support/loopback';

const { privateKey } = await generateKeyPair('EdDSA');

const server = createServer((request, response) => {
  let text = '';
  request.setEncoding('utf8').on('data', (part: string) => (text += part));
  request.on('end', () => void issue(new URLSearchParams(text)));

  async function issue(form: URLSearchParams): Promise<void> {
    const known = form.get('client_id') === 'client_bench' && form.get('client_secret') === 'bench';
    if (!known || form.get('grant_type') !== 'client_credentials') {
      response.writeHead(401).end();
      return;
    }
    const scope = 'mcp:tools:read mcp:tools:execute';
    const token = await new SignJWT({ client_id: 'client_bench', scope })
      .setProtectedHeader({ alg: 'EdDSA', typ: 'at+jwt', kid: 'bench' })
      .setIssuer('http://127.0.0.1')
      .setSubject('client_bench')
      .setAudience('http://127.0.0.1/mcp/bench/target')
      .setIssuedAt()
      .setExpirationTime('1h')
      .setJti(crypto.randomUUID())
      .sign(privateKey);
    const body = { access_token: token, token_type: 'Bearer', expires_in: 3600, scope };
    response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' });
    response.end(JSON.stringify(body));
  }
});

console.log(`listening on http://127.0.0.1:${await listen(server)}`);
