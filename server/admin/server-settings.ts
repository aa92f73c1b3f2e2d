import { createHash } from 'node:crypto';
import { z } from 'zod';

import { insertAuditEvent } from '#db/audit';
import { listHiddenByCredential } from '#db/hidden-tools';
import { updateServer, type ServerChange } from '#db/servers';
import type { Awaitable } from '#model/awaitable';
import { type ServerRecord } from '#model/endpoints';
import { transaction, type Db } from '#db/transaction';
import { changedLimits, limitBounds, type ServerLimits } from '#model/server-limits';
import { bytesOfSize, sizeOfBytes, typedSize } from '#model/byte-size';
import { surfaces, words } from './fields.ts';
import type { WithDb, WithDbAndClock } from './operation.ts';
import { ownServer, serverTarget } from './paths.ts';
import { AdministrationRefusal, checkedInput, conflict } from './refusal.ts';
import { viewOf } from './views.ts';

const limitDocs = {
  callsPerMinute:
    'Requests per caller in any minute; notifications and listening streams: twice as many each',
  concurrentCalls: 'Concurrent requests per caller; listening streams: four times as many',
  requestBytes: 'The largest request body, in bytes',
  answerBytes: 'The largest response, in bytes',
  callSeconds: 'The longest that a request and its response may take',
} as const satisfies Readonly<Record<keyof ServerLimits, string>>;

/** One limit: a whole number within its bounds, or `null` for none. Forms take sizes in MB, or with another unit. */
function limit(name: keyof ServerLimits, label: string, help: string) {
  const [least, most] = limitBounds[name];
  const isSize = name === 'requestBytes' || name === 'answerBytes';
  const read = isSize ? (text: string) => bytesOfSize(text, 'MB') : Number;
  return z
    .int()
    .min(least)
    .max(most)
    .nullable()
    .register(surfaces, {
      control: {
        kind: 'text',
        label,
        help,
        optional: 'unmarked',
        read: (text) => (text === '' ? null : read(text)),
        ...(isSize && {
          show: (value: number) => typedSize(value, 'MB'),
          rule: `must be a size between ${sizeOfBytes(least)} and ${sizeOfBytes(most)}`,
        }),
        attributes: {
          inputmode: isSize ? 'text' : 'numeric',
          autocomplete: 'off',
          spellcheck: 'false',
          maxlength: isSize ? '30' : '12',
        },
      },
    })
    .optional()
    .describe(limitDocs[name]);
}

const limitFields = z
  .strictObject({
    callsPerMinute: limit(
      'callsPerMinute',
      'Calls per minute',
      'For each caller: a key, or an application acting for one person. Notifications may be twice as many. Empty: no limit.',
    ),
    concurrentCalls: limit(
      'concurrentCalls',
      'Concurrent calls',
      'For each caller. Four times as many streams may be open. Empty: 1,024 for each key or application.',
    ),
    requestBytes: limit(
      'requestBytes',
      'Max request size',
      'In MB, or with a unit: 500 kB. Empty: 4 MB, unless the operator of the server chose otherwise.',
    ),
    answerBytes: limit(
      'answerBytes',
      'Max response size',
      'In MB, or with a unit: 500 kB. Empty: no limit.',
    ),
    callSeconds: limit(
      'callSeconds',
      'Timeout',
      'In seconds, from the arrival of a call to the end of its response. Empty: no limit, but an HTTP upstream must begin to answer within 10 minutes.',
    ),
  })
  .describe('Omitted limits keep their value; null removes a limit');

/** The settings of a server apart from its upstream. Omitted members keep their value. */
export const serverSettingFields = {
  title: words(200)
    .register(surfaces, {
      control: {
        kind: 'text',
        label: 'Title',
        subject: 'The title',
        help: 'The name that people and assistants see.',
        optional: true,
        attributes: { maxlength: '200' },
      },
    })
    .optional(),
  description: z
    .string()
    .trim()
    .max(2000)
    .register(surfaces, {
      control: {
        kind: 'textarea',
        label: 'Description',
        subject: 'The description',
        help: 'What the server is for.',
        optional: true,
        attributes: { maxlength: '2000' },
      },
    })
    .optional(),
  instructions: z
    .string()
    .trim()
    .max(20_000)
    .register(surfaces, {
      control: {
        kind: 'textarea',
        label: 'Instructions for assistants',
        subject: 'The instructions',
        help: 'Sent to every assistant that connects. Example: which tool to use for what.',
        optional: true,
        rows: 5,
        attributes: { maxlength: '20000' },
      },
    })
    .optional(),
  hiddenTools: z
    .array(z.string().min(1).max(200))
    .max(1000)
    .transform((tools) => [...new Set(tools)])
    .optional(),
  limits: limitFields.optional(),
};

const maybeLimit = (name: keyof ServerLimits) => z.int().nullable().describe(limitDocs[name]);
export const limitsViewSchema = z
  .object({
    callsPerMinute: maybeLimit('callsPerMinute'),
    concurrentCalls: maybeLimit('concurrentCalls'),
    requestBytes: maybeLimit('requestBytes'),
    answerBytes: maybeLimit('answerBytes'),
    callSeconds: maybeLimit('callSeconds'),
  })
  .describe('null: the default limit applies');

/** The view of limits, which contains all of them: `null` for a limit that is not set. */
export function toLimitsView(limits: ServerLimits = {}): z.output<typeof limitsViewSchema> {
  return viewOf(limitsViewSchema, limits);
}

const changeSchema = z.strictObject(serverSettingFields);

