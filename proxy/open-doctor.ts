import { signsIn } from '#auth/account';
import type { DoctorProgress, Examined } from '#cli/command-host';
import type { Connection } from '#config/connection';
import { connectionNames, type ReadText } from '#config/find-entry';
import { defaultStateDirectory, userFiles } from '#config/user-files';
import type { Host } from '#host';
import type { Options } from '#config/options';
import { readConnection } from '#config/read-connection';
import { accountChecks } from '#status/account-checks';
import {
  assistantCheck,
  keychainCheck,
  stateDirectoryCheck,
  versionCheck,
} from '#status/host-checks';
import { examine, fail, ok, warn, type Check, type Finding } from '#status/checks';
import { networkChecks, serverCheck } from '#status/server-checks';
import { redactedBundle, secretsOf, redactedConnection } from '#status/doctor-bundle';
import { words } from '#errors';
import type { NetworkSettings } from '#transport/http-client';
import { redact } from '#log/redact';
import { greeting } from './greet.ts';
import { openAccount, openSecretStore } from './open-account.ts';
import type { CredentialPorts } from './open-credential.ts';

export type DoctorPorts = CredentialPorts &
  DoctorProgress &
  Pick<Host, 'nodeVersion'> & { readText: ReadText };

/** Runs the doctor on this host; `target` undefined: about the host alone. */
export async function openDoctor(
  target: string | undefined,
  options: Options,
  network: NetworkSettings,
  ports: DoctorPorts,
): Promise<Examined> {
  const { default: manifest } = await import('./package.json', { with: { type: 'json' } });
  const versions = { latchkey: manifest.version, node: ports.nodeVersion };
  const readText: ReadText = (path) => ports.readText(path);
  let connection: Connection | undefined;
  const secrets = Object.entries(ports.env)
    .filter(([name]) => name === 'LATCHKEY_API_KEY' || name === 'LATCHKEY_CLIENT_SECRET')
    .map(([, value = '']) => value);
  const clean = (finding: Finding): Finding => {
    const known = connection ? [...secrets, ...secretsOf(connection, ports.env)] : secrets;
    const { hint } = finding;
    return {
      ...finding,
      what: redact(finding.what, known),
      ...(hint !== undefined && { hint: redact(hint, known) }),
    };
  };
  const speak = {
    clock: ports.clock,
    words: (error: unknown) => words(error, connection),
    progress: ports.progress,
    found: (finding: Finding) => ports.found(clean(finding)),
  };

  const general: Check[] = [
    versionCheck(versions, ports.platform),
    assistantCheck(ports, readText),
    stateDirectoryCheck(options.stateDir ?? defaultStateDirectory(ports)),
    keychainCheck(options.secretStore, async () => openSecretStore(options, ports)),
    {
      name: 'configuration',
      async run() {
        if (target === undefined) return allConnections(options, ports, readText);
        connection = await readConnection(target, options.config, ports, readText);
        const { name, source, credentials } = connection;
        return [
          ok('configuration', `${name}, by ${source}: ${credentials.kind.replace('_', ' ')}`),
        ];
      },
    },
  ];
  const findings = await examine(general, speak);
  if (connection) findings.push(...(await examine(await checksOf(connection), speak)));

  async function checksOf(about: Connection): Promise<Check[]> {
    const url = new URL(about.url);
    const account = signsIn(about) ? await openAccount(about, options, ports) : undefined;
    const file = about.configFile === undefined ? '' : ` --config ${about.configFile}`;
    return [
      ...networkChecks(url, network),
      serverCheck(url, ports),
      ...(account ? accountChecks(account, `latchkey login ${about.name}${file}`) : []),
      greeting(about, options, ports),
    ];
  }

  return {
    findings: findings.map(clean),
    async bundle() {
      if (connection && signsIn(connection)) {
        const { vault } = await openAccount(connection, options, ports);
        const token = await vault.access().catch(() => undefined);
        const refresh = token && (await vault.refresh(token.issuer).catch(() => undefined));
        if (token) secrets.push(token.accessToken);
        if (refresh) secrets.push(refresh.refreshToken);
      }
      if (connection) secrets.push(...secretsOf(connection, ports.env));
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

async function allConnections(
  { config }: Options,
  ports: DoctorPorts,
  readText: ReadText,
): Promise<Finding[]> {
  const files = config === undefined ? userFiles(ports) : [config];
  const findings: Finding[] = [];
  for (const name of await connectionNames(files, readText))
    try {
      const { source } = await readConnection(name, config, ports, readText);
      findings.push(ok('configuration', `${name}, by ${source}`));
    } catch (error) {
      const { message } = words(error);
      // An entry that starts another program is none of ours.
      if (!message.includes('starts another program'))
        findings.push(fail('configuration', message, `correct it, then latchkey doctor ${name}`));
    }
  if (findings.length > 0) return findings;
  return [warn('configuration', 'no connection is configured', 'latchkey add NAME URL')];
}

function withoutPassword(text: string): string {
  return text.replace(/\/\/[^@/]*@/, '//…@');
}
