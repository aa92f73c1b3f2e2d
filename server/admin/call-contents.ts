import { z } from 'zod';

import { contentPurpose } from '#activity/content-log';
import { deleteContentsOf } from '#activity/call-retention';
import { json, masterKeyFile } from '#config/option';
import type { Input } from '#config/read-options';
import { UsageError } from '#config/usage-error';
import { findContents, setContentSettings } from '#db/call-contents';
import { findServerById } from '#db/servers';
import { bytesOfSize, sizeOfBytes, typedSize } from '#model/byte-size';
import { contentBounds, type ContentSettings, noContents } from '#model/call-contents';
import { findReadableCall } from './calls.ts';
import { administer, type Command } from './command.ts';
import { fields, surfaces, wholeNumber, words } from './fields.ts';
import { type Operation, organizationOperation } from './operation.ts';
import { ofServer, ownServer, serverPath, serverTarget } from './paths.ts';
import { namedOrganization, placeOf } from './positionals.ts';
import { printMade } from './print.ts';
import { viewOf } from './views.ts';

// The arguments and results of calls: whether a server stores them, and reading them.

const { limitBytes: limits, days } = contentBounds;
const stored = { name: 'stored', label: 'What is stored of each call' };

const settingFields = {
  arguments: z.boolean().describe('Whether the arguments of calls are stored'),
  results: z.boolean().describe('Whether the results of calls are stored'),
  limitBytes: wholeNumber(limits.least, limits.most).describe(
    'The bytes that are stored of either; the rest is cut off',
  ),
  days: wholeNumber(days.least, days.most).describe('How many days they are kept'),
};

const contentsViewSchema = z.object(settingFields).meta({ id: 'StoredContents' });

const toContentsView = (settings: ContentSettings = noContents) =>
  viewOf(contentsViewSchema, settings);

const path = `${serverPath}/contents`;

export const serverContents = organizationOperation({
  name: 'server.contents',
  doc: 'Read whether a server stores the arguments and results of its calls',
  route: { method: 'GET', path },
  permission: 'server.read',
  input: z.strictObject(ofServer),
  output: contentsViewSchema,
  async run({ server }, { organization }, ports) {
    return toContentsView((await ownServer(organization.name, server, ports)).target.contents);
  },
});

const number = { inputmode: 'numeric', autocomplete: 'off', spellcheck: 'false' };

export const serverSetContents = organizationOperation({
  name: 'server.set-contents',
  doc: 'Store the arguments or results of the calls to a server, or stop that; takes effect on the next call, and omitted fields keep their value',
  route: { method: 'PATCH', path },
  permission: 'organization.manage',
  input: z.strictObject({
    ...ofServer,
    arguments: settingFields.arguments.optional().register(surfaces, {
      control: {
        kind: 'checkbox',
        group: stored,
        label: 'Arguments',
        help: 'What applications send to tools and prompts.',
      },
    }),
    results: settingFields.results.optional().register(surfaces, {
      control: {
        kind: 'checkbox',
        group: stored,
        label: 'Results',
        help: 'What the server answers.',
      },
    }),
    limitBytes: settingFields.limitBytes.optional().register(surfaces, {
      control: {
        kind: 'text',
        label: 'Limit in kB',
        subject: 'The limit',
        help: `${limits.least / 1024} to ${limits.most / 1024} kB. Only the beginning of longer arguments or results is stored.`,
        optional: false,
        read: (text) => bytesOfSize(text, 'kB'),
        show: (value) => typedSize(value, 'kB'),
        rule: `must be a size between ${sizeOfBytes(limits.least)} and ${sizeOfBytes(limits.most)}`,
        attributes: { autocomplete: 'off', spellcheck: 'false', maxlength: '20' },
      },
    }),
    days: settingFields.days.optional().register(surfaces, {
      control: {
        kind: 'text',
        label: 'Days to keep them',
        subject: 'The number of days',
        help: `${days.least} to ${days.most} days. Older ones are deleted within an hour; this cannot be undone.`,
        optional: false,
        attributes: { ...number, maxlength: '3' },
      },
    }),
  }),
  output: contentsViewSchema,
  target: ({ organization, server, ...change }) =>
    `${serverTarget({ organization, server })} ${JSON.stringify(change)}`,
  async run({ server, ...change }, { organization }, ports) {
    const { target } = await ownServer(organization.name, server, ports);
    const { organization: _, ...given } = change;
    const before = target.contents ?? noContents;
    const settings = {
      ...before,
      arguments: given.arguments ?? before.arguments,
      results: given.results ?? before.results,
      limitBytes: given.limitBytes ?? before.limitBytes,
      days: given.days ?? before.days,
    };
    await setContentSettings(ports.db, target.id, settings);
    return toContentsView(settings);
  },
});

export const serverDeleteContents = organizationOperation({
  name: 'server.delete-contents',
  doc: 'Delete the stored arguments and results of a server; nobody can read them from now on, and they are removed within an hour',
  route: { method: 'DELETE', path },
  permission: 'organization.manage',
  input: z.strictObject(ofServer),
  output: contentsViewSchema,
  target: serverTarget,
  async run({ server }, { organization }, ports) {
    const { target } = await ownServer(organization.name, server, ports);
    const before = target.contents ?? noContents;
    const deletedBeforeMs = ports.clock.now() * 1000;
    await setContentSettings(ports.db, target.id, { ...before, deletedBeforeMs });
    return toContentsView(before);
  },
});

