import { generateKeyPairSync, sign } from 'node:crypto';

import { jwtBearer } from '#support/assertion-issuer';
import { startProgram } from '#support/processes';
import type { Running, Setting } from './gateway-setting.ts';
import type { Shot } from './shot.ts';

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const kid = 'bench';
const jwk = JSON.stringify({
  ...publicKey.export({ format: 'jwk' }),
  kid,
  alg: 'EdDSA',
  use: 'sig',
});

/** The floor, which also is the issuer of the assertions. */
export function assertionFloor(setting: Setting): Promise<Running> {
  return setting.floorOf('assertions', 'assertion-endpoint.ts', jwk);
}

/** The request that loads the floor, and the floor. */
export async function floorShot(setting: Setting): Promise<{ shot: Shot; running: Running }> {
  const running = await assertionFloor(setting);
  const { origin } = running;
  const client = { id: 'client_bench', secret: 'bench' };
  return { shot: exchangeOf({ base: origin, origin, issuer: origin, client }), running };
}

/** An installation whose provider is the floor, and the request that loads it. */
export async function ownShot(
  setting: Setting,
  name: string,
): Promise<{ shot: Shot; running: Running }> {
  const { origin: issuer } = await assertionFloor(setting);
  const hosts = ['--outbound-host', '127.0.0.1'];
  const server = await setting.sqlite(name, 1, 'assertions', hosts);
  const client = await setting.once(`assertions ${name}`, async () => {
    const env = { HOME: server.home, LATCHKEY_DATA_DIR: `${server.home}/data` };
    const command = async (...words: string[]): Promise<Record<string, string>> => {
      const args = [setting.build(name).server, ...words, '--json'];
      const run = startProgram(process.execPath, { args, env });
      run.write('correct horse battery');
      run.endInput();
      const { code } = await run.exited;
      const { stdout, stderr } = run;
      if (code !== 0) throw new Error(`latchkey-server ${words.join(' ')}: ${stderr}`);
      return JSON.parse(stdout);
    };
    const words = ['--name', 'bench', '--issuer', issuer, ...hosts];
    const { id = '' } = await command('provider', 'create', 'bench', ...words);
    await command('provider', 'assertions', 'bench', id, '--allow', 'yes');
    await command('domain', 'add', 'bench', 'bench.example');
    await command('domain', 'confirm', 'bench', 'bench.example');
    const member = ['--organization', 'bench', '--role', 'member'];
    await command('user', 'create', 'dana@bench.example', ...member);
    const made = await command('client', 'create-for-organization', 'bench', '--name', 'bench');
    return { id: made['client_id'] ?? '', secret: made['client_secret'] ?? '' };
  });
  const { base, origin } = server;
  return { shot: exchangeOf({ base, origin, issuer, client }), running: server };
}

/** An exchange of an assertion that was never sent before. */
function exchangeOf({
  base,
  origin,
  issuer,
  client,
}: {
  base: string;
  origin: string;
  issuer: string;
  client: { id: string; secret: string };
}): Shot {
  const encoded = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
  const head = encoded({ alg: 'EdDSA', typ: 'oauth-id-jag+jwt', kid });
  const rest = new URLSearchParams({
    grant_type: jwtBearer,
    client_id: client.id,
    client_secret: client.secret,
  }).toString();
  let count = 0;
  return {
    url: `${origin}/api/oauth/token`,
    headers: {
      host: new URL(base).host,
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: '',
    fresh: () => {
      const now = Math.floor(Date.now() / 1000);
      const claims = {
        iss: issuer,
        sub: 'dana there',
        email: 'dana@bench.example',
        email_verified: true,
        aud: base,
        client_id: client.id,
        jti: `bench-${process.pid}-${(count += 1)}`,
        iat: now,
        exp: now + 300,
        resource: `${base}/mcp/bench/http`,
      };
      const signed = `${head}.${encoded(claims)}`;
      const signature = sign(null, Buffer.from(signed), privateKey).toString('base64url');
      return `${rest}&assertion=${signed}.${signature}`;
    },
    wanted: '"access_token"',
  };
}
