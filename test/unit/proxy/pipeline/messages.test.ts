import { expect, test } from 'vitest';
import { withMember } from '#proxy/pipeline/messages';

const set = (text: string, path: string[], json: string) =>
  withMember(Buffer.from(text), path, json).toString();

test.each([
  [
    'a member is replaced',
    '{"a": {"b": 1 , "c":9007199254740993}}',
    '{"a": {"b": true , "c":9007199254740993}}',
  ],
  ['a member is added', '{"a":{"c":2}}', '{"a":{"b":true,"c":2}}'],
  ['one is added to nothing', '{"a": { }}', '{"a": {"b":true }}'],
  ['an object is made on the way', '{"x":"é"}', '{"a":{"b":true},"x":"é"}'],
  ['what is no object becomes one', '{"a":null}', '{"a":{"b":true}}'],
])('JSON member: %s, and all other bytes stay the same', (_, before, after) => {
  expect(set(before, ['a', 'b'], 'true')).toBe(after);
});
