import { expect, test } from 'vitest';

import { listedTools } from '#server/tools/listed-tools';
import { ToolWatch } from '#server/tools/tool-watch';
import { someServer } from '#support/some-admission';
import { stillClock } from '#support/still-clock';

const list = (count: number, from = 0) =>
  Buffer.from(
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      result: {
        tools: Array.from({ length: count }, (_, place) => ({ name: `t${from + place}` })),
      },
    }),
  );

function watch() {
  const noted: number[] = [];
  const definitions = {
    async note(_: string, listed: readonly { readonly name: string }[]) {
      noted.push(listed.length);
      return { changed: [], open: listed.map(({ name }) => name) };
    },
  };
  const audit = { append: () => Promise.resolve() };
  const tools = new ToolWatch({ definitions, audit, clock: stillClock() });
  return {
    noted,
    look: (message: Buffer) => tools.look(someServer(), listedTools(message) ?? []),
  };
}

test('a list that was seen before is not looked up again', async () => {
  const { noted, look } = watch();
  await look(list(5000));
  await look(list(5000));

  expect(noted).toEqual([5000]);
});

test('of a server that makes up ever more names, the last five thousand are remembered', async () => {
  const { noted, look } = watch();
  await look(list(3000));
  await look(list(3000, 3000));
  await look(list(3000, 3000));
  await look(list(3000));
  await look(list(5001));
  await look(list(5001));

  expect(noted).toEqual([3000, 3000, 3000, 5001, 5001]);
});
