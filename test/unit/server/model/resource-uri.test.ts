import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { ResourceUri, Steps, UriTemplate } from '#server/model/resource-uri';
import { ToolRights } from '#server/model/tool-rights';
import { ensure, testProperties } from '#support/properties';

const haveFormInCommon = (one: string, other: string) => {
  const { forms } = new ResourceUri(other);
  return new ResourceUri(one).forms.some((form) => forms.includes(form));
};

describe('a URI has a form in common with each that an upstream may read as it', () => {
  test.each([
    ['the scheme in other case', 'FILE:///payroll/2026.csv'],
    ['the path in other case', 'file:///Payroll/2026.CSV'],
    ['a letter percent-encoded', 'file:///%70ayroll/2026.csv'],
    ['hexadecimal digits in other case', 'file:///p%61yroll%2f2026.csv'],
    ['the percent sign encoded again', 'file:///%2570ayroll/2026.csv'],
    ['encoded nine times', `file:///%${'25'.repeat(9)}70ayroll/2026.csv`],
    ['a code completed by another', 'file:///%%37%30ayroll/2026.csv'],
    ['a dot segment', 'file:///./payroll/./2026.csv'],
    ['a segment and two dots', 'file:///public/../payroll/2026.csv'],
    ['encoded dots', 'file:///public/%2e%2E/payroll/2026.csv'],
    ['encoded separators', 'file:///public%2F..%2fpayroll%2F2026.csv'],
    ['dots above the root', 'file:///../../payroll/2026.csv'],
    ['an empty segment', 'file:///payroll//2026.csv'],
    ['one slash', 'file:/payroll/2026.csv'],
    ['four slashes', 'file:////payroll/2026.csv'],
    ['this host', 'file://localhost/payroll/2026.csv'],
    ['a slash at the end', 'file:///payroll/2026.csv/'],
    ['backslashes', 'file:\\\\\\payroll\\2026.csv'],
    ['an encoded backslash', 'file:///payroll%5c2026.csv'],
    ['a fragment', 'file:///payroll/2026.csv#a'],
    ['a query', 'file:///payroll/2026.csv?a=b'],
    ['an encoded question mark', 'file:///payroll/2026.csv%3Fa'],
    ['fullwidth letters', 'file:///ｐayroll/2026.csv'],
    ['fullwidth letters, encoded', 'file:///%EF%BD%90ayroll/2026.csv'],
    ['a fullwidth slash', 'file:///payroll／2026.csv'],
    ['a fullwidth percent sign', 'file:///％70ayroll/2026.csv'],
    ['fullwidth dots', 'file:///a/．．/payroll/2026.csv'],
    ['a line feed', 'file:///pay\nroll/2026.csv'],
    ['a tab in a code', 'file:///%7\t0ayroll/2026.csv'],
    ['an encoded NUL at the end', 'file:///payroll/2026.csv%00'],
    ['spaces around', ' file:///payroll/2026.csv '],
  ])('%s', (_, uri) => {
    expect(haveFormInCommon('file:///payroll/2026.csv', uri)).toBe(true);
  });

  test.each([
    ['a composed letter', 'note:///\u00e9', 'note:///e\u0301'],
    ['a host in other case', 'db://Sales/t', 'db://sales/t'],
    ['the default port', 'https://example.com/a', 'https://EXAMPLE.com:443/a'],
    ['a name and a password', 'https://example.com/a', 'https://u:p@example.com/a'],
    [
      'an internationalized name',
      'https://b\u00fccher.example/a',
      'https://xn--bcher-kva.example/a',
    ],
    ['a number for an address', 'http://127.0.0.1/a', 'http://2130706433/a'],
    ['dots that keep the host', 'repo://acme/a', 'repo://acme/b/../a'],
    ['dots above the path', 'repo://acme/a', 'repo://acme/../a'],
    ['dots that remove the host', 'repo://a', 'repo://acme/../a'],
    ['no scheme', 'payroll/2026', 'payroll/./2026'],
  ])('%s', (_, one, other) => {
    expect(haveFormInCommon(one, other)).toBe(true);
  });
});

test.each([
  ['another name', 'file:///payroll/2025.csv'],
  ['more behind it', 'file:///payroll/2026.csv.old'],
  ['a folder of it', 'file:///payroll/2026.csv/a'],
  ['its folder', 'file:///payroll'],
  ['another scheme', 'http:///payroll/2026.csv'],
  ['another person', 'mail://bob@payroll/2026.csv'],
])('a URI has no form in common with one that is something else: %s', (_, uri) => {
  expect(haveFormInCommon('file:///payroll/2026.csv', uri)).toBe(false);
});

test('a URI that is too long to be compared has no form', () => {
  expect(new ResourceUri(`file:///${'a'.repeat(9000)}`).forms).toEqual([]);
});

