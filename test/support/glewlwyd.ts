import { generateKeyPairSync } from 'node:crypto';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { z } from 'zod';
import { vi } from 'vitest';

import { freePort } from './loopback.ts';
import { patient } from './patient.ts';
import { startProgram } from './processes.ts';
import { temporaryFolder } from './temporary-folder.ts';

const share = '/usr/share/glewlwyd/webapp';
const schema = '/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3';
const modules = '/usr/lib/glewlwyd';

/** A third-party identity provider that is not written in JavaScript, in a process and a folder of its own. */
export interface Glewlwyd extends AsyncDisposable {
  readonly issuer: string;
  readonly clientSecret: string;
  /** Registers Latchkey. */
  addClient(at: { readonly redirectUri: string; readonly logoutUri: string }): Promise<void>;
  addUser(name: string, email: string, password: string): Promise<void>;
  /** Removes a person permanently. */
  removeUser(name: string): Promise<void>;
  /** Lets Latchkey authenticate with this secret from now on. */
  changeSecret(secret: string): Promise<void>;
  /** The output of the process so far. */
  readonly log: () => string;
}

const clientSecret = 'the secret of latchkey there';

/** Starts Glewlwyd on loopback with a SQLite database, and sets it up with its own admin API. */
export async function glewlwyd(): Promise<Glewlwyd> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryFolder('glewlwyd'));
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  const file = join(path, 'glewlwyd.db');
  const database = new DatabaseSync(file);
  database.exec(readFileSync(schema, 'utf8'));
  database.close();
  // Debian links the configuration of the pages to a folder, which cannot be served.
  const pages = join(path, 'webapp');
  const served = (from: string) => from !== join(share, 'config.json');
  cpSync(share, pages, { recursive: true, dereference: true, filter: served });
  cpSync('/etc/glewlwyd/config-2.7.json/config.json', join(pages, 'config.json'));
  const configuration = join(path, 'glewlwyd.conf');
  writeFileSync(configuration, configurationText({ port, origin, pages, file }));
  const program = stack.use(startProgram('glewlwyd', { args: [`--config-file=${configuration}`] }));
  await program.line(/Glewlwyd started on port/m);
  // It prints that line before it listens.
  await vi.waitFor(() => fetch(origin), patient);
  const admin = await signedIn(origin);
  const issuer = `${origin}/api/oidc`;
  await admin('POST', '/mod/plugin/', plugin(issuer));
  await admin('POST', '/scope/', scope('email'));
  let client = {};
  const opened = stack.move();
  return {
    issuer,
    clientSecret,
    async addClient({ redirectUri, logoutUri }) {
      client = {
        client_id: 'latchkey',
        name: 'Latchkey',
        enabled: true,
        confidential: true,
        client_secret: clientSecret,
        redirect_uri: [redirectUri],
        authorization_type: ['code', 'refresh_token'],
        token_endpoint_auth_method: ['client_secret_basic', 'client_secret_post'],
        backchannel_logout_uri: logoutUri,
        backchannel_logout_session_required: '1',
        scope: [],
      };
      await admin('POST', '/client/', client);
    },
    async addUser(username, email, password) {
      const rights = ['openid', 'email'];
      const user = { username, name: username, email, password, enabled: true, scope: rights };
      await admin('POST', '/user/', user);
    },
    async removeUser(name) {
      await admin('DELETE', `/user/${name}`);
    },
    async changeSecret(secret) {
      await admin('PUT', '/client/latchkey', { ...client, client_secret: secret });
    },
    log: () => program.stdout + program.stderr,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

type Ask = (method: string, path: string, body?: object) => Promise<void>;

/** Signs in as the first administrator; the function that sends requests to the admin API. */
async function signedIn(origin: string): Promise<Ask> {
  const headers = { 'content-type': 'application/json' };
  const signIn = await fetch(`${origin}/api/auth/`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ username: 'admin', password: 'password' }),
  });
  const cookie = signIn.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  return async (method, path, body) => {
    const answer = await fetch(`${origin}/api${path}`, {
      method,
      headers: { ...headers, cookie },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  };
}

function scope(name: string) {
  return { name, display_name: name, password_required: true, scheme: {} };
}

/** Its OpenID Connect plugin: codes with PKCE, refresh tokens that are replaced at each use, and back-channel logout. */
function plugin(issuer: string) {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const jwk = z.record(z.string(), z.unknown()).parse(privateKey.export({ format: 'jwk' }));
  const keys = [{ ...jwk, kid: 'one', alg: 'RS256', use: 'sig' }];
  return {
    module: 'oidc',
    name: 'oidc',
    display_name: 'OpenID Connect',
    parameters: {
      iss: issuer,
      'jwks-private': JSON.stringify({ keys }),
      'default-kid': 'one',
      'jwt-type': 'rsa',
      'jwt-key-size': '256',
      'access-token-duration': 3600,
      'refresh-token-duration': 1_209_600,
      'refresh-token-rolling': true,
      'code-duration': 600,
      'allow-non-oidc': true,
      'auth-type-code-enabled': true,
      'auth-type-token-enabled': false,
      'auth-type-id-token-enabled': true,
      'auth-type-none-enabled': false,
      'auth-type-password-enabled': false,
      'auth-type-client-enabled': false,
      'auth-type-device-enabled': false,
      'auth-type-refresh-enabled': true,
      'session-management-allowed': true,
      'back-channel-logout-allowed': true,
      'front-channel-logout-allowed': false,
      'session-cookie-name': 'GLEWLWYD2_OIDC_SID',
      'session-cookie-expiration': 86_400,
      'subject-type': 'public',
      'email-claim': 'mandatory',
      'email-claim-scope': ['email'],
      'name-claim': 'no',
      claims: [],
      'allowed-scope': ['openid', 'email'],
      'pkce-allowed': true,
      'pkce-method-plain-allowed': false,
    },
  };
}

function configurationText(at: { port: number; origin: string; pages: string; file: string }) {
  const types = { html: 'text/html', css: 'text/css', js: 'application/javascript' };
  const more = { json: 'application/json', png: 'image/png', woff2: 'font/woff2' };
  const entries = Object.entries({ ...types, ...more }).map(
    ([name, type]) => `{ extension = ".${name}"; mime_type = "${type}"; }`,
  );
  return `port = ${at.port}
bind_address = "127.0.0.1"
external_url = "${at.origin}"
login_url = "login.html"
api_prefix = "api"
static_files_path = "${at.pages}"
log_mode = "console"
log_level = "INFO"
cookie_secure = 0
session_expiration = 3600
session_key = "GLEWLWYD2_SESSION_ID"
admin_session_authentication = "cookie"
profile_session_authentication = "cookie"
allow_multiple_user_per_session = true
login_api_enabled = true
admin_scope = "g_admin"
profile_scope = "g_profile"
user_module_path = "${modules}/user"
client_module_path = "${modules}/client"
user_auth_scheme_module_path = "${modules}/scheme"
plugin_module_path = "${modules}/plugin"
hash_algorithm = "SHA512"
database = { type = "sqlite3"; path = "${at.file}"; };
static_files_mime_types = ( ${entries.join(', ')} )
`;
}