/** Settings as entered. Omitted members keep their value. */
export type GivenSettings = z.output<typeof changeSchema>;

/** Converts entered settings to a change of the server. */
export function settingsChange(now: ServerRecord, given: GivenSettings): ServerChange {
  const { title, description, instructions, hiddenTools, limits } = given;
  return {
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(instructions !== undefined && { instructions }),
    ...(hiddenTools && { hiddenTools }),
    ...(limits && { limits: changedLimits(now.limits, limits) ?? null }),
  };
}

const mostTries = 20;

/**
 * Applies `change` to the current version of a server and returns the result. The version it was based on is compared
 * when writing: if another change was faster, `change` is called again.
 *
 * @throws {AdministrationRefusal} `not_found`, `conflict`, and whatever `change` throws
 */
export async function changeServer(
  at: { readonly organization: string; readonly server: string },
  change: (now: ServerRecord) => Awaitable<ServerChange>,
  ports: WithDb,
): Promise<ServerRecord> {
  for (let tries = 0; tries < mostTries; tries++) {
    const now = await ownServer(at.organization, at.server, ports);
    const isDone = await updateServer(ports.db, now.id, await change(now), now.revision);
    if (isDone) return ownServer(at.organization, at.server, ports);
  }
  throw conflict('this server is being changed by others: try again');
}

/**
 * @throws {AdministrationRefusal} `conflict` if the caller names the revision that they read, and the server has
 * another
 */
export function checkRevision(now: ServerRecord, read: number | undefined): void {
  if (read === undefined || read === now.revision) return;
  throw conflict('the server has changed since it was read: read it again, then change it');
}

/** A caller that was admitted to a server's endpoint. */
export interface SettingsCaller {
  /** The actor in the audit log: `key:…`, `client:…`. */
  readonly name: string;
  readonly address: string | undefined;
  readonly requestId: string | undefined;
  /** Admits the caller again, at the end of the transaction of the change. Rejects if it has lost access. */
  readonly admit: (tx: Db) => Promise<unknown>;
}

/**
 * The settings with which a server presents itself, and a version that differs after each change. Its callers can see these settings and, with the
 * right scope, change them. Callers who do not manage it cannot learn the names of hidden tools, not even by comparing versions.
 */
export function serverSettings(server: ServerRecord, isManager = true) {
  const { title = '', description = '', instructions = '' } = server;
  const hiddenTools = isManager ? server.target.hiddenTools : [];
  const limits = toLimitsView(server.limits);
  const settings = { title, description, instructions, hiddenTools, limits };
  const version = createHash('sha256').update(JSON.stringify(settings)).digest('base64url');
  return { settings, version: version.slice(0, 22) };
}

const mostNamed = 5;

/**
 * The tools that credentials have hidden after the change. A credential may hide any tool, but show again only a tool that a
 * credential hid: an administrator may have hidden the others from it.
 *
 * @throws {AdministrationRefusal} `forbidden`
 */
async function hiddenByCaller(
  { organization, name, target }: ServerRecord,
  { hiddenTools }: GivenSettings,
  db: Db,
): Promise<Pick<ServerChange, 'hiddenByCredential'>> {
  if (!hiddenTools) return {};
  const byCredential = await listHiddenByCredential(db, target.id);
  const shown = target.hiddenTools.filter((tool) => !hiddenTools.includes(tool));
  const others = shown.filter((tool) => !byCredential.includes(tool));
  if (others.length > 0) {
    const more = others.length > mostNamed ? ` and ${others.length - mostNamed} more` : '';
    const problem = `must still contain ${others.slice(0, mostNamed).join(', ')}${more}, which an administrator hid: only an administrator can show it again, on the page Tools of ${organization}/${name} or with latchkey-server server hide-tools`;
    const fields = [{ field: 'hiddenTools', problem }];
    throw new AdministrationRefusal('forbidden', `hiddenTools ${problem}`, { fields });
  }
  const added = hiddenTools.filter((tool) => !target.hiddenTools.includes(tool));
  return { hiddenByCredential: [...byCredential, ...added] };
}

/**
 * Changes settings of a server, audits the change and admits the caller, in one transaction: a caller whose access was taken away
 * changes nothing. Absent settings keep their value. `isExpected` decides whether the current version may be changed; a concurrent
 * change cannot replace that version in between.
 *
 * @returns `undefined` if `isExpected` returns false
 * @throws {AdministrationRefusal} `invalid` naming each field, `not_found`, `forbidden`, and the error with which `by.admit` rejects
 */
export async function changeServerSettings(
  { organization, name }: ServerRecord,
  given: object,
  isExpected: (version: string) => boolean,
  by: SettingsCaller,
  { db, clock }: WithDbAndClock,
): Promise<ServerRecord | undefined> {
  const data = checkedInput(changeSchema, given);
  const stale = new Error('another version');
  try {
    return await transaction(db, async (tx) => {
      const change = async (now: ServerRecord) => {
        if (!isExpected(serverSettings(now).version)) throw stale;
        return { ...settingsChange(now, data), ...(await hiddenByCaller(now, data, tx)) };
      };
      const changed = await changeServer({ organization, server: name }, change, { db: tx });
      await insertAuditEvent(tx, {
        actor: by.name,
        organization,
        action: 'server.update',
        target: serverTarget({ organization, server: name }),
        address: by.address,
        requestId: by.requestId,
        at: clock.now(),
        outcome: 'done',
      });
      await by.admit(tx);
      return changed;
    });
  } catch (error) {
    if (error === stale) return undefined;
    throw error;
  }
}
