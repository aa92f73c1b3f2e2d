import { describe, expect, test } from 'vitest';

import { scanMessage, withId, withMeta } from '#mcp/message';

function scanned(text: string) {
  const body = Buffer.from(text);
  const scan = scanMessage(body);
  if (scan.outcome === 'refused') throw new Error(scan.reason);
  return { body, envelope: scan.envelope };
}

describe('members go into params._meta and nothing else changes', () => {
  const head = '{"jsonrpc":"2.0","id":1,"method":"m"';
  test.each([
    ['no params', `${head}}`, `${head},"params":{"_meta":{"a":1,"b/c":"x"}}}`],
    ['no params, blanks', `${head} } \n`, `${head} ,"params":{"_meta":{"a":1,"b/c":"x"}}} \n`],
    ['empty params', `${head},"params":{}}`, `${head},"params":{"_meta":{"a":1,"b/c":"x"}}}`],
    ['blank params', `${head},"params":{ }}`, `${head},"params":{"_meta":{"a":1,"b/c":"x"} }}`],
    [
      'params',
      `${head},"params":{ "n":1e400}}`,
      `${head},"params":{"_meta":{"a":1,"b/c":"x"}, "n":1e400}}`,
    ],
    [
      'an empty _meta',
      `${head},"params":{"_meta":{\n},"é":1}}`,
      `${head},"params":{"_meta":{"a":1,"b/c":"x"\n},"é":1}}`,
    ],
    [
      'a _meta',
      `${head},"params":{"é":1,"_meta":{"z":12345678901234567890}}}`,
      `${head},"params":{"é":1,"_meta":{"a":1,"b/c":"x","z":12345678901234567890}}}`,
    ],
    [
      'a member that is there, escaped',
      `${head},"params":{"_meta":{"\\u0061":2}}}`,
      `${head},"params":{"_meta":{"b/c":"x","\\u0061":2}}}`,
    ],
    [
      'all members there',
      `${head},"params":{"_meta":{"a":2,"b\\/c":3}}}`,
      `${head},"params":{"_meta":{"a":2,"b\\/c":3}}}`,
    ],
    ['params that are an array', `${head},"params":[]}`, `${head},"params":[]}`],
  ])('%s', (_, before, after) => {
    const { body, envelope } = withMeta(scanned(before), { a: '1', 'b/c': '"x"' });

    expect(body.toString()).toBe(after);
    expect(scanMessage(body)).toStrictEqual({ outcome: 'message', envelope });
  });
});

test('an id is replaced and every other byte stays', () => {
  const { body, envelope } = scanned('{"method":"é", "id" : "old\\n" ,"jsonrpc":"2.0"}');

  expect(withId({ body, envelope }, '17').body.toString()).toBe(
    '{"method":"é", "id" : 17 ,"jsonrpc":"2.0"}',
  );
});
