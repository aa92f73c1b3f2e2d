import { expect, test } from 'vitest';
import { z } from 'zod';

import { surfaces } from '#server/admin/fields';
import { AdministrationRefusal, checkedInput } from '#server/admin/refusal';
import { formFor, type ControlHere } from '#server/web/dashboard/forms';
import { html } from '#server/web/html';

const input = z.strictObject({
  organization: z.string(),
  name: z
    .string()
    .min(1)
    .register(surfaces, { control: { kind: 'text', label: 'Name', subject: 'The name' } }),
  note: z
    .string()
    .optional()
    .register(surfaces, {
      control: { kind: 'textarea', label: 'Note', rows: 5, attributes: { class: 'code-like' } },
    }),
  uris: z
    .array(z.url('is no URL'))
    .max(2)
    .register(surfaces, {
      control: {
        kind: 'textarea',
        label: 'URIs',
        subject: 'The list of URIs',
        entries: { between: 'lines', subject: 'The URI' },
      },
    })
    .default([]),
  words: z
    .array(z.string().regex(/^[a-z]+$/, 'is no word'))
    .optional()
    .register(surfaces, {
      control: {
        kind: 'text',
        label: 'Words',
        subject: 'A word',
        optional: 'unmarked',
        entries: { between: 'spaces' },
      },
    }),
  way: z.enum(['open', 'closed']).register(surfaces, {
    control: {
      kind: 'radio',
      label: 'Way',
      choices: [
        { value: 'open', text: 'Open', help: 'For all.' },
        { value: 'closed', text: 'Closed' },
      ],
    },
  }),
  secret: z
    .string()
    .optional()
    .register(surfaces, {
      control: {
        kind: 'text',
        type: 'password',
        label: 'Secret',
        when: { choice: 'way', is: ['closed'], part: 'access' },
      },
    }),
  keys: z
    .object({})
    .optional()
    .register(surfaces, {
      control: {
        kind: 'textarea',
        label: 'Keys',
        subject: 'The set of keys',
        optional: false,
        read: (text) => (text === '{}' ? {} : text),
        when: {
          choice: {
            name: 'proof',
            label: 'Proof',
            choices: [
              { value: 'secret', text: 'A secret' },
              { value: 'keys', text: 'Keys' },
            ],
          },
          is: ['keys'],
          part: 'keys',
        },
      },
    }),
  groups: z.array(z.string()).register(surfaces, {
    control: { kind: 'checkboxes', name: 'group', label: 'Groups', choices: [] },
  }),
  isStrict: z.boolean().register(surfaces, {
    control: { kind: 'checkbox', group: { name: 'rule', label: 'Rules' }, label: 'Strict' },
  }),
  isOpen: z.boolean().register(surfaces, {
    control: {
      kind: 'checkbox',
      name: 'open',
      group: { name: 'rule', label: 'Rules' },
      label: 'Open',
      help: 'To all.',
    },
  }),
});
const form = formFor({ input });
const limit = z
  .int()
  .nullable()
  .register(surfaces, {
    control: {
      kind: 'text',
      label: 'Seconds',
      optional: 'unmarked',
      read: (text) => (text === '' ? null : Number(text)),
    },
  });
const limited = z.strictObject({
  name: z.string().register(surfaces, { control: { kind: 'text', label: 'Name' } }),
  limits: z.strictObject({ seconds: limit.optional(), calls: z.int().optional() }).optional(),
});
type Sent = Readonly<Record<string, string>>;
const read = (sent: Sent) => form.read(new Map(Object.entries(sent)));
const inputOf = (sent: Sent) => form.inputOf(read(sent));
const shown = (sent: Sent, here: Readonly<Record<string, ControlHere>> = {}) =>
  form.fields(read(sent), [], { here }).toString();
const errorsOf = (sent: Sent) => {
  try {
    checkedInput(input, { organization: 'acme', ...inputOf(sent) });
    return [];
  } catch (refusal) {
    return form.errorsOf(refusal, read(sent));
  }
};

test('form: a list is read from lines or words, and an empty one is omitted where the operation allows', () => {
  const uris = ' https://a.example/ \r\n\nhttps://b.example/';

  expect(inputOf({ uris, words: ' one  two ' })).toMatchObject({
    uris: ['https://a.example/', 'https://b.example/'],
    words: ['one', 'two'],
  });
  expect(inputOf({})).toMatchObject({ uris: [] });
  expect(inputOf({ words: '  ' })).not.toHaveProperty('words');
});

