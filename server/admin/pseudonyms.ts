import { randomBytes } from 'node:crypto';
import { z } from 'zod';

import { replacePerson } from '#activity/pseudonyms';
import { json } from '#config/option';
import { CommandError } from '#config/usage-error';
import { findCallers, requestPseudonym } from '#db/call-pseudonyms';
import { findCall } from '#db/find-calls';
import { findMember, findUserByEmail } from '#db/people';
import type { Db } from '#db/transaction';
import { isPseudonym, pseudonymName } from '#model/calls';
import { emailKey } from '#model/email';
import { administer, type Command } from './command.ts';
import { organizationOperation } from './operation.ts';
import { checkRecent, ofPerson } from './people.ts';
import { namedOrganization } from './positionals.ts';
import { printMade } from './print.ts';
import { notFound } from './refusal.ts';

const pseudonymBytes = 6;

/**
 * The audit log names the pseudonym and not the person. Members are pseudonymized on their page; people who have left, or whose account
 * was deleted, on the page of one of their calls. The operator may name anyone.
 */
export const personPseudonymize = organizationOperation({
  name: 'person.pseudonymize',
  doc: 'Replace the name and address of a person by a pseudonym in the calls recorded so far, and delete the stored arguments and results of these calls; this cannot be undone',
  permission: 'owners.manage',
  input: z.strictObject({
    ...ofPerson,
    callId: z.string().max(40).optional().describe('A call of a person who is no member'),
  }),
  output: z.object({ pseudonym: z.string(), requestedAtMs: z.int() }),
  target: (_, output) => output && `pseudonym:${output.pseudonym}`,
  async run({ userId: personId, callId }, { organization, actor }, { db, clock }) {
    if (actor.type !== 'operator') await checkCaller(organization.id, { personId, callId }, db);
    checkRecent(actor, clock.now());
    const { pseudonym, requestedAtMs } = await requestPseudonym(db, {
      organizationId: organization.id,
      personId,
      pseudonym: randomBytes(pseudonymBytes).toString('hex'),
      // The clock counts seconds: calls of the current second are included.
      requestedAtMs: (clock.now() + 1) * 1000,
    });
    return { pseudonym, requestedAtMs };
  },
});

/**
 * A person of another organization is not found, nor is a pseudonym.
 *
 * @throws {AdministrationRefusal} `not_found`
 */
async function checkCaller(
  organizationId: string,
  { personId, callId }: { readonly personId: string; readonly callId: string | undefined },
  db: Db,
): Promise<void> {
  if (await findMember(db, organizationId, personId)) return;
  const call = callId === undefined ? undefined : await findCall(db, organizationId, callId);
  if (call?.person?.id !== personId || isPseudonym(personId)) throw notFound('person');
}

export const pseudonymizeCommand: Command = {
  words: 'user pseudonymize',
  positionals: ['EMAIL'],
  options: [
    { name: 'organization', value: 'ORG', required: true, doc: 'the organization of the calls' },
    json,
  ],
  doc: 'replace the name and address of a person, by address or ID, by a pseudonym in the recorded calls',
  async run(input, { out, ...ports }) {
    const { db } = ports.stores;
    const text = input.positionals[0] ?? '';
    const { id: organizationId, name } = await namedOrganization(
      input.must('organization'),
      ports.stores,
    );
    const account = await findUserByEmail(db, text);
    const callers = text.includes('@')
      ? await findCallers(db, organizationId, emailKey(text))
      : [text];
    const ids = new Set([...(account ? [account.id] : []), ...callers]);
    if (ids.size === 0) {
      throw new CommandError(
        `no person has the address ${text}, and no recorded call of ${name} carries it`,
        'enter the ID of the person, which call show prints',
      );
    }
    for (const personId of ids) {
      const made = await administer(
        personPseudonymize,
        { organization: name, userId: personId },
        ports,
      );
      const request = { organizationId, personId, ...made, rounds: 0 };
      const calls = await replacePerson(db, request);
      const facts = { pseudonym: pseudonymName(made), organization: name, calls };
      printMade(facts, { json: input.flag('json'), out });
    }
  },
};
