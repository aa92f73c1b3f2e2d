import { setImmediate as afterOtherWork, setTimeout as pause } from 'node:timers/promises';
import type { z } from 'zod';

import { exportCalls } from '#activity/export-calls';
import { json } from '#config/option';
import type { Input } from '#config/read-options';
import { UsageError } from '#config/usage-error';
import { callIdAt } from '#db/calls';
import { watermarkAt } from '#db/find-calls';
import { callEnds, upstreamAccounts } from '#model/calls';
import type { Option } from '#model/option';
import { shellWord } from '#model/shell-word';
import {
  callExport,
  callList,
  callRead,
  type callViewSchema,
  isKnownAddress,
  mostALimit,
} from './calls.ts';
import { administer, type Command, type CommandPorts } from './command.ts';
import { tellMissing } from './missing-calls.ts';
import { type Ports, findListed, namedOrganization } from './positionals.ts';
import { printMade, printRows } from './print.ts';

const filterOptions: readonly Option[] = [
  {
    name: 'since',
    value: 'WHEN',
    fallback: '7d',
    doc: 'the first calls: 30m, 2h or 7d ago, or a day such as 2026-11-20',
  },
  { name: 'until', value: 'WHEN', doc: 'the end, in the same form; a day includes all of it' },
  { name: 'person', value: 'EMAIL', doc: 'the e-mail address or the ID of a person' },
  {
    name: 'application',
    value: 'NAME',
    doc: "the application, as it calls itself, for example 'claude*'",
  },
  { name: 'device', value: 'ID', doc: 'the ID of a device; give --person, too' },
  { name: 'credential', value: 'ID', doc: 'the ID of a key or client' },
  { name: 'tool', value: 'NAME', doc: "a tool, prompt or resource, for example 'refund*'" },
  { name: 'outcome', value: 'OUTCOME', doc: `the outcome: ${callEnds.join(', ')}, or failed` },
  {
    name: 'account',
    value: 'ACCOUNT',
    doc: `what the server was called with: ${upstreamAccounts.join(', ')}`,
  },
  { name: 'error', value: 'CODE', doc: 'the code of the error, for example insufficient_scope' },
];

/** @throws {UsageError} @throws {CommandError} if the organization or the server does not exist */
async function filterOf(input: Input, { stores, clock }: Ports) {
  const given = await findListed(input.positionals[0] ?? '', stores);
  const outcome = oneOf('outcome', [...callEnds, 'failed'] as const, input);
  const account = oneOf('account', upstreamAccounts, input);
  const now = clock.now();
  return {
    ...given,
    person: input.text('person'),
    application: input.text('application'),
    device: input.text('device'),
    credential: input.text('credential'),
    tool: input.text('tool'),
    outcome,
    account,
    error: input.text('error'),
    from: timeOf('since', input.must('since'), now).from,
    until: input.isGiven('until') ? timeOf('until', input.must('until'), now).end : undefined,
  };
}

/** One of the words that an option takes. @throws {UsageError} */
function oneOf<Word extends string>(
  name: string,
  words: readonly Word[],
  input: Input,
): Word | undefined {
  const typed = input.text(name);
  const word = words.find((known) => known === typed);
  if (typed !== undefined && word === undefined) {
    throw new UsageError(`--${name} '${typed}' is unknown`, `use ${words.join(', ')}`);
  }
  return word;
}

const unitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** A time that was typed, in seconds since 1970; a day begins at `from` and ends at `end`. @throws {UsageError} */
function timeOf(
  name: string,
  text: string,
  now: number,
): { readonly from: number; readonly end: number } {
  const [, count, unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (count !== undefined) {
    const at = now - Number(count) * (unitSeconds[unit] ?? 1);
    return { from: at, end: at };
  }
  const day = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) / 1000 : Number.NaN;
  if (!Number.isNaN(day)) return { from: day, end: day + 86_400 };
  throw new UsageError(
    `--${name} '${text}' is not a time`,
    'write 30m, 2h or 7d, or a day such as 2026-11-20',
  );
}

type CallView = z.output<typeof callViewSchema>;

/** The fields of a call that `call list --json` prints. */
function printedCall(call: CallView) {
  return {
    at: new Date(call.startedAtMs).toISOString(),
    duration_ms: call.durationMs,
    person: call.person?.name ?? null,
    application: call.application,
    credential: call.credential.name,
    endpoint: call.endpoint.name,
    server: call.server.name,
    method: call.method,
    tool: call.tool,
    outcome: call.outcome,
    error: call.error,
    request_id: call.requestId,
    times: call.times,
    id: call.id,
  };
}

/** The columns for people, who see the rest with `call show`. */
function tableRow(call: CallView) {
  return {
    called_at: call.at,
    who: call.person?.name || call.credential.name || call.credential.id,
    application: call.application,
    server:
      call.endpoint.name === call.server.name
        ? call.server.name
        : `${call.server.name} through ${call.endpoint.name}`,
    tool: call.tool ?? call.method,
    outcome: call.times > 1 ? `${call.outcome} ×${call.times}` : call.outcome,
    error: call.error,
    ms: call.durationMs,
    id: call.id,
  };
}

