import { afterAll, beforeAll, expect, test } from 'vitest';

import { insertAgent, revokeAgent } from '#server/db/agents';
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
  [{ kind: 'http' }, 'Type the URL of the HTTP server.'],
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
