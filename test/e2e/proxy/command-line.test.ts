import { expect, test } from 'vitest';
import { latchkeyHome } from '#support/latchkey-home';

const sales = '{"mcpServers":{"sales":{"url":"https://a.example/mcp","account":"sales"}}}';

async function homeWithSales() {
  const home = await latchkeyHome({});
  await home.write('.config/latchkey/connections.json', sales);
  return home;
}

test.each([
  ['connect', 'saels'],
  ['login', 'saels'],
  ['logout', 'saels'],
  ['rotate', 'saels'],
  ['status', 'saels'],
  ['tools', 'saels'],
  ['doctor', 'saels'],
])('wrong usage: %s refuses a mistyped connection and suggests the right one', async (...words) => {
  await using home = await homeWithSales();

  const { code, stdout, stderr } = await home.run(words);

  expect({ code, stdout, stderr }).toEqual({
    code: 2,
    stdout: '',
    stderr: 'latchkey: no connection named saels\nhint: did you mean sales?\n',
  });
});

test('wrong usage: a name without a similar one is answered with how to list and add connections', async () => {
  await using home = await homeWithSales();

  const { code, stderr } = await home.run(['login', 'nothing']);

  expect(code).toBe(2);
  expect(stderr).toBe(
    'latchkey: no connection named nothing\nhint: latchkey status lists the connections, latchkey setup URL adds one\n',
  );
});

test('exit code: a broken file is a failure of the command, and no wrong usage', async () => {
  await using home = await latchkeyHome({});
  await home.write('.config/latchkey/connections.json', '{');

  const { code, stderr } = await home.run(['login', 'sales']);

  expect(code).toBe(1);
  expect(stderr).toContain('is not valid JSON');
});
