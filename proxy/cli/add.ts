import { isAbsolute, resolve } from 'node:path';
import { dropSecrets, keepSecrets, type ConnectionSecrets } from '#accounts/kept-secrets';
import { ConfigurationError, type Problem } from '#config/configuration-error';
import { inKeychain, type Connection } from '#config/connection';
import { connectionEntry } from '#config/connection-entry';
import { readCredentials } from '#config/read-credentials';
import { registryFile } from '#config/registry-file';
import { UsageError } from '#config/usage-error';
import { webUrl } from '#http/web-url';
import type { CommandInput } from './command.ts';
import type { Checked, Machine } from './machine.ts';
import {
  checkName,
  checkUnambiguous,
  registered,
  setRegistered,
  sharesClient,
} from './registry.ts';

/** `latchkey add`: a connection of one's own, asked for once and then kept, its secrets elsewhere. */
export async function add(input: CommandInput, machine: Machine): Promise<void> {
  const { operands, flags } = input;
  const [name = '', url = ''] = operands;
  const { config: _, ...options } = machine.options(input.options);
  checkName(name);
  await checkUnambiguous(name, url, options, machine);
  const before = await registered(name, options, machine);
  if (before && !flags.has('replace'))
    throw new UsageError(
      `${name} is there already, for ${before.url}`,
      'add --replace, or choose another name',
    );
  const { connection, secrets } = await described(name, url, input, machine);
  const checked = flags.has('no-check') ? undefined : await machine.check(connection, options);
  const issuer = await issuerOf(connection, checked, input, machine);
  const store = await machine.store(options);
  if (before) await dropSecrets(before, await sharesClient(before, options, machine), store);
  await keepSecrets(connection, { ...secrets, ...issuer }, store);
  await setRegistered(name, connectionEntry(connection), options, machine);
  say(connection, checked, flags.has('json'), machine);
}

async function described(
  name: string,
  url: string,
  { flags }: CommandInput,
  machine: Machine,
): Promise<{ connection: Connection; secrets: ConnectionSecrets }> {
  const one = (flag: string) => flags.get(flag)?.[0];
  const problems: Problem[] = [];
  const source = 'command line';
  if (!webUrl(url)) {
    const problem = 'must be https, or http on this machine, without user or password';
    problems.push({ source, key: 'URL', problem });
  }
  if (flags.has('api-key') && (flags.has('client-id') || flags.has('client-secret')))
    throw new UsageError('an API key and an OAuth client exclude each other');
  const apiKeySecret = flags.has('api-key')
    ? await secretFor('API key', 'LATCHKEY_API_KEY', machine)
    : undefined;
  const clientSecret = flags.has('client-secret')
    ? await secretFor('client secret', 'LATCHKEY_CLIENT_SECRET', machine)
    : undefined;
  const keyFile = one('private-key-file');
  const oauth = {
    clientId: one('client-id'),
    clientSecret,
    privateKeyFile: keyFile && (isAbsolute(keyFile) ? keyFile : resolve(keyFile)),
    grant: one('grant'),
    scopes: flags.get('scope'),
    issuer: one('issuer'),
    redirectPort: flags.has('redirect-port') ? Number(one('redirect-port')) : undefined,
  };
  const credentials = readCredentials(
    { oauth, at: { source, key: '' }, ...(apiKeySecret !== undefined && { apiKey: apiKeySecret }) },
    problems,
  );
  if (problems.length > 0) throw new ConfigurationError(problems);
  return {
    connection: { name, url, source: registryFile(machine), account: name, credentials },
    secrets: {
      ...(apiKeySecret !== undefined && { apiKeySecret }),
      ...(clientSecret !== undefined && { clientSecret }),
    },
  };
}

async function secretFor(what: string, variable: string, machine: Machine): Promise<string> {
  const secret = machine.env[variable] || (await machine.secret(what));
  if (secret && secret !== inKeychain) return secret;
  throw new UsageError(
    `no ${what} came`,
    `type it when asked, pipe it in, or set ${variable}; never as an argument`,
  );
}

/** The issuer that the secret has just been used with is the only one that gets it from now on. */
async function issuerOf(
  connection: Connection,
  checked: Checked | undefined,
  input: CommandInput,
  machine: Machine,
): Promise<{ issuer?: string }> {
  const { credentials } = connection;
  if (credentials.kind === 'api_key') return {};
  if (credentials.issuer !== undefined) return { issuer: credentials.issuer };
  if (checked?.issuer !== undefined) return { issuer: checked.issuer };
  if (checked?.as !== 'client') return {};
  const { vault } = await machine.account(
    { ...connection, credentials },
    machine.options(input.options),
  );
  const token = await vault.access();
  return token ? { issuer: token.issuer } : {};
}

const asWords: Record<Checked['as'], string> = {
  api_key: 'it takes the API key',
  client: 'it takes the OAuth client',
  person: 'a person signs in',
  nobody: 'it wants no credential',
};

function say(
  { name, url, source: file }: Connection,
  checked: Checked | undefined,
  json: boolean,
  machine: Machine,
): void {
  if (json) return machine.say(JSON.stringify({ name, url, file, checked: checked ?? null }));
  machine.say(`${name} is ${url}${checked ? `: ${asWords[checked.as]}` : ', unchecked'}`);
  if (checked?.as === 'person') machine.tell(`next: latchkey login ${name}`);
  machine.tell(`next: latchkey install ASSISTANT ${name}`);
}