test('form: a text is trimmed, an empty optional one is omitted, and a required one is refused', () => {
  expect(inputOf({ name: ' a ', note: ' ' })).toMatchObject({ name: 'a' });
  expect(inputOf({ note: ' ' })).not.toHaveProperty('note');
  expect(errorsOf({ name: ' ', way: 'open' })).toEqual([
    { field: 'name', message: 'The name is empty.' },
  ]);
});

test('form: a field that depends on a choice is part of the input only while that is chosen', () => {
  expect(inputOf({ way: 'closed', secret: ' s ' })).toMatchObject({ way: 'closed', secret: ' s ' });
  expect(inputOf({ way: 'open', secret: 's' })).not.toHaveProperty('secret');
  expect(inputOf({ proof: 'keys', keys: '{}' })).toMatchObject({ keys: {} });
  expect(inputOf({ proof: 'secret', keys: '{}' })).not.toHaveProperty('keys');
  expect(inputOf({ proof: 'other', keys: '{}' })).not.toHaveProperty('keys');
  expect(inputOf({ proof: 'keys' })).not.toHaveProperty('proof');
});

test('form: it requires what the operation may be called without, if the field says so', () => {
  expect(errorsOf({ name: 'a', way: 'open', proof: 'keys' })).toEqual([
    { field: 'keys', message: 'The set of keys must be an object.' },
  ]);
});

test('form: an error about an entry names it, once, and leads to its field', () => {
  const valid = { name: 'a', way: 'open' };
  const uri = 'https://a.example/';

  expect(errorsOf({ ...valid, uris: `here\nhere`, words: 'a 1 2' })).toEqual([
    { field: 'uris', message: 'The URI here is no URL.' },
    { field: 'words', message: 'A word is no word.' },
  ]);
  expect(errorsOf({ ...valid, uris: `${uri}\n${uri}\n${uri}` })).toEqual([
    { field: 'uris', message: 'The list of URIs must contain at most 2 items.' },
  ]);
});

test('form: boxes are true or false, and an error about one leads to its group', () => {
  const checked = inputOf({ 'group.a': 'a', 'group.b': 'b', 'rule.open': 'open' });

  expect(checked).toMatchObject({ groups: ['a', 'b'], isStrict: false, isOpen: true });
  const refusal = new AdministrationRefusal('invalid', '', {
    fields: [{ field: 'isOpen', problem: 'is not allowed' }],
  });
  expect(form.errorsOf(refusal, form.blank)).toEqual([
    { field: 'rule', message: 'Open is not allowed.' },
  ]);
  const conflict = new AdministrationRefusal('conflict', 'it is taken');
  expect(form.errorsOf(conflict, form.blank, 'rule')).toEqual([
    { field: 'rule', message: 'It is taken.' },
  ]);
  expect(() => form.errorsOf(conflict, form.blank)).toThrow(conflict);
});

test('form: it shows a record as a person would have entered it', () => {
  const record = {
    name: 'a',
    note: null,
    uris: ['https://a.example/', 'https://b.example/'],
    words: ['one', 'two'],
    way: 'closed',
    groups: ['a'],
    isOpen: true,
    other: 'left out',
  };

  expect(form.filled(record)).toEqual({
    ...form.blank,
    name: 'a',
    uris: 'https://a.example/\nhttps://b.example/',
    words: 'one two',
    way: 'closed',
    group: ['a'],
    'rule.open': true,
  });
  expect(form.filled(record)).toMatchObject({ proof: 'secret', 'rule.isStrict': false });
});

test('form: what was entered comes back escaped, with its error beside it, but never a password', () => {
  const evil = '<img src=x onerror="1">';
  const entered = read({ name: evil, note: evil, words: evil, way: 'closed', secret: 'hunter2' });
  const page = form.fields(entered, [{ field: 'note', message: `${evil} is wrong.` }]).toString();

  expect(page).not.toContain('<img');
  expect(page).not.toContain('hunter2');
  const escaped = '&lt;img src=x onerror=&quot;1&quot;&gt;';
  expect(page).toContain(`value="${escaped}"`);
  expect(page).toMatch(
    new RegExp(
      `<textarea id="note"[^>]*aria-describedby="note-error" aria-invalid="true"[^>]*>\\s*${escaped}</textarea>`,
    ),
  );
  expect(page).toContain(`<p class="error" id="note-error">${escaped} is wrong.</p>`);
  expect(page).not.toContain('autofocus');
});

