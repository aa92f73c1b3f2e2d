import { expect, test } from 'vitest';
import { readAgentConfiguration } from '#proxy/agent/agent-configuration';

const read = (text: string | undefined) =>
  readAgentConfiguration('agent.json', {
    env: { CRM: 'Bearer of the environment' },
    readText: (path) =>
      path === 'agent.json' ? text : path === '/key' ? 'in a file\n' : undefined,
  });

test('agent configuration: commands, URLs, comments and stored headers are read', () => {
  const servers = read(`{ // ours
    "servers": {
      "files": {"command": "npx", "args": ["x"], "env": {"A": "b"}, "cwd": "/tmp", "denyTools": ["rm*"],},
      "crm": {"url": "http://127.0.0.1:3000/mcp", "headers": {
        "Authorization": {"env": "CRM"}, "x-key": {"file": "/key"}, "x-plain": "text"}},
    }}`);

  expect(servers.get('files')).toEqual({
    kind: 'stdio',
    command: 'npx',
    args: ['x'],
    env: { A: 'b' },
    cwd: '/tmp',
    tools: { deny: ['rm*'] },
  });
  expect(servers.get('crm')).toMatchObject({
    kind: 'http',
    headerSecrets: {
      authorization: 'Bearer of the environment',
      'x-key': 'in a file',
      'x-plain': 'text',
    },
  });
});

test.each([
  [undefined, 'agent.json: does not exist; name another file with --config'],
  ['{"a": secret-text}', 'agent.json: is not valid JSON'],
  ['[]', 'agent.json: is not a JSON object'],
  ['{}', 'agent.json: servers: is missing'],
  ['{"servers": {}}', 'agent.json: servers: is empty'],
  ['{"servers": {"Big": {"command": "x"}}}', 'servers.Big: is not a server name'],
  ['{"servers": {"a": {}}}', 'servers.a: requires either a command or a url'],
  ['{"servers": {"a": {"command": "x", "url": "y"}}}', 'servers.a: requires either'],
  ['{"servers": {"a": {"command": ""}}}', 'servers.a.command: is not text'],
  [
    '{"servers": {"a": {"command": "x", "headers": {}}}}',
    'servers.a.headers: is unknown; use one of command',
  ],
  ['{"servers": {"a": {"command": "x", "args": "y"}}}', 'servers.a.args: is not a list of strings'],
  ['{"servers": {"a": {"command": "x", "env": {"N": 1}}}}', 'servers.a.env.N: is not text'],
  ['{"servers": {"a": {"url": "file:///x"}}}', 'servers.a.url: is not a URL'],
  ['{"servers": {"a": {"url": "http://u:p@h/"}}}', 'servers.a.url: contains a password'],
  ['{"servers": {"a": {"url": "http://h/", "headers": {"x": {"env": "NO"}}}}}', 'NO is not set'],
  ['{"servers": {"a": {"url": "http://h/", "headers": {"x": "a\\nb"}}}}', 'headers.x: is neither'],
])('agent configuration: %s is refused', (text, problem) => {
  expect(() => read(text)).toThrow(problem);
  expect(() => read(text)).not.toThrow('secret-text');
});

test('agent configuration: all problems are reported together', () => {
  const text = '{"servers": {"a": {}, "b": {"url": 1, "more": 2}}}';

  expect(() => read(text)).toThrow(/servers\.a: .*\n.*servers\.b\.more: .*\n.*servers\.b\.url: /);
  expect(() => read('{"servers": {"a": {"comand": "npx"}}}')).toThrow('did you mean command?');
});