/** Finds the newest calls. A long search prints how far back it is; a reader who has seen enough stops the command. */
async function firstCalls(
  filter: Awaited<ReturnType<typeof filterOf>>,
  limit: string,
  { tell, ...ports }: Pick<CommandPorts, 'stores' | 'clock' | 'tell'>,
): Promise<readonly CallView[]> {
  const first = await administer(callList, { ...filter, limit }, ports);
  tellMissing(first.missing, tell);
  const items = [...first.items];
  let { searchedTo, next } = first;
  while (searchedTo !== null && next !== null && items.length < Number(limit)) {
    const when = new Date(searchedTo * 1000).toISOString().replace('.000Z', 'Z');
    tell(`searched back to ${when}, ${items.length} found so far; Ctrl+C stops the search`);
    const rest = { ...filter, after: next, limit: Number(limit) - items.length };
    const found = await administer(callList, rest, ports);
    items.push(...found.items);
    ({ searchedTo, next } = found);
  }
  return items;
}

const noCalls = 'no matching calls';

/** Why no calls match, and what may find some. */
async function whyNone(input: Input, organization: string, { stores, clock }: Ports) {
  const person = input.text('person') ?? '';
  if (person.includes('@')) {
    const { id } = await namedOrganization(organization, stores);
    if ((await isKnownAddress(person, id, { db: stores.db, clock })) === false) {
      return `no member of ${organization} has the address ${person}, and no recorded call carries it: check the spelling; calls with a pseudonym have no address`;
    }
  }
  for (const option of ['tool', 'application']) {
    const text = input.text(option);
    if (text !== undefined && !text.includes('*')) {
      return `--${option} takes the whole name; --${option} ${shellWord(`${text}*`)} finds all that begin with it`;
    }
  }
  return input.isGiven('since') ? undefined : 'only the last 7 days were searched; see --since';
}

const followEveryMs = 1000;

const listCommand: Command = {
  words: 'call list',
  positionals: ['ORG[/SERVER]'],
  options: [
    ...filterOptions,
    { name: 'limit', value: 'COUNT', fallback: '50', doc: 'the number of calls, up to 200' },
    { name: 'follow', doc: 'print further calls as they are recorded, one JSON document per line' },
    json,
  ],
  doc: 'list the recorded calls of an organization or a server, newest first',
  endsWithReader: true,
  async run(input, { out, tell, ...ports }) {
    const filter = await filterOf(input, ports);
    const startMs = watermarkAt(ports.clock.now());
    const items = await firstCalls(filter, input.must('limit'), { ...ports, tell });
    if (!input.flag('follow')) {
      const isJson = input.flag('json');
      const rows = isJson ? items.map(printedCall) : items.map(tableRow);
      printRows(rows, { json: isJson, empty: noCalls, out });
      if (isJson || rows.length > 0) return;
      const hint = await whyNone(input, filter.organization, ports);
      return hint === undefined ? undefined : out(`hint: ${hint}`);
    }
    const print = (calls: readonly CallView[]) => {
      for (const call of calls.toReversed()) out(JSON.stringify(printedCall(call)));
    };
    print(items);
    // Ids sort by the time of recording, so every later call has a greater id. The list above left out the youngest calls.
    let newest = items[0]?.id ?? callIdAt(startMs);
    for (;;) {
      await pause(followEveryMs);
      for (let hasMore = true; hasMore;) {
        const more = { ...filter, newer: newest, limit: mostALimit };
        const found = await administer(callList, more, ports);
        print(found.items);
        // A search that took too long continues where it stopped, even if it found nothing.
        newest = found.next ?? found.items[0]?.id ?? newest;
        hasMore = found.next !== null;
      }
    }
  },
};

const showCommand: Command = {
  words: 'call show',
  positionals: ['ORG', 'ID'],
  options: [json],
  doc: 'show everything that is recorded of a call',
  async run(input, { out, ...ports }) {
    const [text = '', callId = ''] = input.positionals;
    const { name: organization } = await namedOrganization(text, ports.stores);
    const call = await administer(callRead, { organization, callId }, ports);
    const facts = {
      ...printedCall(call),
      call_id: call.callId,
      person_id: call.person?.id ?? null,
      credential_id: call.credential.id,
      application_source: call.applicationSource,
      device_id: call.deviceId,
      address: call.address,
      account: call.account,
      account_owner: call.accountOwner?.name ?? null,
      account_owner_id: call.accountOwner?.id ?? null,
      reason: call.reason,
      remedy: call.remedy,
      status: call.status,
      bytes_in: call.bytesIn,
      bytes_out: call.bytesOut,
      trace_id: call.traceId,
      era: call.era,
      node: call.node,
    };
    printMade(facts, { json: input.flag('json'), out });
  },
};

const exportCommand: Command = {
  words: 'call export',
  positionals: ['ORG[/SERVER]'],
  options: [
    ...filterOptions,
    { name: 'csv', doc: 'print CSV instead of one JSON document per line' },
    { ...json, doc: 'print one JSON document per line (default)' },
  ],
  doc: 'print the recorded calls of an organization or a server',
  endsWithReader: true,
  async run(input, { out, tell, ...ports }) {
    const format = input.flag('csv') ? 'csv' : 'jsonl';
    const filter = await filterOf(input, ports);
    const { query, missing } = await administer(callExport, { ...filter, format }, ports);
    tellMissing(missing, tell);
    let lines = 0;
    for await (const piece of exportCalls(query, format, ports.stores.db)) {
      for (const line of piece.trimEnd().split(/\r?\n/)) {
        out(line);
        lines += 1;
      }
      // SQLite answers within the same turn of the event loop, during which we cannot notice that the reader disconnected.
      await afterOtherWork();
    }
    if (lines > (format === 'csv' ? 1 : 0)) return;
    tell(noCalls);
    const hint = await whyNone(input, filter.organization, ports);
    if (hint !== undefined) tell(`hint: ${hint}`);
  },
};

export const callCommands: readonly Command[] = [listCommand, showCommand, exportCommand];
