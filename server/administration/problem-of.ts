import type { z } from 'zod';

/** What is wrong with a field, in words that go behind its name. */
export function problemOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.expected === 'int') return 'must be a whole number';
      return issue.input === undefined ? 'is missing' : `must be ${withArticle(issue.expected)}`;
    case 'too_small':
      return issue.origin === 'string' && Number(issue.minimum) === 1
        ? 'is empty'
        : bound('at least', issue.minimum, issue.origin);
    case 'too_big':
      return bound('at most', issue.maximum, issue.origin);
    case 'invalid_value':
      return `must be ${issue.values
        .map(String)
        .join(', ')
        .replace(/, ([^,]*)$/, ' or $1')}`;
    case 'invalid_union':
      return 'is not one of the forms that it may have';
    case 'unrecognized_keys':
      return 'is not known here';
    case 'custom':
    case 'invalid_format':
    case 'invalid_key':
    case 'invalid_element':
    case 'not_multiple_of':
      return issue.message;
  }
}

function withArticle(type: string): string {
  return `${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type}`;
}

function bound(words: 'at least' | 'at most', limit: number | bigint, origin: string): string {
  if (origin === 'string') return `must have ${words} ${limit} characters`;
  if (origin === 'array') return `must have ${words} ${limit} of them`;
  return `must be ${words} ${limit}`;
}
