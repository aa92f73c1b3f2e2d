import { expect, test } from 'vitest';
import { parseJsonc, editJson } from '#proxy/config/jsonc';

const change = async (text: string | undefined, value: unknown, name = 'acme') => {
  const bytes = text === undefined ? undefined : Buffer.from(text);
  return (await editJson(bytes, 'f.json', [{ path: ['mcpServers', name], value }])).toString();
};
const set = async (text: string | undefined, value: unknown = { command: 'x' }, name = 'acme') =>
  change(text, value, name);

test('JSON edit: a missing or empty file becomes a file with only the entry', async () => {
  const made = '{\n  "mcpServers": {\n    "acme": {\n      "command": "x"\n    }\n  }\n}\n';

  expect(await set(undefined)).toBe(made);
  expect(await set('\n')).toBe(made);
});

test('JSON edit: comments, order and a trailing comma stay as they are', async () => {
  const text = `// mine
{
  "theme": "dark", /* always */
  "mcpServers": {
    "other": { "command": "y" }, // do not touch
  },
}
`;

  const edited = await set(text);

  expect(edited).toBe(`// mine
{
  "theme": "dark", /* always */
  "mcpServers": {
    "other": { "command": "y" }, // do not touch
    "acme": {
      "command": "x"
    },
  },
}
`);
});

test('JSON edit: tabs, CRLF and a byte order mark stay as they are', async () => {
  const text = '\u{FEFF}{\r\n\t"mcpServers": {\r\n\t\t"other": {}\r\n\t}\r\n}\r\n';

  expect(await set(text)).toBe(
    '\u{FEFF}{\r\n\t"mcpServers": {\r\n\t\t"other": {},\r\n\t\t"acme": {\r\n\t\t\t"command": "x"\r\n\t\t}\r\n\t}\r\n}\r\n',
  );
});

test.each([
  '{\n    "mcpServers": {\n        "other": {}\n    }\n}\n',
  '{\n  "mcpServers": {\n    "other": { "a": 1 }, // mine\n  },\n}\n',
  '{\n  "mcpServers": {\n    "other": {} // mine\n    /* } , */\n  }\n}\n',
  '{"mcpServers":{"other":{}}}',
  '{"mcpServers": {}}',
  '\u{FEFF}{\r\n\t"a": 1, // x\r\n\t"mcpServers": {\r\n\t\t"b": [1, 2]\r\n\t}\r\n}\r\n',
])('JSON edit: %j is unchanged after setting and removing an entry', async (text) => {
  const edited = await set(text);

  expect(parseJsonc(edited)).toMatchObject({ mcpServers: { acme: { command: 'x' } } });
  expect(await change(edited, undefined)).toBe(text);
});

test('JSON edit: an entry in the middle is removed, and the comments around it stay', async () => {
  const text = '{ "mcpServers": {\n  "a": 1, // one\n  "acme": 2, // two\n  "b": 3 // three\n} }';

  expect(await change(text, undefined)).toBe(
    '{ "mcpServers": {\n  "a": 1, // one // two\n  "b": 3 // three\n} }',
  );
});

test('JSON edit: a value is replaced in place, and removing an absent one changes nothing', async () => {
  const text = '{\n  "mcpServers": {\n    "acme": { "url": "x" }, // mine\n    "b": 1\n  }\n}\n';

  expect(await set(text)).toBe(
    '{\n  "mcpServers": {\n    "acme": {\n      "command": "x"\n    }, // mine\n    "b": 1\n  }\n}\n',
  );
  expect(await change(text, undefined, 'c')).toBe(text);
});

test('JSON edit: a name with dots, quotes or __proto__ is an ordinary name', async () => {
  for (const name of ['a.b', 'a"b', '__proto__', '日本'])
    expect(Object.entries(JSON.parse(await set('{}', 1, name)).mcpServers)).toEqual([[name, 1]]);
});

test.each([
  ['{\n  "mcpServers": {\n', 'f.json:3:1: is not valid JSON (close brace expected)'],
  ['{\n  "a" 1\n}', 'f.json:2:7: is not valid JSON (colon expected)'],
  ['[]', 'f.json:1:1: is not an object'],
  ['{"mcpServers": []}', 'f.json:1:16: is not an object'],
  ['{"mcpServers": {},\n"mcpServers": {}}', 'f.json:2:1: contains "mcpServers" twice'],
  ['{"mcpServers": {"acme": 1, "acme": 2}}', 'f.json:1:28: contains "acme" twice'],
])('JSON edit: %j is refused, with the position', async (text, words) => {
  await expect(set(text)).rejects.toThrow(words);
});

test('JSON edit: bytes that are not UTF-8 are refused', async () => {
  await expect(editJson(Buffer.from([0xff, 0xfe, 0x7b]), 'f.json', [])).rejects.toThrow(
    'f.json: is not UTF-8 text',
  );
});