describe('a template of a URI', () => {
  const widely = (template: string, uri: string) =>
    new UriTemplate(template).matchesWidely(new ResourceUri(uri));
  const narrowly = (template: string, uri: string) =>
    new UriTemplate(template).matchesNarrowly(new ResourceUri(uri));

  test.each([
    ['file:///{name}', 'file:///a.txt'],
    ['file:///{name}', 'file:///a%20b'],
    ['file:///{+path}', 'file:///a/b.txt'],
    ['file:///{+path}', 'file:///a%2Fb'],
    ['file:///{+path}.{ext}', 'file:///a.d/b.txt'],
    ['db://{schema}/{table}', 'db://sales/orders'],
    ['db://{schema}/{table}/rows{?from,to}', 'db://sales/orders/rows'],
    ['db://{schema}/{table}/rows{?from,to}', 'db://sales/orders/rows?from=1&to=2'],
    ['x://a{&b}', 'x://a&b=1'],
    ['repo://{owner}/{repo}/contents{/path*}', 'repo://acme/app/contents'],
    ['repo://{owner}/{repo}/contents{/path*}', 'repo://acme/app/contents/src/a.ts'],
    ['doc://a{#part}', 'doc://a#b/c'],
    ['doc://a{.ext}', 'doc://a.txt'],
    ['doc://a{;x,y}', 'doc://a;x=1;y=2'],
    ['x://{a:3}-{b}', 'x://1-2-3'],
    ['x://fixed', 'x://fixed'],
    ['x://{a}', 'x://\u00e9\u{1f600}'],
  ])('%s matches both ways: %s', (template, uri) => {
    expect([narrowly(template, uri), widely(template, uri)]).toEqual([true, true]);
  });

  test.each([
    ['a separator', 'file:///{name}', 'file:///a/b'],
    ['an encoded separator', 'file:///{name}', 'file:///a%2Fb'],
    ['a separator that is encoded twice', 'file:///{name}', 'file:///a%252Fb'],
    ['a fullwidth separator', 'file:///{name}', 'file:///a\uff0fb'],
    ['a character that contains a separator', 'file:///{name}', 'file:///a\u2100'],
    ['a query', 'file:///{name}', 'file:///a?b'],
    ['dots', 'file:///{+path}', 'file:///a/../b'],
    ['encoded dots', 'file:///{+path}', 'file:///a/%2e%2e/b'],
    ['dots behind an encoded separator', 'file:///{+path}', 'file:///a%2f..%2fb'],
    ['two dots alone', 'file:///{name}', 'file:///..'],
    ['one dot alone', 'file:///{name}', 'file:///.'],
    ['dots in a query', 'file:///a{?path}', 'file:///a?path=../b'],
    ['nothing', 'file:///{name}', 'file:///'],
    ['an encoded NUL', 'file:///{name}', 'file:///a%00'],
    ['a backslash', 'file:///{+path}', 'file:///a\\b'],
    ['two segments of one', 'x://{a}/b', 'x://1/2/b'],
    ['an invalid expression', 'x://{=a}', 'x://b'],
    ['an open brace', 'x://{a', 'x://b'],
  ])('matches widely, but not narrowly: %s', (_, template, uri) => {
    expect([narrowly(template, uri), widely(template, uri)]).toEqual([false, true]);
  });

  test.each([
    ['other case', 'file:///payroll/{+name}', 'FILE:///Payroll/a'],
    ['dots before it', 'file:///payroll/{+name}', 'file:///public/../payroll/a'],
    ['an encoded letter', 'file:///payroll/{+name}', 'file:///%70ayroll/a'],
    ['an encoded separator', 'file:///payroll/{+name}', 'file:///payroll%2Fa'],
    ['its folder in other case', 'file:///payroll/{+name}', 'file:///PAYROLL'],
    ['an empty segment', 'file:///payroll/{+name}', 'file:////payroll//a'],
    ['a query that is not its own', 'db://t?id={id}', 'db://T?id=5#x'],
    ['any scheme', '{scheme}://payroll', 'file://PAYROLL/'],
    ['any host', 'https://{host}/payroll', 'https://a.example:443/PAYROLL'],
  ])('matches widely what an upstream may read as its own: %s', (_, template, uri) => {
    expect([narrowly(template, uri), widely(template, uri)]).toEqual([false, true]);
  });

  test.each([
    ['another folder', 'file:///payroll/{+name}', 'file:///public/a'],
    ['a folder whose name begins like it', 'file:///payroll/{+name}', 'file:///payroll-public/a'],
    ['another end', 'x://{a}/b', 'x://1/c'],
    ['overlapping ends', 'x://aa{b}aa', 'x://aaa'],
    ['another text', 'x://fixed', 'x://fixed2'],
  ])('matches neither way: %s', (_, template, uri) => {
    expect([narrowly(template, uri), widely(template, uri)]).toEqual([false, false]);
  });

  test('a URI that is too long to be compared matches everything widely, and nothing narrowly', () => {
    const uri = `file:///${'a'.repeat(9000)}`;

    expect([narrowly('file:///{+path}', uri), widely('db://{t}', uri)]).toEqual([false, true]);
  });

  test('hostile templates and URIs are compared without trying all possibilities', () => {
    const a = 'a'.repeat(2000);

    expect(narrowly(`x://${'{a}a'.repeat(100)}b`, `x://${a}`)).toBe(false);
    expect(narrowly(`x://${'{a}a'.repeat(100)}`, `x://${a}`)).toBe(true);
    expect(widely(`x://${'{a}a'.repeat(2000)}b{c}`, `x://${'a'.repeat(8000)}`)).toBe(false);
    expect(new ResourceUri(`x://%${'25'.repeat(4000)}41`).forms).toContain('x:/a');
  });

  test('186: many hostile templates take a bounded number of steps together, and what is left does not open, and closes', () => {
    const hostile = Array.from({ length: 9 }, (_, at) => `x://{a${at}}${'{a}'.repeat(100)}/b`);
    const compared = (...templates: string[]) => {
      const uri = new ResourceUri(`x://${'a'.repeat(2000)}/b`);
      const all = [...templates, 'x://{+a}'].map((text) => new UriTemplate(text));
      const narrow = all.map((one) => one.matchesNarrowly(uri)).at(-1);
      return [narrow, new UriTemplate('x://c/{a}').matchesWidely(uri)];
    };

    expect(compared()).toEqual([true, false]);
    expect(compared(...hostile)).toEqual([false, true]);
  });

  test('186: the URIs of a list share their steps', () => {
    const resources = Array.from({ length: 40 }, (_, at) => `x://{a${at}}${'{a}'.repeat(99)}/`);
    const selection = {
      type: 'chosen',
      tools: [],
      prompts: [],
      resources: [...resources, 'x://{+a}'],
    } as const;
    const offered = { withheld: {}, open: {}, readOnly: new Set<string>() };
    const rights = new ToolRights({ hiddenTools: [], offered }, { selections: [selection] });
    const steps = Steps.ofList();
    const listed = [1, 2, 3, 4, 5, 6, 7, 8, 9].map((at) =>
      rights.lists('resource', `x://${'a'.repeat(250)}/${at}/`, steps),
    );

    expect([listed.at(0), listed.at(-1)]).toEqual([true, false]);
    expect(rights.lists('resource', 'x://a9')).toBe(true);
  });
});

