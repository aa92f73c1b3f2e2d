import { randomBytes } from 'node:crypto';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '#support/loopback';
import { startProgram, type Program } from '#support/processes';
import { serverLauncher } from '#support/programs';
import { temporaryFolder } from '#support/temporary-folder';
import { tokenUpstream } from '#support/token-upstream';
import { recordingUpstream } from '#support/upstreams/recording-upstream';
import { webhookReceiver, type Delivery, type WebhookReceiver } from '#support/webhook-receiver';
import { errorWords } from './error-words.ts';
import { recordAnswers, useServer } from './http-answers.ts';
import { layOutJson, normalize } from './normalize.ts';
import { proxyHelpPages, useProxy } from './proxy-commands.ts';
import { fillServer, lookBack, serverHelpPages } from './server-commands.ts';
import { found, proxyTerminal, serverTerminal, type Step, type Terminal } from './terminal.ts';

/** How long before the server's start the first commands begin, so that they end before it: each takes a second. */
const beforeServerSeconds = 300;
/** A public key whose private key was thrown away. */
const jwk = {
  kty: 'EC',
  crv: 'P-256',
  x: '-Hm2WQ49bsMNo_Shq1KpYz8m6DsgV5GUM1zn3vf62Nk',
  y: 'PQf9gBe9Bew2pfAyi7pyLDrCVTuy-kB19s__kYp0wck',
};
const forms = ['text', 'json'] as const;

/** The same commands with `--json` and without, each on data of its own. */
type InBothForms<Item> = Readonly<Record<(typeof forms)[number], Item>>;

/**
 * Records what the programs print and answer, without what differs from run to run: file name to text.
 *
 * The same commands fill two data folders, once with `--json` and once without. Then a server runs on the first of them, and
 * answers people and programs. After it has ended, commands on that folder and on a copy of it show what the server wrote.
 */
export async function record(): Promise<ReadonlyMap<string, string>> {
  await using stack = new AsyncDisposableStack();
  const { path: root } = stack.use(await temporaryFolder('golden'));
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  const callback = `${base}/dashboard/acme/servers/crm/account/callback`;
  const receiver = stack.use(await webhookReceiver());
  const tools = stack.use(await recordingUpstream());
  const account = stack.use(await tokenUpstream({ redirectUris: [callback] }));
  const places = { text: join(root, 'text'), json: join(root, 'json') };
  for (const form of forms) await layOut(places[form], account.clientSecret);
  const openTerminal = (cwd: string, suffix: string, secondsAgo = 0) => {
    const env = { LATCHKEY_DATA_DIR: join(cwd, 'data') };
    return stack.use(serverTerminal({ env, cwd, suffix }, { secondsAgo }));
  };
  const openTerminals = (secondsAgo: number): InBothForms<Terminal> => ({
    text: openTerminal(places.text, '', secondsAgo),
    json: openTerminal(places.json, '--json', secondsAgo),
  });

  const before = openTerminals(beforeServerSeconds);
  const fill = (form: 'text' | 'json') =>
    fillServer(before[form], {
      folder: places[form],
      webhookUrl: `${receiver.origin}/in`,
      toolsUrl: tools.url,
      account,
    });
  const [data] = await Promise.all([fill('json'), fill('text')]);
  for (const page of serverHelpPages) await before.text.run(page);

  const server = stack.use(await startServer(places.json, port));
  const answers = new Map<string, string>();
  await recordAnswers(base, answers, data);
  await useServer(base, data, { tools, account });
  const proxy = proxyTerminals(places);
  const key = data.libraryKey;
  await Promise.all(forms.map((form) => useProxy(proxy[form], { base, key })));
  for (const page of proxyHelpPages) await proxy.text.run(page);
  const last = await openTerminal(places.json, '').run('group create acme last');
  await delivered(receiver, `group:${found(/group_\w+/, last)}`);
  await server.end();

  const { json, text } = places;
  await rm(join(text, 'data'), { recursive: true });
  await cp(join(json, 'data'), join(text, 'data'), { recursive: true });
  const after = openTerminals(0);
  await Promise.all(forms.map((form) => lookBack(after[form], data.webhookId)));

  const names = {
    [text]: '<folder>',
    [json]: '<folder>',
    [base]: '<server>',
    [receiver.origin]: '<receiver>',
    [new URL(tools.url).origin]: '<tools>',
    [new URL(account.url).origin]: '<account>',
    [account.issuer]: '<issuer>',
  };
  const normalized = (words: string) => normalize(words, names);
  const others = [
    ...answers,
    ...errorWords(),
    ['http/routes.txt', await readFile(join(json, 'routes'), 'utf8')] as const,
    ['webhooks.txt', webhookBodies(receiver.deliveries)] as const,
  ];
  return new Map([
    ...transcripts('server', before, normalized),
    ...transcripts('server-after-use', after, normalized),
    ...transcripts('proxy', proxy, normalized),
    ...others.map(([file, words]) => [file, normalized(words)] as const),
  ]);
}

