// Commands that end a person's access. Without `--yes`, they only say what would stop working.
import { findUser, listMemberships } from '#db/people';
import { fewNames } from '#model/few-names';
import { shellWord } from '#model/shell-word';
import { administer, command, type Command } from './command.ts';
import { isLastOwner, listed, personLeaving } from './offboarding.ts';
import { memberArgument, personRemove } from './people.ts';
import { organizationIn, personArgument, type Given, type Ports } from './positionals.ts';
import { userRemove } from './users.ts';

/** Describes in phrases what ends if a person leaves an organization. */
async function endingsIn(organization: string, userId: string, ports: Ports) {
  const at = { organization, userId };
  const { person, ends, owned, suspends } = await administer(personLeaving, at, ports);
  const kept = suspends ? 'suspended until someone takes them over' : 'left without an owner';
  return {
    person,
    applications: ends.applications,
    connections: ends.connections,
    isOwner: owned.length > 0,
    phrases: [
      owned.length > 0 ? `${kept}: ${listed(owned)}` : [],
      ends.invitations > 0 ? `invitations that they made stop working: ${ends.invitations}` : [],
      ends.scimTokens > 0 ? `SCIM tokens that they created are revoked: ${ends.scimTokens}` : [],
    ].flat(),
  };
}

function withdrawn({ applications, connections }: Record<'applications' | 'connections', number>) {
  return `what they allowed to applications (${applications}) and their accounts at MCP servers (${connections})`;
}

function personIn({ userId }: Given): string {
  return typeof userId === 'string' ? userId : '';
}

export const leaveCommand: Command = command(personRemove, {
  words: 'user leave',
  positionals: [memberArgument],
  doc: 'remove a person and their consents from an organization immediately',
  prints: ['id', 'email', { organization: (_, { given }) => organizationIn(given) }, 'role'],
  async asks(given, ports) {
    const organization = organizationIn(given);
    const userId = personIn(given);
    // The operation refuses this in any case.
    if (await isLastOwner({ organization, userId }, ports)) return undefined;
    const ending = await endingsIn(organization, userId, ports);
    const { email } = ending.person;
    const of = `${shellWord(email)} --organization ${organization}`;
    const handOver = `; to hand over what they own: latchkey-server user offboard ${of} --to EMAIL`;
    return {
      stops: [
        `removing ${email} from ${organization} ends ${withdrawn(ending)}`,
        ...ending.phrases,
      ].join('; '),
      hint: `to remove them: latchkey-server user leave ${of} --yes${ending.isOwner ? handOver : ''}`,
    };
  },
});

export const removeCommand: Command = command(userRemove, {
  words: 'user remove',
  positionals: [personArgument],
  doc: 'delete the account of a person, in all organizations; this cannot be undone',
  prints: ['id', 'email', { removed_at: (_, { now }) => now }],
  async asks(given, ports) {
    const userId = personIn(given);
    const email = (await findUser(ports.stores.db, userId))?.email ?? userId;
    const names = (await listMemberships(ports.stores.db, userId)).map((one) => one.organization);
    const total = { applications: 0, connections: 0 };
    const phrases: string[] = [];
    for (const organization of names) {
      const ending = await endingsIn(organization, userId, ports);
      total.applications += ending.applications;
      total.connections += ending.connections;
      phrases.push(...ending.phrases.map((phrase) => `in ${organization}, ${phrase}`));
      if (await isLastOwner({ organization, userId }, ports))
        phrases.push(`${organization} is left without an owner`);
    }
    const ends = [
      ...(names.length > 0 ? [`its membership of ${fewNames(names)}`] : []),
      'its sessions and personal tokens',
      withdrawn(total),
    ];
    return {
      stops: [
        `removing ${email} deletes the account, and ends ${ends.join(', ')}`,
        ...phrases,
      ].join('; '),
      hint: `latchkey-server user remove ${shellWord(email)} --yes`,
    };
  },
});
