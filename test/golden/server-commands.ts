import { found, type Terminal } from './terminal.ts';

/** The places that the commands name. Paths contain no spaces. */
export interface CommandPlaces {
  /** The folder for `data`, and for the files that the commands read and write. */
  readonly folder: string;
  /** Takes the events of `acme`. */
  readonly webhookUrl: string;
  /** An MCP server whose tools change. */
  readonly toolsUrl: string;
  /** An MCP server that wants a token, and the client that it knows. */
  readonly account: { readonly url: string; readonly issuer: string; readonly clientId: string };
}

export const password = 'correct horse battery staple';
const ordinary = '--scope mcp:tools:read --scope mcp:tools:execute --scope mcp:resources:read';
const inside = '--outbound-host 127.0.0.1';

/** The ids and secrets of what `fillServer` creates before the server starts. */
export interface FilledData {
  readonly webhookId: string;
  readonly libraryKey: string;
  readonly readingKey: string;
  readonly toolsKey: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly personalToken: string;
  readonly agentKey: string;
}

/** Every command on a new data folder. No server runs, so that nothing happens meanwhile. */
export async function fillServer(
  { run }: Terminal,
  { folder, webhookUrl, toolsUrl, account }: CommandPlaces,
): Promise<FilledData> {
  const dataDir = `${folder}/data`;
  const file = (name: string) => `${folder}/${name}`;
  const id = (prefix: string) =>
    new RegExp(String.raw`\b${prefix}_(?:[0-9A-Za-z]{16}|[0-9A-Za-z]{24})\b`);
  const secret = (prefix: string) => new RegExp(String.raw`\b${prefix}_[0-9A-Za-z]{36}\b`);

  await run(`organization create acme --data-dir ${dataDir}`);
  await run('signing-key rotate');
  const hook = await run(`webhook create acme --url ${webhookUrl} ${inside}`);
  const webhookId = found(id('whk'), hook);

  await run('organization create globex');
  await run('organization create acme');
  await run('organization update acme --title Acme --open-clients yes');
  await run('organization update globex --second-factor yes');
  await run('organization list');

  await run('user list');
  await run('user members acme');
  const person = (email: string, role: string) =>
    run(`user create ${email} --organization acme --role ${role}`, `${password}\n`);
  await person('dana@example.com', 'owner');
  await person('eve@example.com', 'admin');
  await person('mallory@example.com', 'member');
  await person('trent@example.com', 'viewer');
  await person('oscar@example.com', 'viewer');
  await run('user create dana@example.com --organization globex --role owner');
  await run('user create peggy@example.com --organization acme --role member', 'password\n');
  await run('user create peggy@example.com --organization acme --role queen', `${password}\n`);
  await run('user set-role eve@example.com --organization acme --role member');
  await run('user set-role dana@example.com --organization acme --role viewer');
  await run('user end-sessions eve@example.com --organization acme');
  await run('user reset-second-factor eve@example.com --organization acme');
  await run('user reset-link eve@example.com --base-url https://latchkey.example.com');
  await run('user offboard oscar@example.com --organization acme --preview');
  await run('user offboard oscar@example.com --organization acme --to dana@example.com');
  await run('user offboard oscar@example.com --organization acme');
  await run('user leave trent@example.com --organization acme');
  await run('user leave trent@example.com --organization acme --yes');
  await run('user remove mallory@example.com');
  await run('user remove mallory@example.com --yes');
  await run('user remove nobody@example.com');

  await run('group list acme');
  await run('group create acme finance');
  await run('group create acme sales');
  await run('group add acme finance dana@example.com');
  await run('group add acme sales eve@example.com nobody@example.com');
  await run('group remove acme sales eve@example.com');
  await run('group map acme finance staff');
  await run('group map acme sales staff');
  await run('group unmap acme sales staff');
  await run('group list acme');
  await run('group delete acme sales');
  await run('user members acme');
  await run('user list');

  await run('invitation list acme');
  const invitation = `invitation create acme --role member --base-url https://latchkey.example.com`;
  const invited = await run(`${invitation} --group finance --note Peggy`);
  await run('invitation create acme --role viewer');
  await run('invitation list acme');
  await run('invitation renew acme --all-pending --base-url https://latchkey.example.com');
  await run('invitation renew acme');
  await run(`invitation revoke acme ${found(id('invitation'), invited)}`);
  await run('invitation revoke acme invitation_0000000000000000');

  await run('mail server acme');
  const mail = 'mail set-server acme --host 127.0.0.1 --port 1 --security none';
  await run(`${mail} --from latchkey@example.com`);
  await run(`${mail} --from latchkey@example.com --outbound-host 127.0.0.1`);
  await run('mail server acme');
  await run('mail test acme peggy@example.com --outbound-host 127.0.0.1');
  await run('invitation create acme --role viewer --email peggy@example.com --send');
  await run('mail list acme');
  await run('mail retry acme');
  await run('mail remove-server acme');

  await run('agent list acme');
  const agent = await run('agent create acme/berlin');
  const agentKey = found(secret('pk_live'), agent);
  await run('agent create-key acme/berlin --name spare');
  const copenhagen = await run('agent create acme/copenhagen');
  await run(`agent revoke ${found(id('agent'), copenhagen)}`);
  await run('agent revoke agent_0000000000000000');
  await run('agent list acme');

  await run('server list acme');
  await run('server create acme/library --demo');
  await run(`server create acme/tools --http-url ${toolsUrl}`);
  await run(`server create acme/crm --http-url ${account.url}`);
  await run('server create acme/files --agent berlin');
  await run('server create acme/files --agent berlin');
  await run('server create acme/none');
  const header = (name: string, where: string) => `--http-header-file ${name}=${file(where)}`;
  await run(
    `server create acme/old --http-url https://127.0.0.1:1/old/mcp ${header('x-api-key', 'first')}`,
  );
  await run('server list acme');
  await run('server update acme/library --title Library --description Books --instructions Ask');
  await run('server update acme/tools --changed-tools withhold');
  await run('server update acme/old --http-url https://127.0.0.1:2/new/mcp');
  await run('server update acme/old --demo --agent berlin');
  await run('server hide-tools acme/library --tool run_query --tool other');
  await run('server hide-tools acme/library');
  await run('server hide-tools acme/library --none');
  await run('server limit acme/library');
  await run(
    'server limit acme/library --calls-per-minute 1000 --concurrent-calls 50 --request-bytes 65536 --answer-bytes 1048576 --call-seconds 60',
  );
  await run('server limit acme/library --call-seconds none');
  await run('server limit acme/library --call-seconds soon');
  await run('server disable acme/files');
  await run('server list acme');
  await run('server enable acme/files');
  await run('server set-groups acme/files --group finance --dry-run');
  await run('server set-groups acme/files --group finance');
  await run('server set-groups acme/files');
  await run('server set-groups acme/files --everyone --dry-run');
  await run('server set-groups acme/files --everyone');
  await run('server show-access acme/crm');
  const known = `--client-id ${account.clientId} --client-secret-file ${file('client-secret')}`;
  const issuer = `--issuer ${account.issuer} ${inside}`;
  await run(`server set-access acme/crm --client-credentials ${known} ${issuer} --scope read`);
  await run('server set-access acme/crm --none');
  await run(`server set-access acme/crm --per-person ${known} ${issuer} --forward-caller yes`);
  await run('server set-access acme/crm --none --per-person');
  await run('server show-access acme/crm');
  await run('server list-headers acme/old');
  await run(
    `server set-header acme/old ${header('x-api-key', 'first')} ${header('x-team', 'second')}`,
  );
  await run(`server set-header acme/old ${header('x-api-key', 'second')}`);
  await run('server list-headers acme/old');
  await run('server restore-header acme/old x-api-key');
  await run('server remove-header acme/old x-api-key --previous');
  await run('server remove-header acme/old x-team');
  await run('server delete acme/old');
  await run('server delete acme/old --yes');
  await run('server create acme/reviewed --demo --review-tools');
  await run('server update acme/reviewed --new-tools offer');
  await run('server delete acme/reviewed --yes');
  await run('tool list acme/tools');
  await run('tool restrict acme/tools transfer --group finance --dry-run');
  await run('tool restrict acme/tools transfer --group finance');
  await run('tool default acme/tools --kind prompt --group finance');
  await run('tool open acme/tools transfer');
  await run('tool remove-rule acme/tools transfer');
  await run('tool default acme/tools --kind prompt --everyone');
  await run('tool default acme/tools');
  await run('tool restrict acme/tools --group finance');
  await run('tool accept acme/tools');
  await run('tool accept acme/tools --all');
  await run('connection list acme/crm');

  await run('client list acme');
  const made = await run(
    `client create acme/library --name Claude --redirect-uri http://127.0.0.1/callback ${ordinary}`,
  );
  const clientId = found(id('client'), made);
  await run(`client create acme/library --name Signed --jwks ${file('jwks.json')} ${ordinary}`);
  const extra = await run(`client create acme/tools --name Extra ${ordinary}`);
  await run('client create acme/library --name Wrong --scope mcp:everything');
  await run(
    'client create acme/library --name Wrong --redirect-uri http://example.com/ --scope mcp:tools:read',
  );
  await run(`client update ${found(id('client'), extra)} --tools read-only`);
  await run(`client rotate ${found(id('client'), extra)} --expire-others-in-days 7`);
  await run(`client revoke ${found(id('client'), extra)}`);
  await run('client list acme');
  await run('client list acme/tools');

  await run('key list acme');
  const libraryKey = await run('key create acme/library --name laptop --expires-in-days 90');
  const readingKey = await run('key create acme/library --name reader --scope mcp:server:read');
  const toolsKey = await run('key create acme/tools --name probe');
  const spare = await run('key create acme/library --name spare');
  await run('key create acme/library --name soon --expires-in-days soon');
  await run(`key update ${found(id('key'), spare)} --tools search_books,get_book`);
  await run(`tool list acme/library --as ${found(id('key'), spare)}`);
  await run('tool list acme/library --as nobody@example.com');
  await run(`key rotate ${found(id('key'), spare)}`);
  await run(`key revoke ${found(id('key'), spare)}`);
  await run(`key revoke ${found(id('key'), spare)}`);
  await run('key list acme');

  await run('token list dana@example.com');
  const token = await run('token create dana@example.com --name script');
  const old = await run('token create dana@example.com --name old --expires-in-days 30');
  await run(`token revoke dana@example.com ${found(id('token'), old)}`);
  await run('token list dana@example.com');

  await run('scim show acme');
  await run('scim create-token acme --expires-in-days 365');
  await run('scim create-token acme');
  const scimToken = await run('scim rotate-token acme');
  await run('scim rotate-token acme');
  await run('scim show acme');
  await run('scim errors acme');
  await run(`scim revoke-token acme ${found(id('scimtoken'), scimToken)}`);
  await run('scim revoke-token acme scimtoken_0000000000000000');
  await run('scim show nowhere');
  await run('leaver list acme');
  await run('leaver hand-over acme key_0000000000000000 dana@example.com');
  await run('leaver hand-over acme key_0000000000000000 oscar@example.com');
  await run('organization update acme --leaver-resources keep');

  const second = await run(
    `webhook create acme --url ${webhookUrl}/second --action key. ${inside}`,
  );
  const secondId = found(id('whk'), second);
  await run('webhook create acme --url http://example.com/');
  await run(`webhook update acme ${secondId} --action key.create --action group.`);
  await run(`webhook update acme ${secondId} --all-actions`);
  await run(`webhook rotate acme ${secondId}`);
  await run(`webhook test acme ${secondId} ${inside}`);
  await run(`webhook disable acme ${secondId}`);
  await run('webhook list acme');
  await run(`webhook enable acme ${secondId} --from-now`);
  await run(`webhook remove acme ${secondId}`);

  await run('consent list acme');
  await run('audit list acme --limit 3');
  await run('audit list acme --outcome perhaps');
  await run('signing-key rotate');
  const backup = file('latchkey.backup');
  await run(`backup ${backup}`);
  await run(`backup ${backup}`);
  await run(`restore ${backup}`);
  const restored = `--data-dir ${file('restored')} --master-key-file ${dataDir}/master.key`;
  await run(`restore ${backup} ${restored}`);
  await run(`restore ${file('jwks.json')} --data-dir ${file('nothing')}`);

  await run('server list nowhere');
  await run('server list ACME');
  await run('server list');
  await run('server list acme acme');
  await run('server list acme --all');
  await run('server make acme/library');
  await run('unknown');
  await run(`server list acme --data-dir ${file('empty')}`);

  return {
    webhookId,
    clientId,
    agentKey,
    libraryKey: found(secret('mcp'), libraryKey),
    readingKey: found(secret('mcp'), readingKey),
    toolsKey: found(secret('mcp'), toolsKey),
    clientSecret: found(secret('secret'), made),
    personalToken: found(secret('pat'), token),
  };
}

