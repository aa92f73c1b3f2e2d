import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertAgent, revokeAgent } from '#server/db/agents';
import { findServer } from '#server/db/servers';
import { pageApp, type PageApp, type SignedInBrowser } from '#support/page-app';

const path = '/dashboard/acme/new-server';

let app: PageApp;
let owner: SignedInBrowser;
beforeAll(async () => {
  app = await pageApp();
  owner = await app.browser('olga', { organizationId: 'org_acme', role: 'owner' });
});
afterAll(() => app[Symbol.asyncDispose]());

const create = (typed: Record<string, string>) => {
  const fields = { csrf_token: owner.csrfToken, name: 'crm', url: '', agent: '', ...typed };
  return app.post({ path, cookie: owner.cookie, body: new URLSearchParams(fields).toString() });
};
const summary = (html: string) => /<div class="summary"[\s\S]*?<\/div>/.exec(html)?.[0] ?? '';

test.each([
  [{ kind: 'agent' }, 'Choose the agent.'],
  [{ kind: 'http' }, 'Enter the URL of the HTTP server.'],
  [{ kind: 'http', url: 'mcp.example/mcp' }, 'The URL is not an http or https URL.'],
  [{ kind: 'agent', agent: 'nobody' }, 'The agent is not an agent of this organization.'],
])('new server: of %j the form says what is missing or wrong: %s', async (typed, words) => {
  const { status, text } = await create(typed);

  expect(status).toBe(422);
  expect(summary(text)).toContain(words);
});

test('new server: without any agent the form links to creating one', async () => {
  const { text } = await app.get(path, owner.cookie);

  expect(text).toContain('<a href="/dashboard/acme/new-agent">');
});

test('new server: every active agent can be chosen, and a revoked one cannot', async () => {
  const { db } = app.server.stores;
  for (let n = 0; n < 450; n += 1) {
    const name = `agent-${String(n).padStart(3, '0')}`;
    await insertAgent(db, { id: `agent_${n}`, organizationId: 'org_acme', name, createdAt: n });
  }
  const offered = async () => {
    const { text } = await app.get(path, owner.cookie);
    return [...text.matchAll(/<option value="(agent-\d+)"/g)].map(([, name]) => name);
  };
  const all = await offered();

  await revokeAgent(db, 'agent_449', 1);

  expect(all).toHaveLength(450);
  expect(all.at(-1)).toBe('agent-449');
  expect(await offered()).toEqual(all.slice(0, -1));
});

const publicUrl = 'https://mcp.example/mcp';
const servers = async () => {
  const { text } = await app.get('/dashboard/acme/servers', owner.cookie);
  return [...text.matchAll(/href="\/dashboard\/acme\/servers\/([\w-]+)"/g)].map(([, name]) => name);
};

test('new server: the connection is tested first, and a server that answers is created', async () => {
  const { status, location } = await create({ kind: 'http', url: publicUrl, name: 'answers' });

  expect([status, location]).toEqual([303, '/dashboard/acme/servers/answers?done=created']);
  expect(app.upstreams.asked).toEqual([publicUrl]);
});

test('new server: a test shows protocol, tools and authentication, and creates nothing', async () => {
  const tool = { name: 'search', description: '', inputSchema: {}, isReadOnly: true };
  const tools = [{ ...tool, digest: '', text: '' }];
  app.upstreams.inspection = { outcome: 'connected', protocolVersion: '2026-07-28', tools };
  const { status, text } = await create({ kind: 'http', url: publicUrl, name: 'x', step: 'test' });

  expect(status).toBe(200);
  expect(text).toContain('>Connected</h2>');
  for (const fact of ['MCP 2026-07-28', '1: search', 'None required']) expect(text).toContain(fact);
  expect(await servers()).not.toContain('x');
});

