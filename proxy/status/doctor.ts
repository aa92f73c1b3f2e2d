import { ConfigurationError } from '#config/errors';
import { signsIn } from '#auth/account';
import { isSignedIn, storedSignIn } from '#auth/provider-sign-in';
import { renewingToken } from '#auth/server-list';
import type { Connection } from '#config/connection';
import { checkDocument, connectionNames } from '#config/find-entry';
import type { Options } from '#config/options';
import { readConnection } from '#config/read-connection';
import { defaultStateDirectory, registryFile, userFiles } from '#config/user-files';
import type { Host, UserHost, ReadText } from '#host';
import type { SecretStore } from '#keychain/secret-store';
import { redact } from 'latchkey-mcp/safe-text';
import type { NetworkSettings } from '#transport/network-settings';
import { accountChecks } from './account-checks.ts';
import { examine, fail, ok, warn, type Check, type ExaminePorts, type Finding } from './checks.ts';
import { redactedBundle, redactedConnection, secretsOf } from './doctor-bundle.ts';
import { assistantCheck, keychainCheck, stateDirectoryCheck, versionCheck } from './host-checks.ts';
import { networkChecks, serverCheck } from './server-checks.ts';
import { storedCheck, type StoredPorts } from './stored-check.ts';

export type DoctorProgress = Pick<ExaminePorts, 'progress' | 'found'>;
export type Examined = {
  findings: readonly Finding[];
  /** The connections whose servers were not asked. */
  notAsked: readonly string[];
  bundle: () => Promise<Uint8Array>;
};

export type DoctorPorts = DoctorProgress &
  StoredPorts &
  Pick<Host, keyof UserHost | 'clock' | 'http' | 'nodeVersion'> & {
    /** Ends the run. */
    stop: AbortSignal;
    /** The version of this program. */
    version: string;
    network: NetworkSettings;
    readText: ReadText;
    store: () => Promise<SecretStore>;
    /** The handshake with the server, with the credential of the connection. */
    endpoint: (connection: Connection) => Promise<Check>;
  };

/**
 * Checks this host, and everything that `target` needs. A failed check does not end the run.
 *
 * @throws {UpstreamError} `aborted` when it is stopped; otherwise bugs only
 */
export async function runDoctor(
  target: string | undefined,
  options: Options,
  ports: DoctorPorts,
): Promise<Examined> {
  const versions = { latchkey: ports.version, node: ports.nodeVersion };
  const readText: ReadText = (path) => ports.readText(path);
  let connection: Connection | undefined;
  const others: Connection[] = [];
  const secrets = Object.entries(ports.env)
    .filter(([name]) => name === 'LATCHKEY_API_KEY' || name === 'LATCHKEY_CLIENT_SECRET')
    .map(([, value = '']) => value);
  const clean = (finding: Finding): Finding =>
    redactedFinding(finding, [...secrets, ...(connection ? secretsOf(connection, ports.env) : [])]);
  const examinePorts = {
    clock: ports.clock,
    words: (error: unknown) => ports.words(error, connection),
    stop: ports.stop,
    progress: ports.progress,
    found: (finding: Finding) => ports.found(clean(finding)),
  };

  const general: Check[] = [
    versionCheck(versions, ports.platform),
    assistantCheck(ports, readText),
    stateDirectoryCheck(options.stateDir ?? defaultStateDirectory(ports)),
    keychainCheck(options.secretStore, ports.store),
    {
      name: 'configuration',
      async run() {
        if (target === undefined) return allConnections(options, ports, readText, others);
        connection = await readConnection(target, options.config, ports, readText);
        const { name, source, credentials } = connection;
        return [
          ok('configuration', `${name}, by ${source}: ${credentials.kind.replace('_', ' ')}`),
        ];
      },
    },
  ];
  const findings = await examine(general, examinePorts);
  if (connection)
    findings.push(...(await examine(await connectionChecks(connection, ports), examinePorts)));
  findings.push(...(await examine([storedCheck(others, ports)], examinePorts)));

  return {
    findings: findings.map(clean),
    notAsked: others.map(({ name }) => name),
    async bundle() {
      if (connection) secrets.push(...(await usedSecrets(connection, ports)));
      const { proxy, ...shown } = options;
      return redactedBundle(
        {
          versions: { ...versions, platform: ports.platform, at: new Date().toISOString() },
          configuration: {
            options: { ...shown, ...(proxy !== undefined && { proxy: withoutPassword(proxy) }) },
            environment: Object.keys(ports.env).filter((name) => /^LATCHKEY_|_proxy$/i.test(name)),
            ...(connection && { connection: redactedConnection(connection) }),
          },
          checks: findings.map(clean),
        },
        secrets,
      );
    },
  };
}

function redactedFinding(finding: Finding, secrets: readonly string[]): Finding {
  const { what, hint } = finding;
  return {
    ...finding,
    what: redact(what, secrets),
    ...(hint !== undefined && { hint: redact(hint, secrets) }),
  };
}

/** The checks of everything that a connection needs. */
async function connectionChecks(connection: Connection, ports: DoctorPorts): Promise<Check[]> {
  const { name, configFile } = connection;
  const url = new URL(connection.url);
  const account = signsIn(connection) ? await ports.account(connection) : undefined;
  const file = configFile === undefined ? '' : ` --config ${configFile}`;
  return [
    ...networkChecks(url, ports.network),
    serverCheck(url, ports),
    ...(account ? accountChecks(account, `latchkey login ${name}${file}`) : []),
    await ports.endpoint(connection),
  ];
}

/** The secrets of a connection and the tokens that it got. */
async function usedSecrets(connection: Connection, ports: DoctorPorts): Promise<string[]> {
  const secrets = secretsOf(connection, ports.env);
  if (!signsIn(connection)) return [...secrets];
  const { vault, store, provider } = await ports.account(connection);
  const token = await vault.access().catch(() => undefined);
  const refresh = token && (await renewingToken(token, { vault, store }).catch(() => undefined));
  const named = await provider().catch(() => undefined);
  const shared = named && (await storedSignIn(named, store).catch(() => undefined));
  return [
    ...(isSignedIn(shared) ? [shared.idToken, shared.refreshToken ?? ''] : []),
    ...(token ? [token.accessToken] : []),
    ...(refresh ? [refresh.refreshToken] : []),
    ...secrets,
  ];
}

/** Reads all connections, and adds those that can be used to `usable`. */
async function allConnections(
  { config }: Options,
  ports: DoctorPorts,
  readText: ReadText,
  usable: Connection[],
): Promise<Finding[]> {
  const files = config === undefined ? userFiles(ports) : [config];
  const findings: Finding[] = [];
  const named = { required: config !== undefined };
  await checkDocument(config ?? registryFile(ports), readText, named).catch((error: unknown) => {
    findings.push(fail('configuration', ports.words(error).message, 'fix this file'));
  });
  for (const name of await connectionNames(files, readText))
    try {
      const found = await readConnection(name, config, ports, readText);
      usable.push(found);
      findings.push(ok('configuration', `${name}, by ${found.source}`));
    } catch (error) {
      const { message } = ports.words(error);
      if (!(error instanceof ConfigurationError && error.isOtherProgram))
        findings.push(
          fail('configuration', message, `fix the configuration, then run latchkey doctor ${name}`),
        );
    }
  if (findings.length > 0) return findings;
  return [warn('configuration', 'no connection is configured', 'latchkey setup URL')];
}

function withoutPassword(text: string): string {
  return text.replace(/\/\/[^@/]*@/, '//…@');
}
