import { expect, test } from 'vitest';

import { proxyReference } from '#server/download/proxy-reference';
import { assistantConfigurations } from '#server/pages/assistant-configurations';
import type { Page } from '#server/pages/page';
import { questionPage } from '#server/pages/question-page';
import { renderPage } from '#server/pages/render-page';
import type { ShownSecret } from '#server/pages/secret-pieces';
import type { Table } from '#server/pages/table';

const dashboard = {
  organization: 'acme',
  others: ['globex'],
  section: 'servers',
  closed: [],
  crumbs: [{ text: 'sales', href: '/dashboard/acme/servers/sales' }, { text: 'API keys' }],
  live: '/dashboard/acme/live',
} as const;
const frame = {
  requestId: 'r1',
  scripts: [],
  csrfToken: 'guard',
  email: 'dana@example.com',
  dashboard,
};
const tablePage: Page<{ table: Table }> = {
  title: () => 'Keys',
  width: 'table',
  template: `<%~ include('@table', it.table) %>`,
};
const table: Table = {
  caption: 'API keys',
  columns: [
    { text: 'Name', sort: { href: '?sort=name', now: 'ascending' } },
    { text: 'Id' },
    { text: 'Last used' },
    { text: 'Actions' },
  ],
  rows: [
    {
      id: 'key_1',
      cells: [
        {
          kind: 'name',
          text: '<b>עברית</b> 🔑',
          href: '/k',
          badges: [{ text: 'rotate', tone: 'care' }],
        },
        { kind: 'id', text: 'client_0123456789abcdefghijklmn' },
        { kind: 'time', at: 1000, otherwise: 'never' },
        {
          kind: 'actions',
          actions: [{ text: 'Revoke', href: '/k/revoke', of: 'key', danger: true }],
        },
      ],
    },
  ],
  empty: { text: 'No keys yet.', action: { text: 'Generate a key', href: '/new' } },
  now: 1000 + 7200,
};
const count = (html: string, part: string) => html.split(part).length - 1;

test('a page of the dashboard says where it is, and leads everywhere else', () => {
  const html = renderPage(tablePage, { table }, frame);

  expect(html).toContain('<a href="/dashboard/acme/servers" aria-current="true">Servers</a>');
  expect(html).toContain('<a href="/dashboard/globex">globex</a>');
  expect(html).toContain('<a href="/dashboard/acme/servers/sales" dir="auto">sales</a>');
  expect(html).toContain('<span aria-current="page" dir="auto">API keys</span>');
  expect(html).toContain('data-live="/dashboard/acme/live"');
});

test('a page outside of the dashboard has none of its navigation', () => {
  const html = renderPage(tablePage, { table }, { ...frame, dashboard: undefined });

  expect(html).not.toContain('class="side"');
  expect(html).not.toContain('htmx');
});

test('a table escapes what people wrote, cuts ids where they are shown, and gives exact times', () => {
  const html = renderPage(tablePage, { table }, frame);

  expect(html).toContain('&lt;b&gt;עברית&lt;/b&gt; 🔑');
  expect(html).toContain('>client_0123456…ijklmn</code>');
  expect(html).toContain('data-copy="client_0123456789abcdefghijklmn"');
  expect(html).toContain('datetime="1970-01-01T00:16:40Z"');
  expect(html).toContain('2 hours ago');
  expect(html).toContain('aria-sort="ascending"');
  expect(html).toContain('aria-label="Revoke key"');
});

test('a table without rows says what belongs there and offers the next step', () => {
  const html = renderPage(tablePage, { table: { ...table, rows: [] } }, frame);

  expect(html).toContain('No keys yet.');
  expect(html).toContain('<a class="button" href="/new">Generate a key</a>');
  expect(html).not.toContain('<table');
});

test('a question names its verb, counts what it costs, and guards its form', () => {
  const html = renderPage(
    questionPage,
    {
      heading: 'Revoke “Nightly”?',
      consequences: ['1 application loses access now.'],
      action: '/revoke',
      verb: 'Revoke the key',
      cancel: '/keys',
    },
    frame,
  );

  expect(html).toContain('<button class="danger strong">Revoke the key</button>');
  expect(html).toContain('<li>1 application loses access now.</li>');
  expect(html).toContain('name="csrf_token" value="guard"');
});

const proxy = proxyReference('https://cloud.example.com', {
  fileName: 'latchkey-1.2.3.tgz',
  sha256: '0123456789abcdef'.repeat(4),
});
const configurations = assistantConfigurations(
  {
    name: 'sales',
    url: 'https://cloud.example.com/mcp/acme/sales',
    credential: {
      kind: 'client',
      clientId: 'client_1',
      clientSecret: 'secret_1',
      scopes: ['mcp:tools:read'],
    },
  },
  proxy,
);

test('a secret stands in its page with a configuration for each assistant, and in no address', () => {
  const secret: ShownSecret = {
    label: 'Client secret',
    secret: 'secret_1',
    beside: [{ label: 'Client id', text: 'client_1' }],
    configurations,
    proxy,
    done: '/dashboard/acme/servers/sales/clients?done=made',
  };
  const page: Page<{ secret: ShownSecret }> = {
    title: () => 'Made',
    width: 'text',
    template: `<%~ include('@secret', it) %>`,
  };

  const html = renderPage(page, { secret }, frame);

  expect(count(html, 'type="radio"')).toBe(6);
  expect(html).toContain(`SHA-256 <code>${proxy.sha256}</code>`);
  expect(html).toContain('action="/dashboard/acme/servers/sales/clients"');
  expect(html).toContain('<input type="hidden" name="done" value="made">');
  expect(html).toContain('id="stored" required');
  expect(html).not.toMatch(/(?:href|action|src)="[^"]*secret_1/);
});

test('what an assistant is told to start reads the secret from its environment, never its arguments', () => {
  const [desktop] = configurations;
  const { mcpServers } = JSON.parse(desktop?.text ?? '');

  expect(mcpServers.sales).toEqual({
    command: 'npx',
    args: [
      '-y',
      '--prefer-offline',
      'https://cloud.example.com/download/latchkey-1.2.3.tgz?v=0123456789abcdef',
      'https://cloud.example.com/mcp/acme/sales',
    ],
    env: {
      LATCHKEY_OAUTH:
        '{"clientId":"client_1","clientSecret":"secret_1","scopes":["mcp:tools:read"]}',
    },
  });
});
