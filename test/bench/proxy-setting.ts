import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { keychainSession } from '#support/keychain-session';
import { startProgram } from '#support/processes';
import { lack, requirements } from '#support/requirements';
import { temporaryFolder } from '#support/temporary-folder';
import type { Assistant, Command } from './assistant.ts';
import type { Build } from './builds.ts';

const environments = {
  floor: {},
  key: { LATCHKEY_API_KEY: 'mcp_bench' },
  token: {
    LATCHKEY_OAUTH: JSON.stringify({ clientId: 'client_bench', clientSecret: 'bench' }),
  },
};

/** What the rows of the proxy share: an MCP server, and a session with a keyring where there can be one. */
export class ProxySetting implements AsyncDisposable {
  readonly origin: string;
  readonly #folder: string;
  readonly #keychain: Readonly<Record<string, string>>;
  readonly #builds: Readonly<Record<string, Build>>;
  readonly #stack: AsyncDisposableStack;

  private constructor(
    at: { origin: string; folder: string; keychain: Readonly<Record<string, string>> },
    builds: Readonly<Record<string, Build>>,
    stack: AsyncDisposableStack,
  ) {
    this.origin = at.origin;
    this.#folder = at.folder;
    this.#keychain = at.keychain;
    this.#builds = builds;
    this.#stack = stack;
  }

  static async create(builds: Readonly<Record<string, Build>>): Promise<ProxySetting> {
    await using stack = new AsyncDisposableStack();
    const { path: folder } = stack.use(await temporaryFolder('bench'));
    const script = join(import.meta.dirname, 'floors/mcp-target.ts');
    const target = stack.use(startProgram(process.execPath, { args: [script] }));
    const [, origin = ''] = await target.line(/listening on (\S+)/);
    const noKeychain = await lack(requirements.keychain);
    const keychain = noKeychain ? {} : stack.use(await keychainSession()).env;
    return new ProxySetting({ origin, folder, keychain }, builds, stack.move());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }

  build(name: string): Build {
    const build = this.#builds[name];
    if (!build) throw new Error(`there is no build '${name}'`);
    return build;
  }

  /** The same Node as ours, and a home for each build. */
  command(
    args: readonly string[],
    home: string,
    kind: keyof typeof environments = 'floor',
  ): Command {
    const own = join(this.#folder, home);
    mkdirSync(own, { recursive: true, mode: 0o700 });
    const env = { HOME: own, ...this.#keychain, ...environments[kind] };
    return { command: process.execPath, args, env };
  }

  own(assistant: Assistant): Assistant {
    this.#stack.defer(() => assistant.end());
    return assistant;
  }
}
