import { email, password } from '#support/dashboard-visitor';
import { nodeCluster } from '#support/node-cluster';
import { patient } from '#support/patient';

import type { Scene } from './scene.ts';

/** The nodes of an installation on PostgreSQL. The other scenes use another installation. */
export const nodeScenes: Scene = async ({ browser, album }) => {
  await using cluster = await nodeCluster({ size: 1 });
  await cluster.command(['organization', 'create', 'acme']);
  const owner = ['user', 'create', email, '--organization', 'acme', '--role', 'owner'];
  await cluster.command(owner, `${password}\n`);
  // The balancer would ask the killed node as well.
  const extraHTTPHeaders = { 'x-test-node': 'node-1' };
  const context = await browser.newContext({ extraHTTPHeaders });
  const page = await context.newPage();
  await page.goto(`${cluster.base}/sign-in?next=/nodes`);
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.goto(`${cluster.base}/nodes`);
  await album.take(page, 'nodes-one', { isTable: true });

  const { program } = await cluster.add();
  await cluster.add();
  await page.getByText('node-3').waitFor(patient);
  program.kill('SIGKILL');
  await page.getByText('Not seen').waitFor(patient);
  await album.take(page, 'nodes', { isTable: true });
  await page.goto(`${cluster.base}/organizations`);
  await album.take(page, 'organizations');
  await context.close();
};
