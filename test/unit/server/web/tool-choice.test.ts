import { expect, test } from 'vitest';
import { z } from 'zod';

import { surfaces } from '#server/admin/fields';
import { toolSelectionSchema } from '#server/model/tool-rights';
import { parseForm } from '#server/oauth/forms';
import { formFor } from '#server/web/dashboard/forms';
import {
  type Choosable,
  enteredTools,
  keyWords,
  selectionOf,
  selectionWords,
  sentTools,
  toolChoiceField,
} from '#server/web/tool-choice';

/** The form that a browser sends of a page: the checked inputs and the text areas. */
function submitted(page: string): URLSearchParams {
  const sent = new URLSearchParams();
  for (const [, attributes = ''] of page.matchAll(/<input ([^>]*)>/g)) {
    const attribute = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(attributes)?.[1];
    if (/\bchecked\b/.test(attributes)) {
      sent.append(attribute('name') ?? '', attribute('value') ?? 'on');
    }
  }
  for (const [, name = '', text = ''] of page.matchAll(
    /<textarea id="[^"]*" name="([^"]*)"[^>]*>\n([^<]*)<\/textarea>/g,
  )) {
    sent.append(name, text);
  }
  return sent;
}
const formOf = (sent: URLSearchParams) =>
  parseForm('application/x-www-form-urlencoded', Buffer.from(sent.toString()), 2000);

const items: readonly Choosable[] = [
  { kind: 'tool', name: 'a.b' },
  { kind: 'tool', name: 'line\r\nbreak \u202e “%2F”' },
  { kind: 'tool', name: '__proto__' },
  { kind: 'prompt', name: 'a.b' },
  { kind: 'resource', name: 'file:///x' },
  { kind: 'template', name: 'file:///{+path}' },
];
const chosen = {
  type: 'chosen',
  tools: ['a.b', 'line\r\nbreak \u202e “%2F”', '__proto__'],
  prompts: ['a.b'],
  resources: ['file:///x', 'file:///{+path}'],
} as const;
const controlled = toolSelectionSchema
  .optional()
  .register(surfaces, { control: { kind: 'tools', label: 'Tools', subject: 'The choice' } });
const fieldOf = (selection: Parameters<typeof enteredTools>[0], offered = items) =>
  toolChoiceField({
    name: 'tools',
    legend: 'Tools',
    entered: enteredTools(selection),
    items: offered,
    words: keyWords,
  }).toString();

test.each([
  ['all', { type: 'all' }],
  ['read-only', { type: 'read-only' }],
  ['chosen, with names of every kind of character', chosen],
] as const)('tool choice: a form that shows %s sends the same', (_, selection) => {
  const sent = formOf(submitted(fieldOf(selection)));

  expect(selectionOf(sentTools(sent, 'tools'))).toEqual(selection);
});

test('tool choice: names that the server no longer lists stay, and can be removed', () => {
  const page = fieldOf(chosen, items.slice(2));
  const sent = submitted(page);
  const before = selectionOf(sentTools(formOf(sent), 'tools'));
  sent.delete('tools-tool');
  const after = selectionOf(sentTools(formOf(sent), 'tools'));

  expect(page).toContain('The server does not list them now');
  expect(before).toMatchObject({ tools: expect.arrayContaining(['a.b']) });
  expect(after).toMatchObject({ tools: ['__proto__'], prompts: ['a.b'] });
});

test('tool choice: where the server is not known, names are typed', () => {
  const page = toolChoiceField({
    name: 'tools',
    legend: 'Tools',
    entered: ['chosen', 'tool:search'],
    items: undefined,
    words: keyWords,
  }).toString();
  const sent = submitted(page);
  sent.set('tools-tool', ' search\r\n\r\nget \r\nsearch');

  expect(page).toContain('>\nsearch</textarea>');
  expect(selectionOf(sentTools(formOf(sent), 'tools'))).toEqual({
    type: 'chosen',
    tools: ['search', 'get'],
    prompts: [],
    resources: [],
  });
});

test('tool choice: boxes have ids of their own, also for names that differ only in signs', () => {
  const page = fieldOf(chosen, [
    { kind: 'tool', name: 'a_b' },
    { kind: 'tool', name: 'a-b' },
  ]);
  const ids = [...page.matchAll(/<input type="checkbox" [^>]*id="([^"]+)"/g)].map(([, id]) => id);

  expect(new Set(ids).size).toBe(2);
});

test('tool choice: a field that no box of ours has is ignored', () => {
  const sent = new URLSearchParams({ tools: 'chosen', 'tools.tool.%': 'on', 'tools.tool.a': 'on' });

  expect(sentTools(formOf(sent), 'tools')).toEqual(['chosen', 'tool:a']);
});

test('tool choice: names that nothing checked limit nothing unless that is chosen', () => {
  const sent = new URLSearchParams({ tools: 'all', 'tools.tool.a': 'on' });

  expect(selectionOf(sentTools(formOf(sent), 'tools'))).toEqual({ type: 'all' });
});

test('tool choice: a page without the field widens nothing', () => {
  const form = formFor({ input: z.strictObject({ tools: controlled }) });

  expect(form.inputOf(form.read(formOf(new URLSearchParams())))).toEqual({});
  expect(selectionOf([])).toEqual({ type: 'chosen', tools: [], prompts: [], resources: [] });
});

test('selection words: what a credential is limited to, counted', () => {
  const none = { type: 'chosen', tools: [], prompts: [], resources: [] } as const;

  expect(
    [{ type: 'all' } as const, { type: 'read-only' } as const, chosen, none].map(selectionWords),
  ).toEqual([
    'All tools',
    'Only tools that read',
    'Only 3 tools, 1 prompt, 2 resources',
    'Nothing',
  ]);
});

test('form of an operation: a selection is a control of its own', () => {
  const form = formFor({ input: z.strictObject({ tools: controlled }) });
  const page = form.fields(form.filled({ tools: chosen }), [], {
    here: { tools: { tools: { items, words: keyWords } } },
  });
  const entered = form.read(formOf(submitted(page.toString())));

  expect(form.inputOf(entered)).toEqual({ tools: chosen });
  expect(form.inputOf(form.blank)).toEqual({ tools: { type: 'all' } });
});
