import type { Described } from '#connections/new-connection';
import type { Checked } from '#connections/connections-host';
import { ConfigurationError, type Problem, UsageError } from '#config/errors';
import type { Connection } from '#config/connection';
import { keychainWord } from '#config/secret';
import { oauthFieldList } from '#config/oauth-fields';
import { readCredentials } from '#config/read-credentials';
import { registryFile } from '#config/user-files';
import { refusedUrl } from '#connections/new-connection';
import { webUrl } from '#transport/web-url';
import type { Command, CommandInput, OtherCommands } from './command.ts';
import { connectionsOf, type CommandHost } from './command-host.ts';

const oauthFlags = oauthFieldList.flatMap(([, { flag }]) => flag ?? []);

/** `latchkey add NAME URL`. */
export const addCommand: Command = {
  name: 'add',
  operands: 'NAME URL',
  summary: 'add a connection; its secrets are stored in the keychain',
  about: `Adds an MCP server, so that latchkey NAME connects to it. Each name has its own account: you sign in
separately for two names with the same URL. Latchkey checks the server before it stores anything; --proxy, --ca-file,
--log-file and --log-level work as in latchkey install.`,
  flags: {
    'api-key': { doc: 'ask for an API key, or read it from standard input' },
    ...Object.fromEntries(
      oauthFlags.map(({ name, value, repeated, doc }) => [
        name,
        { doc, ...(value !== undefined && { value }), ...(repeated && { repeated }) },
      ]),
    ),
    grant: { value: 'GRANT', doc: 'client_credentials or authorization_code' },
    replace: { doc: 'replace an existing connection with this name' },
    'no-check': { doc: 'add the connection without checking the server' },
    json: { doc: 'print one JSON object' },
  },
  options: ['secret-store', 'secret-store-key-file', 'state-dir'],
  examples: [
    'latchkey add sales https://latchkey.example.com/mcp/acme/sales',
    'latchkey add night https://latchkey.example.com/mcp/acme/sales --api-key <key.txt',
  ],
  async run(input, host, others) {
    const [name = ''] = input.operands;
    await refuseCommandName(name, others);
    await add(input, host);
    return 0;
  },
};

/** Refuses the name of a command, because `latchkey NAME` would run the command. @throws {UsageError} */
export async function refuseCommandName(name: string, { all }: OtherCommands): Promise<void> {
  const isCommand = (await all()).some((command) => command.name === name);
  if (isCommand || name === 'help')
    throw new UsageError(
      `${name} is a command, so no connection can have this name`,
      'choose another name, or let latchkey setup URL choose one',
    );
}

/** Runs `latchkey add`: stores a connection in the registry, and its secrets in the secret store. */
async function add(input: CommandInput, host: CommandHost): Promise<void> {
  const { operands, flags } = input;
  const [name = '', url = ''] = operands;
  const connections = connectionsOf(host, input.options);
  const replace = flags.has('replace');
  // Checks the name before the user types a secret.
  await connections.checkFree({ name, url }, replace);
  const described = await describe(name, url, input, host);
  const checked = await connections.add(described, { replace, check: !flags.has('no-check') });
  printAdded(described.connection, checked, flags.has('json'), host);
}

async function describe(
  name: string,
  url: string,
  { flags }: CommandInput,
  host: CommandHost,
): Promise<Described> {
  const one = (flag: string) => flags.get(flag)?.[0];
  const problems: Problem[] = [];
  const source = 'command line';
  if (!webUrl(url)) throw refusedUrl(url);
  if (flags.has('api-key') && (flags.has('client-id') || flags.has('client-secret')))
    throw new UsageError('an API key and an OAuth client cannot be combined');
  const apiKeySecret = flags.has('api-key')
    ? await secretFor('API key', 'LATCHKEY_API_KEY', host)
    : undefined;
  const clientSecret = flags.has('client-secret')
    ? await secretFor('client secret', 'LATCHKEY_CLIENT_SECRET', host)
    : undefined;
  const given = oauthFieldList.flatMap(([field, { flag }]) => {
    const texts = flag?.value === undefined ? undefined : flags.get(flag.name);
    return texts ? [[field, flag?.of ? flag.of(texts) : texts[0]]] : [];
  });
  const oauth = { ...Object.fromEntries(given), clientSecret, grant: one('grant') };
  const credentials = readCredentials(
    { oauth, at: { source, key: '' }, ...(apiKeySecret !== undefined && { apiKey: apiKeySecret }) },
    problems,
  );
  if (problems.length > 0) throw new ConfigurationError(problems);
  return {
    connection: { name, url, source: registryFile(host), account: name, credentials },
    secrets: {
      ...(apiKeySecret !== undefined && { apiKeySecret }),
      ...(clientSecret !== undefined && { clientSecret }),
    },
  };
}

/**
 * Reads a secret from the environment variable, or else from a hidden prompt or standard input.
 *
 * @throws {UsageError} if there is none, or if it is the word that stands for a stored secret in configuration files
 */
export async function secretFor(
  what: string,
  variable: string,
  host: CommandHost,
): Promise<string> {
  const secret = host.env[variable] || (await host.secret(what));
  if (secret && secret !== keychainWord) return secret;
  throw new UsageError(
    `no ${what} entered`,
    `enter it when asked, pipe it in, or set ${variable}; never pass it as an argument`,
  );
}

const asWords: Record<NonNullable<Checked['as']> | 'none', string> = {
  api_key: 'the API key is valid',
  client: 'the OAuth client is valid',
  person: 'requires a sign-in',
  none: 'requires no authentication',
};

function printAdded(
  { name, url, source: file }: Connection,
  checked: Checked | undefined,
  json: boolean,
  host: CommandHost,
): void {
  if (json) return host.print(JSON.stringify({ name, url, file, checked: checked ?? null }));
  host.print(`added ${name} (${url}): ${checked ? asWords[checked.as ?? 'none'] : 'not checked'}`);
  if (checked?.as === 'person') host.warn(`next: latchkey login ${name}`);
  host.warn(`next: latchkey install ASSISTANT ${name}`);
}