/** Runs the commands that show what calls, and people in a browser, have left behind. The server has ended. */
export async function lookBack({ run }: Terminal, webhookId: string): Promise<void> {
  await run('tool list acme/tools');
  await run('tool reject acme/tools echo');
  await run('tool accept acme/tools echo');
  await run('tool correct acme/tools echo --title Echo --read-only yes');
  await run('tool correct acme/tools echo --read-only perhaps');
  await run('tool list acme/tools --as dana@example.com');
  await run('connection list acme/crm');
  await run('connection end acme/crm eve@example.com');
  const consents = await run('consent list acme');
  await run('consent list acme --user dana@example.com');
  await run(`consent limit acme ${found(/\bgrant_[0-9A-Za-z]{16}\b/, consents)} --tools read-only`);
  await run(`consent withdraw acme ${found(/\bgrant_[0-9A-Za-z]{16}\b/, consents)}`);
  await run('key list acme');
  await run('token list dana@example.com');
  await run('webhook list acme');
  await run(`webhook disable acme ${webhookId}`);
  await run('audit list acme --limit 20');
  await run('audit list acme --outcome refused');
  await run('audit list acme --actor dana@example.com');
  await run('audit list acme --action key.create --from 2026-01-01');
  await run('audit export acme --csv');
  await run('audit export acme');
}

/** The help pages to record. Those of the other commands say the same as `docs/cli-latchkey-server.md`. */
export const serverHelpPages = [
  '--help',
  'start --help',
  'server --help',
  'server create --help',
  'restore --help',
  'help agent revoke',
  'invitation create --help',
  '--version',
];
