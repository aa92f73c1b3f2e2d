import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { chromium, pageProblems } from '#support/chromium';
import { dashboardVisitor, email, password, signInAs } from '#support/dashboard-visitor';
import { modern, mcpCall } from '#support/mcp-call';
import { rawAgent } from '#support/raw-agent';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { types, wireFrame } from '#support/wire-frames';

await suite('browser', 'agent pages', () => {
  let server: ServerProcess;
  let browser: Browser;
  let agentKey: string;
  let mcpKey: string;

  beforeAll(async () => {
    server = await serverProcess({ host: 'localhost' });
    browser = await chromium();
    const command = (words: string) => server.command(words.split(' '));
    await command('organization create acme');
    agentKey = JSON.parse(await command('agent create acme/berlin --json')).key;
    await command('server create acme/sales --agent berlin');
    await command('server create acme/stock --agent berlin');
    mcpKey = JSON.parse(await command('key create acme/sales --name nightly --json')).key;
    const person = ['user', 'create', email, '--organization', 'acme', '--role', 'owner'];
    await server.command(person, `${password}\n`);
  });
  afterAll(async () => {
    await browser.close();
    await server[Symbol.asyncDispose]();
  });

  test('an agent’s connecting, calls, errors and leaving are shown without a reload', async () => {
    const visitor = await dashboardVisitor(browser, server);
    const { page, open } = visitor;
    await signInAs(visitor, server, email);
    await open('/agents/berlin');
    const shown = (text: string | RegExp) =>
      page.locator('#renewed').getByText(text).first().waitFor();
    await shown('Waiting for agent…');

    {
      await using agent = await rawAgent(server.base.replace('localhost', '127.0.0.1'), {
        key: agentKey,
        headers: { Host: new URL(server.base).host },
        servers: ['sales', 'hr'],
        hello: { version: '7.8.9' },
        onFrame: () => undefined,
      });
      await shown('Connected');
      await shown('7.8.9');
      await shown('The agent berlin is connected, but its configuration has no server stock.');
      const call = mcpCall(`${server.base}/mcp/acme/sales`, {
        key: mcpKey,
        ...modern('tools/call', { name: 'echo', arguments: {} }),
      });
      const { stream } = await agent.frame(({ type }) => type === types.open);
      await shown(/^1$/);
      const why = JSON.stringify({ code: 'unreachable', detail: 'nobody listens on port 3000' });
      agent.say(wireFrame(types.reset, stream, why));
      expect((await call).status).toBe(502);
      await shown('unreachable: nobody listens on port 3000');

      const list = await visitor.context.newPage();
      await open('/agents', list);
      await list.locator('#renewed').getByText('Connected', { exact: true }).waitFor();
      await page.bringToFront();
    }

    await shown('Offline');
    expect(await pageProblems(page)).toEqual([]);
  });
});