test('new server: one that cannot be reached is created only after a confirmation', async () => {
  const reason = 'The host name of mcp.example was not found.';
  app.upstreams.inspection = { outcome: 'offline', reason };
  const wanted = { kind: 'http', url: publicUrl, name: 'away' };
  const first = await create(wanted);
  const before = await servers();
  const second = await create({ ...wanted, step: 'anyway' });

  expect(first.status).toBe(422);
  expect(first.text).toContain(reason);
  expect(first.text).toContain('value="anyway">Create anyway</button>');
  expect(before).not.toContain('away');
  expect(second.location).toBe('/dashboard/acme/servers/away?done=created');
});

test('new server: one that requires authentication is created, since that is set up afterwards', async () => {
  const reason = 'mcp.example requires authentication (HTTP 401).';
  app.upstreams.inspection = { outcome: 'sign-in-required', isOAuth: true, reason };
  const wanted = { kind: 'http', url: publicUrl, name: 'private' };
  const tested = await create({ ...wanted, step: 'test' });
  const created = await create(wanted);

  expect(tested.text).toContain('OAuth (the server answers HTTP 401)');
  expect(created.location).toBe('/dashboard/acme/servers/private/upstream?done=created');
});

test('new server: with "Review first", it offers nothing before it was reviewed, and the form keeps the choice', async () => {
  const reason = 'The host name of mcp.example was not found.';
  app.upstreams.inspection = { outcome: 'offline', reason };
  const wanted = { kind: 'http', url: publicUrl, name: 'careful', newTools: 'review' };
  const asked = await create(wanted);
  await create({ ...wanted, step: 'anyway' });
  const { db } = app.server.stores;
  const made = await findServer(db, 'acme', 'careful');

  expect(asked.text).toMatch(/id="newTools-review"[^>]* checked/);
  expect(made?.target).toMatchObject({ newTools: 'review', changedTools: 'withhold' });
});

const waysOut = (url: string) => {
  const { host } = new URL(url);
  const query = new URLSearchParams({ server: 'inside', url }).toString().replace('&', '&amp;');
  return {
    command: `without a restart:</p>\n<p class="copied"><code>latchkey-server outbound allow ${host.includes(':') ? host : `${host}:443`}</code>`,
    agent: `href="/dashboard/acme/new-agent?${query}">Create an agent</a>`,
  };
};

test('new server: a private address is refused with a remedy, even if confirmed', async () => {
  const url = 'http://10.0.0.5:3000/mcp';
  const { status, text } = await create({ kind: 'http', url, name: 'inside', step: 'anyway' });

  expect(status).toBe(422);
  expect(summary(text)).toContain('The URL is in a private network.');
  expect(text).toContain('10.0.0.5:3000 is in a private network. Check the URL.');
  expect(text).toContain(waysOut(url).command);
  expect(text).toContain(waysOut(url).agent);
  expect(text).not.toContain('value="anyway"');
  expect(await servers()).not.toContain('inside');
});

test('new server: a name that leads to no public address fails the connection test, with a remedy', async () => {
  const url = 'https://crm.internal.example/mcp';
  const reason = 'crm.internal.example is not on the public internet.';
  app.upstreams.inspection = { outcome: 'forbidden', reason };
  const first = await create({ kind: 'http', url, name: 'inside' });
  const before = await servers();
  const second = await create({ kind: 'http', url, name: 'inside', step: 'anyway' });

  expect(first.status).toBe(422);
  expect(first.text).toContain(`${reason} Check the URL. Latchkey calls only public addresses`);
  expect(first.text).toContain(waysOut(url).command);
  expect(first.text).toContain(waysOut(url).agent);
  expect(first.text).toContain('value="anyway">Create anyway</button>');
  expect(before).not.toContain('inside');
  expect(second.location).toBe('/dashboard/acme/servers/inside?done=created');
});

test('new server: a link fills in name, kind and agent', async () => {
  const { text } = await app.get(`${path}?kind=agent&agent=agent-007&name=crm`, owner.cookie);

  expect(text).toContain('value="crm"');
  expect(text).toMatch(/id="kind-agent" value="agent"[^>]* checked/);
  expect(text).toContain('<option value="agent-007" selected>');
});