const part = z
  .object({
    text: z.string().describe('JSON; secrets are redacted'),
    isCut: z.boolean().describe('Whether it was longer than the limit'),
  })
  .nullable()
  .describe('`null` if nothing is stored');

export const callContent = organizationOperation({
  name: 'call.content',
  doc: 'Read the stored arguments and result of a call; requires the Auditor right, and each reading is an entry in the audit log',
  route: { method: 'POST', path: '/organizations/{organization}/calls/{callId}/content' },
  permission: 'organization.read',
  isForAuditors: true,
  input: z.strictObject({ organization: fields.organization, callId: words(40) }),
  output: z.object({ arguments: part, result: part }).meta({ id: 'CallContent' }),
  target: ({ callId }) => `call:${callId}`,
  async run({ callId }, reading, { db, contentKey }) {
    const { organizationId, endpoint, target, id } = await findReadableCall(callId, reading, db);
    // A call through a collection may be stored by the member, by the collection, or by both.
    const called = (await findServerById(db, endpoint.id))?.target ?? target;
    const places = [...new Set([target.id, called.id])].map((targetId) => {
      return { organizationId, targetId, id };
    });
    const found = await Promise.all(places.map((place) => findContents(db, place)));
    const partOf = (kind: 'arguments' | 'result') => {
      const at = found.findIndex((contents) => contents.some((one) => one.kind === kind));
      const one = found[at]?.find((content) => content.kind === kind);
      const place = places[at];
      if (!one || !place) return null;
      return { text: contentKey.open(contentPurpose(place, kind), one.sealed), isCut: one.isCut };
    };
    return { arguments: partOf('arguments'), result: partOf('result') };
  },
});

export const contentOperations: readonly Operation[] = [
  serverContents,
  serverSetContents,
  serverDeleteContents,
  callContent,
];

/** `16KB` and `16384` are the same. @throws {UsageError} */
function bytesOf(input: Input): number | undefined {
  const text = input.text('limit');
  if (text === undefined) return undefined;
  const bytes = bytesOfSize(text, 'bytes');
  if (!Number.isNaN(bytes)) return bytes;
  throw new UsageError(`--limit '${text}' is not a number of bytes`, 'write 16384 or 16KB');
}

const setCommand: Command = {
  words: 'server set-contents',
  positionals: ['ORG/SERVER'],
  options: [
    { name: 'arguments', doc: 'store the arguments of calls' },
    { name: 'results', doc: 'store the results of calls' },
    { name: 'limit', value: 'SIZE', doc: 'the bytes that are stored of either, for example 16KB' },
    { name: 'days', value: 'DAYS', doc: 'how many days they are kept' },
    { name: 'off', doc: 'store neither; what is stored is kept for its days' },
    { name: 'delete', doc: 'delete what is stored now' },
    json,
  ],
  doc: 'store the arguments or results of the calls to a server, or stop that',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input.positionals[0] ?? '', ports);
    const [hasArguments, results] = [input.flag('arguments'), input.flag('results')];
    if (input.flag('off') && (hasArguments || results)) {
      throw new UsageError('give --arguments or --results, or --off, but not both');
    }
    const isChosen = hasArguments || results || input.flag('off');
    const change = {
      ...(isChosen && { arguments: hasArguments, results }),
      limitBytes: bytesOf(input),
      days: input.text('days'),
    };
    if (Object.values(change).some((value) => value !== undefined)) {
      await administer(serverSetContents, { ...at, ...change }, ports);
    }
    if (input.flag('delete')) {
      await administer(serverDeleteContents, at, ports);
      const { db } = ports.stores;
      const found = await ownServer(at.organization, at.server, { db });
      const { id: organizationId } = await namedOrganization(at.organization, ports.stores);
      const { id: targetId, contents = noContents } = found.target;
      const { deletedBeforeMs = 0, days: keptDays } = contents;
      const target = { organizationId, targetId, days: keptDays, deletedBeforeMs };
      await deleteContentsOf(target, { db, clock: ports.clock });
    }
    const now = await administer(serverContents, at, ports);
    const word = (isStored: boolean) => (isStored ? 'yes' : 'no');
    const facts = {
      name: `${at.organization}/${at.server}`,
      arguments: word(now.arguments),
      results: word(now.results),
      limit_bytes: now.limitBytes,
      days: now.days,
    };
    printMade(facts, { json: input.flag('json'), out });
  },
};

const readCommand: Command = {
  words: 'call content',
  positionals: ['ORG', 'ID'],
  options: [masterKeyFile, json],
  doc: 'print the stored arguments and result of a call; each reading is an entry in the audit log',
  async run(input, { out, ...ports }) {
    const [name = '', callId = ''] = input.positionals;
    const { name: organization } = await namedOrganization(name, ports.stores);
    const found = await administer(callContent, { organization, callId }, ports);
    const facts = {
      arguments: found.arguments?.text ?? null,
      arguments_cut: found.arguments?.isCut ? 'yes' : 'no',
      result: found.result?.text ?? null,
      result_cut: found.result?.isCut ? 'yes' : 'no',
    };
    printMade(facts, { json: input.flag('json'), out });
  },
};

export const contentCommands: { readonly server: Command; readonly call: Command } = {
  server: setCommand,
  call: readCommand,
};
