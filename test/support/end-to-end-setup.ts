/**
 * Vitest's global setup of the end-to-end tests, once a run.
 *
 * It builds the npm packages of both programs and installs them into a temporary folder, from which every test starts
 * them. Their dependencies are links to what the repository has installed already, so that nothing is
 * fetched. `TEST_PROGRAMS` names the folder; one that is set already is used as it is, and `TEST_PROGRAMS=` runs the
 * sources. `TEST_PACKAGES` names the packages, for tests that install them elsewhere.
 *
 * All programs share a cache of compiled code in a temporary folder, so that they start fast and write none into a home
 * folder. `NODE_COMPILE_CACHE` names it.
 *
 * `TEST_POSTGRES_TEMPLATE` names the database of which the databases of nodes are copies. The first test that needs it makes it.
 */
import { randomBytes } from 'node:crypto';
import { delimiter } from 'node:path';
import { Client } from 'pg';
import { builtPackages, unpack } from './packages.ts';
import { lack, postgresUrl, requirements } from './requirements.ts';
import { temporaryFolder } from './temporary-folder.ts';

export default async function setUp(): Promise<() => Promise<void>> {
  await using stack = new AsyncDisposableStack();
  if (process.env['NODE_COMPILE_CACHE'] === undefined)
    setFor(stack, 'NODE_COMPILE_CACHE', stack.use(await temporaryFolder('compiled')).path);
  if (process.env['TEST_PROGRAMS'] === '') delete process.env['TEST_PROGRAMS'];
  else if (process.env['TEST_PROGRAMS'] === undefined) {
    const folder = stack.use(await temporaryFolder('programs'));
    const { proxy, server } = await builtPackages(folder.path);
    for (const packed of [proxy, server]) await unpack(packed, folder.path);
    setFor(stack, 'TEST_PROGRAMS', folder.path);
    setFor(stack, 'TEST_PACKAGES', [proxy, server].join(delimiter));
  }
  if (
    process.env['TEST_POSTGRES_TEMPLATE'] === undefined &&
    (await lack(requirements.postgres)) === undefined
  ) {
    const name = `latchkey_template_${randomBytes(6).toString('hex')}`;
    stack.defer(() => dropDatabases(name, `${name}_unfinished`));
    setFor(stack, 'TEST_POSTGRES_TEMPLATE', name);
  }
  const running = stack.move();
  return () => running.disposeAsync();
}

function setFor(stack: AsyncDisposableStack, name: string, value: string): void {
  process.env[name] = value;
  stack.defer(() => void delete process.env[name]);
}

async function dropDatabases(...names: readonly string[]): Promise<void> {
  const one = new Client({ connectionString: postgresUrl() });
  await one.connect();
  for (const name of names) await one.query(`drop database if exists ${name} with (force)`);
  await one.end();
}
