import { expect, test } from 'vitest';

import { questionPage } from '#server/web/dashboard/questions';
import { proxyReference } from '#server/download/proxy-reference';
import { connectionInstructions, instructionList } from '#server/web/instructions';
import { layout, type Frame } from '#server/web/layout';
import { secretPanel, type OneTimeSecret } from '#server/web/one-time-secret';
import { dataTable, type Table } from '#server/web/tables';
import { companySignInPage } from '#server/web/sign-in';
import { titleText, titleWithName } from '#server/web/titles';

const dashboard = {
  organization: { name: 'acme', title: 'Acme Corporation' },
  others: [{ name: 'globex' }, { name: 'initech', title: '<b>Initech</b>' }],
  mayCreate: false,
  navigation: [
    { text: 'Overview', href: '/dashboard/acme', isHere: false },
    { text: 'Servers', href: '/dashboard/acme/servers', isHere: true },
  ],
  crumbs: [{ text: 'sales', href: '/dashboard/acme/servers/sales' }, { text: 'API keys' }],
} as const;
const frame = {
  requestId: 'r1',
  scripts: [],
  csrfToken: 'guard',
  email: 'dana@example.com',
  live: '/dashboard/acme/live',
  dashboard,
};
const keys: Table = {
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
          badges: [{ text: 'Rotation due', tone: 'care' }],
        },
        { kind: 'id', text: 'client_0123456789abcdefghijklmn' },
        { kind: 'time', at: 1000, otherwise: 'Never' },
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
const keysPage = (around: Frame) =>
  layout({ title: 'Keys', width: 'table' }, around, dataTable(keys)).toString();
const count = (html: string, part: string) => html.split(part).length - 1;

test('dashboard page: it shows where it is, and links to all others', () => {
  const html = keysPage(frame);

  expect(html).toContain('<a href="/dashboard/acme/servers" aria-current="true">Servers</a>');
  expect(html).toContain('<a href="/dashboard/globex"><bdi>globex</bdi></a>');
  expect(html).toContain('<a href="/dashboard/acme/servers/sales" dir="auto">sales</a>');
  expect(html).toContain('<span aria-current="page" dir="auto">API keys</span>');
  expect(html).toContain('data-live="/dashboard/acme/live"');
});

test('titles: the title of an organization comes first, escaped, and its name stands beside it as code', () => {
  const html = keysPage(frame);

  expect(html).toContain(
    '<strong><bdi>Acme Corporation</bdi> <code class="slug">acme</code></strong>',
  );
  expect(html).toContain(
    '<a href="/dashboard/acme" dir="auto">Acme Corporation</a> <code class="slug">acme</code>',
  );
  expect(html).toContain('<bdi>&lt;b&gt;Initech&lt;/b&gt;</bdi> <code class="slug">initech</code>');
  expect(html).toContain('<nav class="side" aria-label="Acme Corporation">');
});

test.each([
  { of: 'no title', titled: { name: 'library' }, text: 'library', both: 'library' },
  {
    of: 'an empty title',
    titled: { name: 'library', title: '' },
    text: 'library',
    both: 'library',
  },
  {
    of: 'a title',
    titled: { name: 'library', title: 'City Library' },
    text: 'City Library',
    both: 'City Library (library)',
  },
  {
    of: 'characters that reorder text',
    titled: { name: 'library', title: 'yrarbiL\u202e' },
    text: 'yrarbiL\ufffd',
    both: 'yrarbiL\ufffd (library)',
  },
])('titles: with $of, the text is “$text”', ({ titled, text, both }) => {
  expect(titleText(titled)).toBe(text);
  expect(titleWithName(titled)).toBe(both);
});

test('page outside the dashboard: it has none of the dashboard’s navigation', () => {
  const html = keysPage({ ...frame, dashboard: undefined });

  expect(html).not.toContain('class="side"');
  expect(html).not.toContain('htmx');
});

test('table: it escapes what people wrote, shortens ids only where they are shown, and gives exact times', () => {
  const html = keysPage(frame);

  expect(html).toContain('&lt;b&gt;עברית&lt;/b&gt; 🔑');
  expect(html).toContain('>client_0123456…ijklmn</code>');
  expect(html).toContain('data-copy="client_0123456789abcdefghijklmn"');
  expect(html).toContain('datetime="1970-01-01T00:16:40Z"');
  expect(html).toContain('2 hours ago');
  expect(html).toContain('aria-sort="ascending"');
  expect(html).toContain('aria-label="Revoke key"');
});

test('table without rows: it says what belongs in it and offers the next step', () => {
  const html = dataTable({ ...keys, rows: [] }).toString();

  expect(html).toContain('No keys yet.');
  expect(html).toContain('<a class="button" href="/new">Generate a key</a>');
  expect(html).not.toContain('<table');
});

