import { text } from 'node:stream/consumers';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { chromium, pageProblems } from '#support/chromium';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { smtpServer, type SmtpServer } from '#support/smtp-server';
import { suite } from '#support/suite';

const password = 'correct horse battery';
const timeout = 180_000;
const number = (index: number) => String(index).padStart(3, '0');
const people = Array.from({ length: 200 }, (_, index) => `person${number(index)}@example.com`);

await suite('browser', 'many people invited in a browser', () => {
  let server: ServerProcess;
  let smtp: SmtpServer;
  let browser: Browser;
  let owner: Page;

  const newPage = async (options: { javaScriptEnabled?: boolean } = {}): Promise<Page> => {
    const context = await browser.newContext(options);
    context.setDefaultTimeout(60_000);
    return context.newPage();
  };
  const dashboard = (path: string) => `${server.base}/dashboard/acme${path}`;

  beforeAll(async () => {
    smtp = await smtpServer();
    server = await serverProcess({ args: ['--outbound-host', '127.0.0.1'] });
    await server.command(['organization', 'create', 'acme']);
    await server.command(['organization', 'update', 'acme', '--title', 'Acme']);
    await server.command(['group', 'create', 'acme', 'Sales']);
    const words = ['user', 'create', 'owner@example.com', '--organization', 'acme'];
    await server.command([...words, '--role', 'owner'], password);
    browser = await chromium();
    owner = await newPage();
    await owner.goto(`${server.base}/sign-in`);
    await owner.getByLabel('E-mail', { exact: true }).fill('owner@example.com');
    await owner.getByLabel('Password', { exact: true }).fill(password);
    await owner.getByRole('button', { name: 'Sign in', exact: true }).click();
    await owner.waitForURL(/\/dashboard\/acme/);
  }, timeout);
  afterAll(async () => {
    await browser.close();
    await server[Symbol.asyncDispose]();
    await smtp[Symbol.asyncDispose]();
  });

  test(
    'the links of a few people are shown once, and downloaded as a file',
    { timeout },
    async () => {
      await owner.goto(dashboard('/people/invite-several'));
      expect(await pageProblems(owner)).toEqual([]);
      await owner.getByLabel('People', { exact: true }).fill('ann@example.com; ben@example.com');
      await owner.getByRole('button', { name: 'Check list' }).click();
      expect(await pageProblems(owner)).toEqual([]);
      await owner.getByRole('button', { name: 'Invite 2 people' }).click();
      await owner.getByText('2 links, shown only once').waitFor();
      expect(await pageProblems(owner)).toEqual([]);

      const downloading = owner.waitForEvent('download');
      await owner.getByRole('link', { name: 'Download as CSV' }).click();
      const download = await downloading;
      const file = await text(await download.createReadStream());

      expect(download.suggestedFilename()).toBe('invitations.csv');
      expect(file.split('\r\n')).toEqual([
        'email,role,link',
        expect.stringMatching(/^"ann@example\.com","member","http[^"]*\/invitation\/[\w-]{32}"$/),
        expect.stringMatching(/^"ben@example\.com","member","http[^"]*\/invitation\/[\w-]{32}"$/),
        '',
      ]);
      await owner.getByLabel('I have sent or stored them').check();
      await owner.getByRole('button', { name: 'Done' }).click();
      await owner.getByRole('heading', { name: 'Invitations' }).waitFor();
    },
  );

  test(
    'two hundred people are invited from a CSV file by e-mail, and join by the links in their mails',
    { timeout },
    async () => {
      await owner.goto(dashboard('/settings/mail'));
      expect(await pageProblems(owner)).toEqual([]);
      await owner.getByLabel('Host').fill('127.0.0.1');
      await owner.getByLabel('Port').fill(String(smtp.port));
      await owner.getByLabel('None').check();
      await owner.getByLabel('From', { exact: true }).fill('latchkey@example.com');
      await owner.getByRole('button', { name: 'Save' }).click();
      await owner.getByRole('button', { name: 'Send test to owner@example.com' }).click();
      await owner.getByText('Test sent to owner@example.com').waitFor();
      expect(await pageProblems(owner)).toEqual([]);

      await owner.goto(dashboard('/people/invite-several'));
      const rows = people.map(
        (email, index) => `${email},${index % 2 === 0 ? 'viewer' : ''},Sales`,
      );
      await owner
        .getByLabel('People', { exact: true })
        .fill(['email,role,groups', ...rows].join('\n'));
      await owner.getByRole('button', { name: 'Check list' }).click();
      await owner.getByRole('button', { name: 'Invite 200 people by e-mail' }).click();
      await owner.getByText('The mails are being sent.').waitFor();
      await smtp.has(201);

      const mails = smtp.mails.filter(({ to }) => to !== 'owner@example.com');
      expect(mails.map(({ to }) => to).toSorted()).toEqual(people);
      const links = mails.map(
        (mail) => /^http\S*\/invitation\/[\w-]{32}$/m.exec(mail.text)?.[0] ?? '',
      );
      expect(new Set(links).size).toBe(200);
      const answers = await Promise.all(links.map(async (link) => (await fetch(link)).status));
      expect(new Set(answers)).toEqual(new Set([200]));

      for (const index of [0, 100, 199]) {
        const { to } = mails[index] ?? { to: '' };
        const guest = await newPage({ javaScriptEnabled: false });
        await guest.goto(links[index] ?? '');
        expect(await guest.getByLabel('E-mail', { exact: true }).inputValue()).toBe(to);
        await guest.getByLabel('New password', { exact: true }).fill(password);
        await guest.getByLabel('Confirm new password').fill(password);
        await guest.getByRole('button', { name: 'Create account and join' }).click();
        await guest.waitForURL(/\/dashboard\/acme/);
        expect((await guest.goto(links[index] ?? ''))?.status()).toBe(410);
        await guest.context().close();
      }
      const members = JSON.parse(await server.command(['user', 'members', 'acme', '--json']));
      expect(members).toHaveLength(4);
      expect(
        members.filter(({ groups }: { groups: string[] }) => groups.includes('Sales')),
      ).toHaveLength(3);
      await owner.goto(dashboard('/settings/mail'));
      expect(await owner.getByText('Waiting', { exact: true }).count()).toBe(1);
      expect(await owner.getByText('Sent', { exact: true }).count()).toBeGreaterThan(10);
      expect(await pageProblems(owner)).toEqual([]);
    },
  );
});