test('form: controls are marked as their fields declare', () => {
  const page = shown({ way: 'closed', 'rule.open': 'open' });

  expect(page).toMatch(/<input id="name"[^>]* autofocus[^>]* required/);
  expect(page).toMatch(
    />Note <span class="optional">[^<]*<\/span><\/label>\s*<textarea id="note" name="note" rows="5" [^>]*class="code-like"/,
  );
  expect(page).toContain('<label for="words">Words</label>');
  expect(page).not.toMatch(/<input id="words"[^>]* required/);
  expect(page).toMatch(/<input type="radio" name="way" id="way-closed" value="closed" checked>/);
  expect(page).toMatch(/<p class="help" id="way-open-help">For all\.<\/p>/);
  expect(page).toMatch(/<div class="for-access"><div class="field">\s*<label for="secret">/);
  expect(page).toMatch(
    /name="proof" id="proof-secret" value="secret"[\s\S]*<div class="for-keys">/,
  );
  expect(page.match(/<legend>Rules<\/legend>/g)).toHaveLength(1);
  expect(page).toMatch(/name="rule\.isStrict" id="rule-isStrict" value="isStrict">/);
  expect(page).toMatch(
    /name="rule\.open" id="rule-open" value="open" aria-describedby="rule-open-help" checked>/,
  );
  expect(page).not.toContain('Groups');
});

test('form: a page gives a control its choices, its help and what is before it', () => {
  const here = {
    group: { choices: [{ value: 'g_1', text: 'Sales & more' }] },
    'rule.open': { help: 'To <all>.' },
    secret: { before: html`<p>Before</p>` },
  };
  const page = shown({ 'group.g_1': 'g_1' }, here);

  expect(page).toMatch(/name="group\.g_1" id="group-g-1" value="g_1" checked>/);
  expect(page).toContain('Sales &amp; more');
  expect(page).toContain('To &lt;all&gt;.');
  expect(page).toContain('<div class="for-access"><p>Before</p><div class="field">');
});

test('form: the fields that it names first come first', () => {
  const names = Object.keys(formFor({ input }, ['isOpen', 'way']).blank);

  expect(names.slice(0, 4)).toEqual(['rule.open', 'way', 'name', 'note']);
});

test('form: a field within a field has a control, whose value and errors have its path', () => {
  const nested = formFor({ input: limited });
  const entered = (seconds: string) => nested.read(new Map(Object.entries({ name: 'a', seconds })));
  const refusal = new AdministrationRefusal('invalid', '', {
    fields: [{ field: 'limits.seconds', problem: 'is too large' }],
  });

  expect(nested.inputOf(entered(' 7 '))).toEqual({ name: 'a', limits: { seconds: 7 } });
  expect(nested.inputOf(entered(''))).toEqual({ name: 'a', limits: { seconds: null } });
  expect(nested.filled({ limits: { seconds: 7 } })).toEqual({ name: '', seconds: '7' });
  expect(nested.filled({ limits: { seconds: null } })).toEqual({ name: '', seconds: '' });
  expect(nested.errorsOf(refusal, nested.blank)).toEqual([
    { field: 'seconds', message: 'Seconds is too large.' },
  ]);
});

test('form: a page can show some of the controls, and label errors about other fields', () => {
  const some = form.fields(form.blank, [], { only: ['note', 'name'] }).toString();
  const fields = [{ field: 'organization.name', problem: 'is wrong' }];
  const refusal = new AdministrationRefusal('invalid', '', { fields });
  const others = { organization: { field: 'place', label: 'The place' } };

  expect([...some.matchAll(/<label for="(\w+)"/g)].map(([, name]) => name)).toEqual([
    'name',
    'note',
  ]);
  expect(form.errorsOf(refusal, form.blank, undefined, others)).toEqual([
    { field: 'place', message: 'The place is wrong.' },
  ]);
});
