import { existsSync } from 'node:fs';
import { resolve as absolute } from 'node:path';
import { fileURLToPath } from 'node:url';
import { demoBanner, type DemoPlace } from '#cli/demo-banner';
import { dataDir } from '#config/option';
import type { Input } from '#config/read-options';
import { startWords, typedStart } from '#download/proxy-reference';
import type { Clock } from '#model/clock';
import type { RunningServer } from './serve.ts';

/** The facts that a server prints about itself after its start. */
interface Greeting {
  readonly input: Input;
  readonly base: string;
  /** The absolute path of the data folder. */
  readonly folder: string;
  /** Whether this start created the data. */
  readonly isNew: boolean;
  /** The folder of the program's sources; `undefined` in a build. */
  readonly sources: URL | undefined;
  readonly nodePath: string;
  readonly clock: Clock;
  readonly out: (line: string) => void;
}

/** Prints how the first person signs in, and where the data is. */
export async function greet(server: RunningServer, greeting: Greeting): Promise<void> {
  const { input, base, folder, isNew, clock, out } = greeting;
  const link = await server.firstLink();
  if (link) {
    const minutes = Math.floor(link.secondsLeft / 60);
    const within = minutes >= 59 ? 'an hour' : minutes > 1 ? `${minutes} minutes` : 'a minute';
    out(`No account exists yet. To create yours, open this one-time link within ${within}:`);
    out('');
    out(`  ${base}${link.path}`);
    out('');
  }
  if (input.flag('demo')) {
    const place = await demoPlace(server, greeting);
    const showsCredentials = input.flag('show-demo-credentials');
    const at = { stores: server.stores, clock };
    for (const text of await demoBanner(place, showsCredentials, at)) text.split('\n').forEach(out);
  }
  out(
    input.isGiven('database-url')
      ? 'database: PostgreSQL'
      : `data folder: ${folder}${isNew ? ' (new)' : ''}`,
  );
}

/** How to start the proxy and this program on this host. An assistant needs absolute paths, because it has no working folder. */
async function demoPlace(
  server: RunningServer,
  { base, folder: path, sources, nodePath }: Greeting,
): Promise<DemoPlace> {
  const isUsual = path === absolute(dataDir.fallback ?? '');
  const data = isUsual ? '' : ` --data-dir ${/\s/.test(path) ? `"${path}"` : path}`;
  const launcher = sources && fileURLToPath(new URL('../proxy/bin/latchkey.js', sources));
  if (launcher !== undefined && existsSync(launcher)) {
    return {
      base,
      proxyCommand: [nodePath, launcher],
      typedProxy: 'npx --no latchkey',
      typedServer: (typed) => `npx --no latchkey-server ${typed}${data}`,
    };
  }
  const proxy = await server.proxy();
  return {
    base,
    proxyCommand: startWords(proxy),
    typedProxy: typedStart(proxy),
    typedServer: (typed) => `latchkey-server ${typed}${data}`,
  };
}