/** The folder that commands work in, with the files that they read. */
async function layOut(folder: string, clientSecret: string): Promise<void> {
  const files = {
    first: 'the first value\n',
    second: 'the second value\n',
    'client-secret': `${clientSecret}\n`,
    'jwks.json': JSON.stringify({ keys: [jwk] }),
    'store-key': randomBytes(32).toString('base64url'),
  };
  await mkdir(folder);
  for (const [name, text] of Object.entries(files)) {
    await writeFile(join(folder, name), text, { mode: 0o600 });
  }
}

/** A server on the folder's data with every optional route; it writes its routes to `routes` there. */
async function startServer(folder: string, port: number): Promise<Program> {
  const watch = join(import.meta.dirname, 'watch-routes.ts');
  const provider = ['--oidc-issuer', 'https://id.example.com', '--oidc-client-id', 'latchkey'];
  const secret = ['--oidc-client-secret-file', join(folder, 'client-secret')];
  const options = [
    '--dynamic-registration',
    '--outbound-host',
    '127.0.0.1',
    ...provider,
    ...secret,
  ];
  const place = ['--port', String(port), '--data-dir', join(folder, 'data')];
  const server = startProgram(process.execPath, {
    args: ['--import', watch, serverLauncher, 'start', ...place, ...options],
    env: { WATCH_ROUTES: join(folder, 'routes') },
    endLimitMs: 30_000,
  });
  await server.line(/^listening on /m, { timeoutMs: 60_000 });
  return server;
}

function proxyTerminals(places: InBothForms<string>): InBothForms<Terminal> {
  const open = (cwd: string, suffix: string) => {
    const env = {
      HOME: cwd,
      XDG_CONFIG_HOME: undefined,
      XDG_STATE_HOME: undefined,
      XDG_DATA_HOME: undefined,
      LATCHKEY_SECRET_STORE: 'file',
      LATCHKEY_SECRET_STORE_KEY_FILE: join(cwd, 'store-key'),
    };
    return proxyTerminal({ env, cwd, suffix });
  };
  return { text: open(places.text, ''), json: open(places.json, '--json') };
}

/** Resolves when the receiver has the event about `target`, which comes behind all others. */
async function delivered(receiver: WebhookReceiver, target: string): Promise<void> {
  const isThere = ({ data }: Delivery) => data['target'] === target;
  while (!receiver.deliveries.some(isThere)) await receiver.has(receiver.deliveries.length + 1);
}

/** One file per noun: `server/key.txt` has all commands `key …`, in the order in which they ran. */
function transcripts(
  folder: string,
  { text, json }: InBothForms<Terminal>,
  normalized: (words: string) => string,
): [string, string][] {
  const files = new Map<string, string>();
  for (const [index, step] of text.steps.entries()) {
    const [, noun = ''] = step.typed.split(' ');
    const file = `${folder}/${noun.startsWith('-') ? 'help' : noun}.txt`;
    const inText = normalized(output(step));
    const same = json.steps[index];
    const inJson = same === undefined ? inText : normalized(output(same));
    const known = files.get(file) ?? '';
    const shown = inJson === inText ? inText : `${inText}--json\n${inJson}`;
    files.set(file, `${known}$ ${normalized(step.typed)}\n${shown}\n`);
  }
  return [...files];
}

/** What a command printed, the lines of stderr behind `! `, and its exit code unless that is 0. */
function output({ code, stdout, stderr }: Step): string {
  const errors = stderr.split('\n').filter((line) => !/^(?:data folder: .*)?$/.test(line));
  const exit = code === 0 ? '' : `exit ${String(code)}\n`;
  return `${stdout}${errors.map((line) => `! ${line}\n`).join('')}${exit}`;
}

/** The first event of each type, as it came. */
function webhookBodies(deliveries: readonly Delivery[]): string {
  const byType = new Map(deliveries.toReversed().map((delivery) => [delivery.type, delivery]));
  const ours = [
    'content-type',
    'user-agent',
    'webhook-id',
    'webhook-timestamp',
    'webhook-signature',
  ];
  const entries = [...byType].map(([type, { headers, body }]) => {
    const lines = ours.map((name) => `${name}: ${headers[name] ?? ''}\n`).join('');
    return `# ${type}\n${lines}\n${layOutJson(JSON.parse(body))}\n`;
  });
  return entries.toSorted().join('\n');
}
