import type { CommandPorts } from '#server/admin/command';
import type { ProviderSetup } from '#server/accounts/provider-setup';
import { checkPositionals, findCommand } from '#server/cli/find-command';
import { readOptions } from '#server/config/read-options';
import { passwordHashing } from '#server/accounts/passwords';
import type { OpenStores } from '#server/app/stores';
import { openDatabase } from './open-database.ts';
import type { UpstreamSetup } from '#server/upstreams/credentials/setup';
import type { MailSetup } from '#server/mail/mail-setup';
import type { WebhookSetup } from '#server/webhooks/webhook-setup';
import { masterKey, type MasterKey } from '#server/secrets/master-key';
import { stillClock, type StillClock } from './still-clock.ts';
import { loopbackSetup } from './upstream-setup.ts';
import { loopbackProviders } from './provider-setup.ts';
import { loopbackMail } from './mail-setup.ts';
import { loopbackWebhooks } from './webhook-setup.ts';

/** The administrative commands over a database of their own, as a person at a terminal runs them. */
export interface Administration extends AsyncDisposable {
  readonly stores: OpenStores & {
    readonly upstreamSetup: UpstreamSetup;
    readonly webhookSetup: WebhookSetup;
    readonly mailSetup: MailSetup;
    readonly providerSetup: ProviderSetup;
    readonly contentKey: Pick<MasterKey, 'open'>;
  };
  readonly clock: StillClock;
  /** The lines that the last command wrote to stderr. */
  readonly told: readonly string[];
  /** Runs a command line, given without `latchkey-server`, and returns the lines that it printed. */
  run(...argv: string[]): Promise<string[]>;
  /** Runs a command line with `--json` and returns the document that it printed. */
  json(...argv: string[]): Promise<unknown>;
}

/** The answer to every password prompt. */
const typed = 'correct horse battery staple';

export async function administration({
  tryUrl = () => Promise.resolve(undefined),
}: Partial<Pick<CommandPorts, 'tryUrl'>> = {}): Promise<Administration> {
  const clock = stillClock();
  const setup = {
    upstreamSetup: loopbackSetup(),
    webhookSetup: loopbackWebhooks(clock),
    mailSetup: loopbackMail(clock),
    providerSetup: loopbackProviders(clock),
    contentKey: masterKey(new Uint8Array(32)),
  };
  const stores = { ...(await openDatabase()), ...setup };

  let told: string[] = [];
  async function run(...argv: string[]): Promise<string[]> {
    const { command, rest } = findCommand(argv);
    if (!('run' in command))
      throw new TypeError(`${command.words} works on a folder, not on stores`);
    const input = readOptions(command.options, rest, {});
    checkPositionals(command, input.positionals);
    const lines: string[] = [];
    told = [];
    await command.run(input, {
      stores,
      clock,
      out: (line) => lines.push(line),
      tell: (line) => told.push(line),
      readPassword: () => Promise.resolve({ password: typed, repeated: typed }),
      hashing: passwordHashing({ log2Cost: 8 }),
      tryUrl,
    });
    return lines;
  }

  return {
    stores,
    clock,
    get told() {
      return told;
    },
    run,
    json: async (...argv) => JSON.parse((await run(...argv, '--json')).join('\n')),
    async [Symbol.asyncDispose]() {
      await stores.close();
    },
  };
}

/** `administration` with the server `acme/web`. */
export async function administrationWithServer(): Promise<Administration> {
  const admin = await administration();
  await admin.run('organization', 'create', 'acme');
  await admin.run('server', 'create', 'acme/web', '--demo');
  return admin;
}