test('question: it names its verb, lists the consequences, and protects its form against forgery', () => {
  const html = questionPage(
    {
      heading: 'Revoke “Nightly”?',
      consequences: ['1 application loses access immediately.'],
      action: '/revoke',
      verb: 'Revoke the key',
      cancel: '/keys',
    },
    frame,
  ).toString();

  expect(html).toContain('<button class="danger strong">Revoke the key</button>');
  expect(html).toContain('<li>1 application loses access immediately.</li>');
  expect(html).toContain('name="csrf_token" value="guard"');
});

const proxy = proxyReference('https://cloud.example.com', {
  fileName: 'latchkey-1.2.3.tgz',
  sha256: '0123456789abcdef'.repeat(4),
  bundles: { state: 'ready', platforms: ['darwin', 'win32', 'linux'] },
  programs: [],
});
const sales = {
  organization: 'acme',
  name: 'sales',
  url: 'https://cloud.example.com/mcp/acme/sales',
};
const client = {
  kind: 'client',
  clientId: 'client_1',
  clientSecret: 'secret_1',
  scopes: ['mcp:tools:read'],
} as const;
const instructions = connectionInstructions({ ...sales, credential: client }, proxy);

test('secret shown once: the page has a configuration for each assistant, and no address contains the secret', () => {
  const secret: OneTimeSecret = {
    label: 'Client secret',
    secret: 'secret_1',
    beside: [{ label: 'Client ID', text: 'client_1' }],
    instructions,
    done: '/dashboard/acme/servers/sales/clients?done=made',
  };

  const html = secretPanel(secret).toString();

  expect(count(html, 'type="radio"')).toBe(6);
  expect(html).toContain(`SHA-256 <code>${proxy.sha256}</code>`);
  expect(html).toContain('action="/dashboard/acme/servers/sales/clients"');
  expect(html).toContain('<input type="hidden" name="done" value="made">');
  expect(html).toContain('id="stored" required');
  expect(html).not.toMatch(/(?:href|action|src)="[^"]*secret_1/);
});

test('assistant configuration: the secret is in the environment, never in the arguments', () => {
  const [desktop] = instructions.configurations;
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

const start = 'npx -y "https://cloud.example.com/download/latchkey-1.2.3.tgz?v=0123456789abcdef"';

test.each([
  ['a person', { kind: 'person' } as const, [`${start} setup ${sales.url}`]],
  [
    'an API key',
    { kind: 'key', apiKey: 'mcp_1' } as const,
    [`${start} setup ${sales.url} --api-key`, `${start} add sales ${sales.url} --api-key`],
  ],
  [
    'an OAuth client',
    client,
    ['setup', 'add sales'].map(
      (command) => `${start} ${command} ${sales.url} --client-id client_1 --client-secret`,
    ),
  ],
])('connection of %s: commands come first, and contain no secret', (_, credential, expected) => {
  const made = connectionInstructions({ ...sales, credential }, proxy);
  const html = instructionList(made).toString();
  const [before = '', other = ''] = html.split('<details');

  expect(made.commands.map(({ text }) => text)).toEqual(expected);
  expect(made.commands.map(({ short }) => short)).toEqual(
    expected.map((text) => text.replace(start, 'latchkey')),
  );
  expect(before).not.toMatch(/mcp_1|secret_1/);
  expect(other).toContain('<summary>Other</summary>');
  expect(other).toContain('mcpServers');
  expect(other).toContain(made.risk);
});

test('connection: only a person gets a bundle, and a page without one says so', () => {
  const person = { ...sales, credential: { kind: 'person' } as const };
  const withBundle = instructionList(connectionInstructions(person, proxy)).toString();
  const without = { ...proxy, bundles: { state: 'missing' } as const };
  const withoutBundle = instructionList(connectionInstructions(person, without)).toString();

  expect(withBundle).toContain('href="/download/acme/sales.mcpb"');
  expect(withBundle.indexOf('.mcpb')).toBeLessThan(withBundle.indexOf('<details'));
  expect(withoutBundle).toContain('The one-click bundle has not been built.');
  expect(withoutBundle).not.toContain('href="/download/acme');
  expect(instructionList(instructions).toString()).not.toContain('.mcpb');
});

test('sign-in with a work account: another way continues at the same page, with its parameters', () => {
  const next = '/oauth/consent?client_id=a&state=b';
  const page = companySignInPage({ who: '', next, providers: [], errors: [] }, frame).toString();

  expect(page).toContain(`href="/sign-in?next=${encodeURIComponent(next)}"`);
});
