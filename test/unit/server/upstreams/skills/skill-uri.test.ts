import { expect, test } from 'vitest';

import { isSkillUri, skillUriProblem } from '#server/upstreams/skills/skill-uri';

test.each([
  'skill://a/SKILL.md',
  'skill://acme/a-b/notes/x.txt',
  'skill://a',
  'SKILL://a/b%20c.md',
  'skill://a/',
])('a plain URI of a skill: %s', (uri) => {
  expect(isSkillUri(uri)).toBe(true);
  expect(skillUriProblem(uri)).toBeUndefined();
});

test.each([
  'skill://../x',
  'skill://a/../../etc/passwd',
  'skill://a/..',
  'skill://a/./b',
  'skill://a/%2e%2e/b',
  'skill://a/.%2E/b',
  'skill://a/..%2fb',
  'skill://a/%2Fetc/passwd',
  'skill:///etc/passwd',
  'skill://a//etc/passwd',
  'skill://a\\..\\b',
  'skill://a/%5c..%5cb',
  'skill://a/b%00.md',
  'skill://a/b\u0000.md',
  'skill://a/b%0a',
  'skill://a/%ff',
  'skill://a/%zz',
  'skill://user@a/b',
  'skill://a:80/b',
  'skill://a/b?x',
  'skill://a/b#x',
  `skill://${'a'.repeat(5000)}`,
])('79: a URI that is not looked up anywhere: %j', (uri) => {
  expect(isSkillUri(uri)).toBe(true);
  expect(skillUriProblem(uri)).toBeDefined();
});

test.each([undefined, '', 'skill:/a', 'file:///etc/passwd', 'skills://a', 'https://skill'])(
  'not of a skill: %s',
  (uri) => {
    expect(isSkillUri(uri)).toBe(false);
  },
);