const letter = fc.constantFrom('a', 'b', 'é', '1', '-', '.x', '%41', 'Z');
const segment = fc.array(letter, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(''));
const variable = fc.constantFrom('{a}', '{+a}', '{/a}', '{?a}', '{.a}', '{a,b}');
const template = fc
  .array(fc.oneof(segment, variable), { minLength: 1, maxLength: 5 })
  .map((parts) => `x://${parts.join('/')}`);
const uris = fc
  .array(fc.oneof(segment, fc.constantFrom('..', '.', '', '%2e%2e', 'a?b', '%2F')), {
    minLength: 1,
    maxLength: 5,
  })
  .map((parts) => `x://${parts.join('/')}`);
/** Other spellings of a URI. */
const respelled = fc.constantFrom<(uri: string) => string>(
  (uri) => uri.toUpperCase(),
  (uri) => `${uri}/`,
  (uri) => uri.replace('x://', 'x://./'),
  (uri) => uri.replaceAll('a', '%61'),
  (uri) => uri.replaceAll('a', '%2561'),
  (uri) => uri.replaceAll('/', '//'),
  (uri) => uri.normalize('NFD'),
  (uri) => `${uri}#f`,
);

testProperties(
  'resource URIs',
  {
    'what a template matches narrowly, it matches widely': fc.property(
      template,
      uris,
      (text, uri) => {
        const one = new UriTemplate(text);
        const read = new ResourceUri(uri);
        ensure(!one.matchesNarrowly(read) || one.matchesWidely(read), `${text} ${uri}`);
      },
    ),
    'two ways of writing a URI, one after the other, leave a form in common': fc.property(
      fc.array(segment, { minLength: 1, maxLength: 4 }),
      respelled,
      respelled,
      (segments, first, second) => {
        const uri = `x://${segments.join('/')}`;
        ensure(haveFormInCommon(uri, second(first(uri))), second(first(uri)));
      },
    ),
    'an expansion of a template with safe values matches both ways, and any spelling of it widely':
      fc.property(
        fc.array(fc.constantFrom('{a}', '{+a}', 'b', 'c-d'), { minLength: 1, maxLength: 5 }),
        fc.constantFrom('v', 'v.w', 'v-1', '%20v'),
        respelled,
        (parts, value, respell) => {
          const text = `x://h/${parts.join('/')}`;
          const uri = text.replaceAll(/\{\+?a\}/g, value);
          const one = new UriTemplate(text);
          ensure(one.matchesNarrowly(new ResourceUri(uri)), `narrowly ${text} ${uri}`);
          ensure(
            one.matchesWidely(new ResourceUri(respell(uri))),
            `widely ${text} ${respell(uri)}`,
          );
        },
      ),
  },
  2000,
);
