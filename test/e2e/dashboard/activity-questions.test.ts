import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { pageProblems } from '#support/chromium';
import {
  email,
  libraryKey,
  ownersDashboard,
  type OwnersDashboard,
} from '#support/dashboard-visitor';
import { mcpCall, rpc } from '#support/mcp-call';
import { patient } from '#support/patient';
import { suite } from '#support/suite';

/** How an administrator finds an answer, where `click` counts the clicks, and what the page must then say. */
interface Answer {
  readonly question: string;
  readonly find: (page: Page, click: (what: Locator) => Promise<void>) => Promise<void>;
  readonly says: readonly string[];
}

const link = (page: Page, name: string | RegExp) => page.getByRole('link', { name }).first();
const inMenu = (page: Page, name: string) =>
  page.locator('nav.side').getByRole('link', { name, exact: true });

/** The answers to the questions of docs/activity.md, in its order. */
const answers: readonly Answer[] = [
  {
    question: 'Who used the refund tool last week?',
    async find(page, click) {
      await click(inMenu(page, 'Activity'));
      await page.getByLabel('Tool, prompt or resource').fill('query');
      await click(page.getByRole('button', { name: 'Apply' }));
    },
    says: ['dana@example.com used query of library', 'API key nightly used query of library'],
  },
  {
    question: 'Why did Dana’s call fail this morning?',
    async find(page, click) {
      await click(page.getByRole('row', { name: email }).getByRole('link', { name: /^View/ }));
    },
    says: ['failed because the tool reported an error', 'Tool error', 'query'],
  },
  {
    question: 'What did a key do before it was revoked?',
    async find(page, click) {
      await click(inMenu(page, 'Activity'));
      await click(link(page, 'API key limited'));
    },
    says: ['API key limited tried to use query', 'The credential lacks the scope', 'Credential'],
  },
  {
    question: 'Which application makes the most errors?',
    async find(page, click) {
      await click(inMenu(page, 'Usage'));
      await click(link(page, /^Applications$/));
    },
    says: ['Claude Code\t3\t0\t0', 'Cursor\t3\t3 (100%)\t3'],
  },
  {
    question: 'Which tools did Dana use this week?',
    async find(page, click) {
      await click(inMenu(page, 'People'));
      await click(page.getByRole('main').getByRole('link', { name: email }));
      await click(link(page, 'View usage of the last 7 days'));
    },
    says: ['Who used which tool', `${email}\tquery\t1\t1 (100%)\t0`],
  },
  {
    question: 'Which server fails most, and how?',
    async find(page, click) {
      await click(inMenu(page, 'Usage'));
      await click(link(page, /failed calls: library/));
    },
    says: ['Refused', 'Tool error', 'The tool reported an error.'],
  },
  {
    question: 'Who was refused, and why?',
    async find(page, click) {
      await click(inMenu(page, 'Activity'));
      await page.getByLabel('Outcome').selectOption('Refused');
      await click(page.getByRole('button', { name: 'Apply' }));
    },
    says: ['API key limited tried to use query', 'The credential lacks the scope'],
  },
  {
    question: 'Which calls were refused for the same reason?',
    async find(page, click) {
      await click(page.getByRole('row', { name: 'limited' }).getByRole('link').last());
      await click(link(page, 'insufficient_scope'));
    },
    says: ['insufficient_scope', 'API key limited tried to use query'],
  },
  {
    question: 'What else happened around a failed call?',
    async find(page, click) {
      await click(page.getByRole('row', { name: email }).getByRole('link', { name: /^View/ }));
      await click(link(page, /^Your other calls/));
    },
    says: ['dana@example.com used query of library', 'Time'],
  },
  {
    question: 'Who called a tool that is hidden now?',
    async find(page, click) {
      await click(page.getByRole('main').getByRole('link', { name: 'library' }).first());
      await click(link(page, 'Tools'));
      await click(link(page, 'Last calls of list_tables'));
    },
    says: ['API key nightly used list_tables of library'],
  },
];

await suite('browser', 'questions of an administrator in a browser', () => {
  let acme: OwnersDashboard;
  let server: OwnersDashboard['server'];
  let dana: OwnersDashboard['dana'];

  beforeAll(async () => {
    acme = await ownersDashboard();
    ({ server, dana } = acme);
    await callThem();
  });
  afterAll(() => acme[Symbol.asyncDispose]());

  /** Calls of two keys and of Dana; then one key is revoked, and a tool is hidden. */
  async function callThem() {
    const { page, open, press, fill } = dana;
    const nightly = await libraryKey(server, 'nightly');
    const limited = await libraryKey(server, 'limited', '--scope', 'mcp:tools:read');
    const call = (key: string | undefined, application: string, name: string) =>
      mcpCall(`${server.base}/mcp/acme/library`, {
        ...(key !== undefined && { key }),
        headers: { 'user-agent': application },
        body: rpc('tools/call', { name, arguments: { sql: 'select 1' } }),
      });
    for (const tool of ['query', 'list_tables', 'query']) {
      await call(nightly.key, 'Claude Code/2.1', tool);
    }
    for (const version of ['1.0', '1.1', '1.2'])
      await call(limited.key, `Cursor/${version}`, 'query');
    await open('/servers/library/try?tool=query');
    await fill({ sql: 'drop table book' });
    await press('Call query');
    await page.locator('.result').waitFor();
    await server.command(['key', 'revoke', limited.id]);
    await server.command(['server', 'hide-tools', 'acme/library', '--tool', 'list_tables']);
    for (const [path, last] of [
      ['/usage?by=caller', email],
      ['/activity', email],
    ] as const) {
      const row = page.getByRole('row', { name: last });
      while ((await row.count()) === 0) await open(path);
    }
  }

  const documented = readFileSync(
    join(import.meta.dirname, '../../../docs/activity.md'),
    'utf8',
  ).replaceAll("'", '’');

  test.each(answers)('$question takes at most three clicks', async ({ question, find, says }) => {
    const { page, open } = dana;
    let clicks = 0;
    await open('');

    await find(page, async (what) => {
      clicks += 1;
      await what.click();
    });
    await page.getByRole('heading', { level: 1 }).waitFor();

    await expect
      .poll(async () => {
        const text = (await page.getByRole('main').innerText()).replaceAll(/ +/g, ' ');
        return says.filter((words) => !text.includes(words));
      }, patient)
      .toEqual([]);
    expect(clicks).toBeLessThanOrEqual(3);
    expect(documented).toContain(`| ${question} |`);
    expect(await pageProblems(page)).toEqual([]);
  });
});
