import { describe, expect, test } from 'vitest';

import { parseForm, parseJsonObject } from '#server/oauth/forms';

const formType = 'application/x-www-form-urlencoded';
const parse = (body: string | Uint8Array, type: string | undefined = formType) =>
  Object.fromEntries(parseForm(type, Buffer.from(body)));

describe('a form is parsed into its parameters', () => {
  test.each<[string, string, Record<string, string>]>([
    ['in their encoding', 'a=1&b=%C3%A9+x%2By', { a: '1', b: 'é x+y' }],
    ['with names that are encoded too', 'cl%69ent_id=x', { client_id: 'x' }],
    ['of which an empty one is absent', 'a=&b&c=1', { c: '1' }],
    ['with an equals sign in a value', 'a=b=c', { a: 'b=c' }],
    ['past empty pairs', '&&a=1&', { a: '1' }],
    ['of which there may be none', '', {}],
    ['with __proto__ as a name like any other', '__proto__=1&a=2', { ['__proto__']: '1', a: '2' }],
  ])('%s', (_, body, parameters) => {
    expect(parse(body)).toEqual(parameters);
  });
});

test('a media type is compared without its parameters and its case', () => {
  expect(parse('a=1', 'Application/X-WWW-Form-URLEncoded ; charset=UTF-8')).toEqual({ a: '1' });
});

describe('a form is refused as invalid_request when', () => {
  const many = Array.from({ length: 65 }, (_, at) => `p${at}=1`).join('&');
  test.each<[string, string | Uint8Array, string]>([
    ['a parameter is repeated', 'scope=a&scope=b', "'scope' is repeated"],
    ['a parameter is repeated without a value', 'scope=a&scope=', "'scope' is repeated"],
    ['a parameter is repeated, at first without a value', 'scope=&scope=a', "'scope' is repeated"],
    ['a parameter is repeated in another encoding', 'scope=a&%73cope=b', "'scope' is repeated"],
    ['it is not UTF-8', Buffer.from([0x61, 0x3d, 0xff]), 'not UTF-8'],
    ['a value decodes to no UTF-8', 'a=%ff', 'not percent-encoded UTF-8'],
    ['a value is cut inside its encoding', 'a=%4', 'not percent-encoded UTF-8'],
    ['a value holds NUL', 'a=x%00', 'contains NUL'],
    ['a name holds NUL', 'a%00=x', 'contains NUL'],
    ['it has 65 parameters', many, 'too many parameters'],
  ])('%s', (_, body, description) => {
    expect(() => parse(body)).toThrow(
      expect.objectContaining({
        code: 'invalid_request',
        message: expect.stringContaining(description),
      }),
    );
  });

  test.each([
    ['application/json', 'application/json'],
    ['multipart/form-data', 'multipart/form-data; boundary=x'],
    ['text/plain', 'text/plain'],
    ['nothing', ''],
  ])('its media type is %s', (_, type) => {
    expect(() => parse('a=1', type)).toThrow('must be application/x-www-form-urlencoded');
  });
});

test('a body without a Content-Type is refused', () => {
  expect(() => parseForm(undefined, Buffer.from('a=1'))).toThrow('its Content-Type must be');
});

test('64 parameters are accepted', () => {
  const body = Array.from({ length: 64 }, (_, at) => `p${at}=1`).join('&');

  expect(Object.keys(parse(body))).toHaveLength(64);
});

test('a repeated name is quoted in short and without forbidden characters', () => {
  const name = `"\\é${'x'.repeat(60)}`;
  const body = `${encodeURIComponent(name)}=1&${encodeURIComponent(name)}=2`;

  expect(() => parse(body)).toThrow(`'???${'x'.repeat(37)}' is repeated`);
});

describe('a JSON body', () => {
  test('is read as the object that it is', () => {
    expect(parseJsonObject(Buffer.from(' {"a":{"b":["é"]},"c":null}'))).toEqual({
      a: { b: ['é'] },
      c: null,
    });
  });

  test.each([
    ['is no object', '[1]', 'the body is not a JSON object'],
    ['is null', 'null', 'the body is not a JSON object'],
    ['is empty', '', 'the body is not a JSON object'],
    ['is not JSON', '{', 'the body is not a JSON object'],
    ['has a member twice', '{"a":1,"b":2,"a":3}', 'the body is refused: a member is there twice'],
    ['has one twice further in', '{"a":[{"b":1,"\\u0062":2}]}', 'a member is there twice'],
    ['has a member named __proto__', '{"a":{"__proto__":{}}}', 'a member is named "__proto__"'],
    ['is nested beyond reason', `{"a":${'['.repeat(70)}${']'.repeat(70)}}`, 'nested deeper than'],
  ])('that %s is refused', (_, body, problem) => {
    expect(() => parseJsonObject(Buffer.from(body))).toThrow(
      expect.objectContaining({
        code: 'invalid_request',
        message: expect.stringContaining(problem),
      }),
    );
  });

  test('that is not UTF-8 is refused, with the code of the endpoint', () => {
    const body = Buffer.from('{"a":"\xe9"}', 'latin1');

    expect(() => parseJsonObject(body, 'invalid_client_metadata')).toThrow(
      expect.objectContaining({ code: 'invalid_client_metadata' }),
    );
  });
});

test('a form may have more parameters where its reader says so', () => {
  const many = Array.from({ length: 100 }, (_, at) => `p${at}=1`).join('&');
  const type = 'application/x-www-form-urlencoded';

  expect(parseForm(type, Buffer.from(many), 100).size).toBe(100);
  expect(() => parseForm(type, Buffer.from(many), 99)).toThrow('too many parameters');
});
