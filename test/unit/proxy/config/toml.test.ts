import { expect, test } from 'vitest';
import { ConfigurationError } from '#proxy/config/errors';
import { editToml, maskedToml } from '#proxy/config/toml-edit';
import { parseToml, TomlError } from '#proxy/config/toml';

const written = `# my settings
model = "gpt-5"   # the good one
retries = 1_000
since = 2026-11-24 09:00:00Z

[mcp_servers.docs]   # documentation
command = "npx"
args = [
  "-y", # yes
  '@docs/mcp',
]
env = { "API_KEY" = "one\\ttwo", B = 'C:\\temp' }

[mcp_servers."odd.name".http_headers]
Authorization = """
Bearer \\
   abc"""

[[things]]
a = 1
[[things]]
a.b = true

[projects."/home/dana/a b"]
trust_level = "trusted"
# the end
`;

const launch = {
  command: '/opt/latchkey',
  args: ['connect', 'sales'],
  env: { A: '1', 'b c': '"' },
};
const added = `
[mcp_servers.sales]
command = "/opt/latchkey"
args = ["connect", "sales"]
env = { A = "1", "b c" = "\\"" }
`;
const path = ['mcp_servers', 'sales'];

test('TOML: tables, dotted and quoted keys, and every kind of string are read', () => {
  expect(parseToml(written)).toMatchObject({
    model: 'gpt-5',
    mcp_servers: {
      docs: {
        command: 'npx',
        args: ['-y', '@docs/mcp'],
        env: { API_KEY: 'one\ttwo', B: 'C:\\temp' },
      },
      'odd.name': { http_headers: { Authorization: 'Bearer abc' } },
    },
    things: [{}, { a: { b: true } }],
    projects: { '/home/dana/a b': { trust_level: 'trusted' } },
  });
  expect(parseToml('a = """"quoted""""\nb = \'\'\'x\ny\'\'\'\n"__proto__" = "own"')).toEqual(
    Object.fromEntries([
      ['a', '"quoted"'],
      ['b', 'x\ny'],
      ['__proto__', 'own'],
    ]),
  );
});

test.each([
  ['a line without a value', 'a =\n'],
  ['a string without an end', 'a = "b\nc = 1'],
  ['a key twice', 'a = 1\na = 2'],
  ['a table twice', '[a]\n[a]'],
  ['a header in an inline table', 'a = { b = 1 }\n[a.c]\n'],
  ['a dotted key in a table with a header', '[a.b]\n[a]\nb.c = 1'],
  ['two pairs on a line', 'a = 1 b = 2'],
  ['an escape that is none', 'a = "\\q"'],
  ['JSON', '{"a": 1}'],
  ['a value that is nested too deeply', `a = ${'['.repeat(20_000)}`],
])('TOML: %s is refused', (_, text) => {
  expect(() => parseToml(text)).toThrow(TomlError);
  expect(() => editToml(Buffer.from(text), 'config.toml', [{ path, value: launch }])).toThrow(
    ConfigurationError,
  );
});

test.each([
  ['a file with comments', written, written + added],
  [
    'Windows line ends',
    written.replaceAll('\n', '\r\n'),
    (written + added).replaceAll('\n', '\r\n'),
  ],
  ['a byte order mark', `\u{FEFF}${written}`, `\u{FEFF}${written}${added}`],
  ['no line break at the end', 'a = 1', `a = 1\n${added}`],
  ['an empty file', '', added.trimStart()],
])('TOML edit: a table is added to %s, and removed again without a trace', (_, before, after) => {
  const edited = editToml(Buffer.from(before), 'config.toml', [{ path, value: launch }]);
  const reverted = editToml(edited, 'config.toml', [{ path, value: undefined }]);

  expect(edited.toString()).toBe(after);
  expect(reverted.toString().trimEnd()).toBe(before.trimEnd());
});

test('TOML edit: a table is replaced in place with its subtables, and everything else stays', () => {
  const tables = `a = 1\n\n# mine\n[mcp_servers.sales]\nurl = "u" # old\n[mcp_servers.sales.env]\nX = "1"\n\n# next\n[b]\nc = 1\n\n[mcp_servers.sales.tools]\ny = 1\n`;
  const edited = editToml(Buffer.from(tables), 'config.toml', [{ path, value: { command: 'x' } }]);

  expect(edited.toString()).toBe(
    'a = 1\n\n# mine\n[mcp_servers.sales]\ncommand = "x"\n\n# next\n[b]\nc = 1\n',
  );
});

test.each([
  ['a dotted key', 'mcp_servers.sales = { url = "u" }\nb = 1\n', 'b = 1\n'],
  [
    'a key of a table',
    '[mcp_servers]\nsales.url = "u"\nb.url = "v"\n',
    '[mcp_servers]\nb.url = "v"\n',
  ],
])('TOML edit: an entry that is written as %s is removed', (_, before, after) => {
  const edited = editToml(Buffer.from(before), 'config.toml', [{ path, value: undefined }]);

  expect(edited.toString()).toBe(after);
});

test('TOML edit: numbers and times of a replaced table are written as they were', () => {
  const before = '[mcp_servers.sales]\nurl = "u"\ntimeout = 2_0.5\nsince = 2026-11-24 09:00:00Z\n';
  const {
    mcp_servers: servers,
  }: Record<string, Record<string, object>> = Object(parseToml(before));
  const value = { ...servers?.['sales'], url: 'v' };
  const edited = editToml(Buffer.from(before), 'config.toml', [{ path, value }]);

  expect(edited.toString()).toBe(before.replace('"u"', '"v"'));
});

test('TOML edit: an edit that would change anything else is refused with a remedy', () => {
  const inline = 'mcp_servers = { sales = { url = "u" }, b = { url = "v" } }\n';

  expect(() => editToml(Buffer.from(inline), 'config.toml', [{ path, value: launch }])).toThrow(
    'in a form that Latchkey does not edit; nothing was changed',
  );
});

test('TOML masks: a secret is removed from strings in any spelling and from comments', () => {
  const text = `# S3"cret\na = "S3\\"cret" # S3"cret\nb = 'Bearer S3"cret'\nc = """S3"cret"""\nd = "S3\\u0022cret"\ne = "other"\n`;
  const mask = (one: string) => one.replaceAll('S3"cret', 'keychain');

  expect(maskedToml(Buffer.from(text), mask).toString()).toBe(
    '# keychain\na = "keychain" # keychain\nb = "Bearer keychain"\nc = "keychain"\nd = "keychain"\ne = "other"\n',
  );
  expect(maskedToml(Buffer.from('a = S3"cret'), mask).toString()).toBe('a = keychain');
});
