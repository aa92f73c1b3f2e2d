import type { AccountStatus } from '#auth/account-status';
import { replaceCommand, setupCommand } from '#config/connection';
import { isAboutKey } from '#pipeline/contact';
import { connectionOptions, type Command } from './command.ts';
import { connectionsOf } from './command-host.ts';

/** `latchkey status`. */
export const statusCommand: Command = {
  name: 'status',
  operands: '[NAME|URL]',
  summary: 'show the state of the connections',
  about: `Shows the state of one connection or of all configured connections. It reads files and the keychain of this computer
and contacts no server.`,
  flags: { json: { doc: 'print one JSON object: {"connections":[…],"problems":[…]}' } },
  options: connectionOptions,
  examples: ['latchkey status', 'latchkey status acme --json'],
  async run({ operands: [target], flags, options: given }, host) {
    const { statuses, problems } = await connectionsOf(host, given).statuses(target);
    const found = statuses.map(({ status }) => status);
    if (flags.has('json')) host.print(statusJson(found, problems));
    else for (const line of statusLines(found, problems, host.clock.now())) host.advise(line);
    return 0;
  },
};

const credentialWords = {
  api_key: 'uses an API key',
  client: 'uses an OAuth client',
  person: undefined,
};

const nothing = [
  'no connection is configured',
  'hint: add a connection with latchkey setup URL, or name a URL: latchkey status https://latchkey.example.com/mcp/acme/sales',
];

/** A block for each connection, with a line for each fact. `problems` are about connections that cannot be read. */
function statusLines(
  statuses: readonly AccountStatus[],
  problems: readonly { name: string; problem: string }[],
  now: number,
): string[] {
  const blocks = statuses.flatMap((status) => {
    const { name, url, state, as, issuer, scope, signedInAs, expiresAt, renewable } = status;
    const { missingAccount, provider } = status;
    const facts = [
      `${name}: ${stateWords(status, now)}`,
      `  server ${url}`,
      credentialWords[as] && `  ${credentialWords[as]}`,
      signedInAs && `  ${state === 'ready' ? '' : 'last '}signed in as ${signedInAs}`,
      issuer && `  issuer ${issuer}`,
      provider && `  by the company sign-in of ${provider}`,
      scope && `  scopes ${scope}`,
      expiresAt !== undefined && `  token ${tokenWords(expiresAt - now, renewable)}`,
      missingAccount && `  hint: ${missingAccount.message}; then run latchkey doctor ${name}`,
      state === 'signed_out' && `  hint: ${remedy(status)}`,
      state === 'assistant' && `  hint: to connect it through Latchkey, run ${setupCommand(url)}`,
    ];
    return facts.flatMap((fact) => (fact ? [fact] : []));
  });
  const troubles = problems.flatMap(({ name, problem }) => `${name}: ${problem}`.split('\n'));
  const all = [...blocks, ...troubles];
  return all.length > 0 ? all : nothing;
}

/** The same as one JSON object, for programs. */
function statusJson(
  statuses: readonly AccountStatus[],
  problems: readonly { name: string; problem: string }[],
): string {
  const connections = statuses.map(({ expiresAt, signedInAs, missingAccount, ...rest }) => ({
    ...rest,
    ...(missingAccount && { missing_account: missingAccount.message }),
    ...(signedInAs !== undefined && { signed_in_as: signedInAs }),
    ...(expiresAt !== undefined && { expires_at: expiresAt }),
  }));
  return JSON.stringify({ connections, problems });
}

function stateWords({ state, as, assistant, missingAccount }: AccountStatus, now: number): string {
  if (missingAccount) {
    const { message, at } = missingAccount;
    const what = isAboutKey(message) ? 'key' : 'account';
    return `needs your own ${what} (checked ${duration(now - at)} ago)`;
  }
  if (state === 'ready') return 'ready';
  if (state === 'assistant') return `${assistant} connects and signs in itself`;
  return as === 'api_key' ? 'API key not found in the keychain' : 'signed out';
}

function remedy(status: AccountStatus): string {
  return status.as === 'api_key' ? replaceCommand(status) : `latchkey login ${status.name}`;
}

function tokenWords(seconds: number, renewable: boolean): string {
  const then = renewable ? ', renewed automatically' : '';
  if (seconds <= 0) return `expired${then}`;
  return `expires in ${duration(seconds)}${then}`;
}

function duration(seconds: number): string {
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
