import { announceLeaver } from '#accounts/leaving';
import type { AuditAction } from '#audit/sentences';
import { findUser } from '#db/people';
import {
  countScimUsers,
  deleteScimUser,
  findScimUser,
  insertScimUser,
  listScimUsers,
  mostScimUsers,
  type ScimUser,
  type ScimUserFacts,
  type ScimUserHint,
  type ScimUserResult,
  updateScimUser,
} from '#db/scim-users';
import type { Db } from '#db/transaction';
import { isEmail } from '#model/email';
import { newUserId, randomBase62 } from '#secrets/secrets';
import { isObject } from 'latchkey-mcp/json-value';
import {
  changing,
  dateTime,
  type Endpoints,
  type Members,
  noteChange,
  ownsAddress,
  type ScimPorts,
  type ScimRequest,
} from './context.ts';
import { requiredTexts, type Filter } from './filter.ts';
import { listResponse, projected, type Resource, scan } from './listing.ts';
import { applyOperations, memberOf, readOperations } from './patch.ts';
import { schemaIds, userKind } from './schemas.ts';
import { badRequest, conflict, ScimError } from './scim-error.ts';

/* `/Users`: people as the directory describes them. */

const mostEmails = 20;
const mostCharacters = 320;
const mostAttempts = 3;
const nameParts = [
  'formatted',
  'familyName',
  'givenName',
  'middleName',
  'honorificPrefix',
  'honorificSuffix',
] as const;

function userResource(user: ScimUser, { location }: Pick<ScimRequest, 'location'>): Resource {
  return {
    schemas: [schemaIds.user],
    id: user.id,
    ...(user.externalId !== undefined && { externalId: user.externalId }),
    userName: user.userName,
    ...user.attributes,
    active: user.active,
    meta: {
      resourceType: 'User',
      created: dateTime(user.createdAt),
      lastModified: dateTime(user.changedAt),
      location: location(`/Users/${user.id}`),
    },
  };
}

/** Reads a user that a directory sent. Without `active` in the body, its state stays `present`. @throws {ScimError} 400 `invalidValue` */
export function readUser(body: Members, present = true): ScimUserFacts {
  const userName = textOf(body, 'userName');
  if (userName === undefined) throw badRequest('invalidValue', 'userName is missing');
  const displayName = textOf(body, 'displayName');
  const title = textOf(body, 'title');
  const name = nameOf(memberOf(body, 'name'));
  const emails = emailsOf(memberOf(body, 'emails'));
  const active = truthOf(memberOf(body, 'active'), 'active') ?? present;
  const primary = emails.filter((one) => one.primary === true);
  const addresses = [
    ...primary.map(({ value }) => value),
    userName,
    ...emails.map((one) => one.value),
  ];
  return {
    userName,
    externalId: textOf(body, 'externalId'),
    attributes: {
      ...(name && { name }),
      ...(displayName !== undefined && { displayName }),
      ...(title !== undefined && { title }),
      ...(emails.length > 0 && { emails }),
    },
    active,
    addresses: [...new Set(addresses.filter(isEmail))],
  };
}

/** A text without control characters; `undefined` if it is missing, null or empty. @throws {ScimError} 400 `invalidValue` */
export function textOf(members: Members, name: string): string | undefined {
  const value = memberOf(members, name);
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw badRequest('invalidValue', `${name} must be a string`);
  if (value.length > mostCharacters) {
    throw badRequest('invalidValue', `${name} must have at most ${mostCharacters} characters`);
  }
  if (/[\p{Cc}\p{Cs}]/u.test(value)) {
    throw badRequest('invalidValue', `${name} contains control characters`);
  }
  const text = value.trim();
  return text === '' ? undefined : text;
}

/** Reads a Boolean value, which Microsoft Entra sends as text. */
function truthOf(value: unknown, name: string): boolean | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'boolean') return value;
  const text = typeof value === 'string' ? value.toLowerCase() : undefined;
  if (text === 'true' || text === 'false') return text === 'true';
  throw badRequest('invalidValue', `${name} must be true or false`);
}

function nameOf(value: unknown): Members | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) throw badRequest('invalidValue', 'name must be an object');
  const parts = nameParts.flatMap((part) => {
    const text = textOf(value, part);
    return text === undefined ? [] : [[part, text] as const];
  });
  return parts.length > 0 ? Object.fromEntries(parts) : undefined;
}

interface Email {
  readonly value: string;
  readonly display?: string;
  readonly type?: string;
  readonly primary?: boolean;
}

function emailsOf(value: unknown): readonly Email[] {
  if (value === undefined || value === null) return [];
  const given: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (given.length > mostEmails) {
    throw badRequest('invalidValue', `emails must have at most ${mostEmails} values`);
  }
  const emails: Email[] = [];
  for (const one of given) {
    const email = typeof one === 'string' ? { value: one } : one;
    if (!isObject(email)) throw badRequest('invalidValue', 'emails must be a list of objects');
    const address = textOf(email, 'value');
    if (address === undefined) continue;
    const display = textOf(email, 'display');
    const type = textOf(email, 'type');
    const primary = truthOf(memberOf(email, 'primary'), 'primary');
    // Only the first address marked as primary stays primary. RFC 7643 §2.4
    const isPrimary = primary === true && !emails.some((other) => other.primary === true);
    emails.push({
      value: address,
      ...(display !== undefined && { display }),
      ...(type !== undefined && { type }),
      ...(primary !== undefined && { primary: isPrimary }),
    });
  }
  return emails;
}

/** Finds a user of the organization. @throws {ScimError} 404 */
async function ownUser(id: string, { tenant }: ScimRequest, db: Db): Promise<ScimUser> {
  const user = await findScimUser(db, tenant.organizationId, id);
  if (user) return user;
  throw new ScimError(404, 'there is no such user');
}

export const getUser: Endpoints['get'] = async (id, projection, request, { db }) => {
  return projected(userResource(await ownUser(id, request, db), request), projection);
};

export const listUsers: Endpoints['list'] = async (query, request, { db }) => {
  const { organizationId } = request.tenant;
  const { filter, startIndex, count, projection } = query;
  const show = (users: readonly ScimUser[]) =>
    users.map((user) => projected(userResource(user, request), projection));
  if (!filter) {
    const { all: total } = await countScimUsers(db, organizationId);
    const page = { offset: startIndex - 1, limit: count };
    const users = count === 0 ? [] : await listScimUsers(db, organizationId, page);
    return listResponse(show(users), { total, startIndex });
  }
  const hint = hintOf(filter);
  const { items, total } = await scan({ ...query, filter }, userKind, {
    read: (page) => listScimUsers(db, organizationId, { ...page, hint }),
    show: async (users) => users.map((user) => userResource(user, request)),
  });
  return listResponse(show(items), { total, startIndex });
};

/** The hint by which the database narrows a list. The entries that it finds still have to be compared with the filter. */
function hintOf(filter: Filter): ScimUserHint {
  const required = new Map(requiredTexts(filter).map(({ path, value }) => [path, value]));
  const id = required.get('id');
  const userName = required.get('username');
  const externalId = required.get('externalid');
  // The longest text narrows the list most; the type of an address hardly narrows it.
  const [other] = [...required]
    .filter(([path, value]) => isInAttributes(path) && /^[\x20-\x7e]{3,}$/.test(value))
    .toSorted(([, one], [, two]) => two.length - one.length);
  return {
    ...(id !== undefined && { id }),
    ...(userName !== undefined && { userName }),
    ...(externalId !== undefined && { externalId }),
    ...(other && { text: JSON.stringify(other[1]).slice(1, -1) }),
  };
}

const isInAttributes = (path: string) => /^(?:emails|name|displayname|title)(?:\.|$)/.test(path);

export const createUser: Endpoints['create'] = async (body, request, ports) => {
  const facts = readUser(body);
  const entry = {
    ...facts,
    id: `su_${randomBase62(16)}`,
    organizationId: request.tenant.organizationId,
  };
  const context = await contextOf(facts, request, ports);
  return changing(request, ports, async (tx) => {
    const made = await insertScimUser(tx, entry, context);
    const user = await noteUser(tx, made, 'scim.create-user', request, context.now);
    return userResource(user, request);
  });
};

/** `PUT /Users/{id}`: replaces everything. If the directory omits `active`, the user keeps its state. */
export const replaceUser: Endpoints['replace'] = async (id, body, request, ports) => {
  return changeUser(id, (user) => readUser(body, user.active), request, ports);
};

export const patchUser: Endpoints['patch'] = async (id, body, request, ports) => {
  const operations = readOperations(body, userKind);
  return changeUser(
    id,
    (user) => readUser(applyOperations(userResource(user, request), operations), user.active),
    request,
    ports,
  );
};

/**
 * Changes a user. The domain of the user's address is looked up outside the transaction. If another request changes the user meanwhile, so
 * that the domain of another address has to be looked up, this function starts again.
 */
async function changeUser(
  id: string,
  change: (user: ScimUser) => ScimUserFacts,
  request: ScimRequest,
  ports: ScimPorts,
): Promise<Resource> {
  for (let attempt = 1; attempt <= mostAttempts; attempt += 1) {
    const facts = change(await ownUser(id, request, ports.db));
    const context = await contextOf(facts, request, ports);
    const checked = addressToProve(facts);
    const changed = await changeChecked(id, { change, checked, context }, request, ports);
    if (changed) return changed;
  }
  throw new ScimError(409, 'the user is being changed by other requests: try again');
}

/** @returns `undefined`, without any change, if the address is not the one that was checked */
async function changeChecked(
  id: string,
  {
    change,
    checked,
    context,
  }: {
    change: (user: ScimUser) => ScimUserFacts;
    checked: string | undefined;
    context: Awaited<ReturnType<typeof contextOf>>;
  },
  request: ScimRequest,
  ports: ScimPorts,
): Promise<Resource | undefined> {
  const { organizationId } = request.tenant;
  return changing(request, ports, async (tx) => {
    // Read the user again: another request may have changed it since.
    const present = await ownUser(id, request, tx);
    const facts = change(present);
    if (addressToProve(facts) !== checked) return undefined;
    if (isAsBefore(present, facts)) return userResource(present, request);
    const changed = await updateScimUser(tx, { ...facts, id, organizationId }, context);
    const user = await noteUser(tx, changed, 'scim.update-user', request, context.now);
    return userResource(user, request);
  });
}

/** Whether a change changes nothing: directories repeat their changes. An active user without a person is changed, to find a person for it. */
function isAsBefore(user: ScimUser, facts: ScimUserFacts): boolean {
  const said = ({ userName, externalId, attributes, active }: ScimUser | ScimUserFacts) =>
    JSON.stringify([userName, externalId, active, sorted(attributes)]);
  return (user.userId !== undefined || !facts.active) && said(user) === said(facts);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([name, member]) => [name, sorted(member)] as const);
  return entries.toSorted(([one], [other]) => (one < other ? -1 : 1));
}

export const removeUser: Endpoints['remove'] = async (id, request, ports) => {
  const { organizationId } = request.tenant;
  await changing(request, ports, async (tx) => {
    const now = ports.clock.now();
    const deleted = await deleteScimUser(tx, { id, organizationId }, now);
    await noteUser(tx, deleted, 'scim.delete-user', request, now);
  });
};

async function contextOf(facts: ScimUserFacts, { tenant }: ScimRequest, ports: ScimPorts) {
  const address = addressToProve(facts);
  const provenAddress = (await ownsAddress(address, tenant, ports)) ? address : undefined;
  return { now: ports.clock.now(), provenAddress, newUserId: newUserId() };
}

/** The address with which an account may be created. */
function addressToProve({ active, addresses }: ScimUserFacts): string | undefined {
  return active ? addresses[0] : undefined;
}

/** Records a change and what it did to the membership. @throws {ScimError} 404, 409 */
async function noteUser(
  tx: Db,
  result: ScimUserResult,
  action: AuditAction,
  request: ScimRequest,
  at: number,
): Promise<ScimUser> {
  switch (result.outcome) {
    case 'unknown':
      throw new ScimError(404, 'there is no such user');
    case 'taken':
      throw conflict(
        'uniqueness',
        'another user has this userName or is linked to the member with this address',
      );
    case 'full':
      throw conflict(
        'tooMany',
        `at most ${mostScimUsers} users are accepted in one organization: delete those that are not needed any more`,
      );
    case 'last-owner':
      throw conflict(
        'mutability',
        'the last owner of the organization cannot be deactivated: make another person an owner in Latchkey first',
      );
    case 'done': {
      const { user, effect } = result;
      const target = user.userId === undefined ? `scim:${user.id}` : `user:${user.userId}`;
      await noteChange(tx, request, { action, target, at });
      if (effect === 'kept') return user;
      const state = effect === 'began' ? 'scim.activate-user' : 'scim.deactivate-user';
      await noteChange(tx, request, { action: state, target, at });
      const { organizationId: id, organization: name } = request.tenant;
      if (effect === 'ended' && user.userId !== undefined) {
        const leaver = await findUser(tx, user.userId);
        if (leaver) await announceLeaver(tx, { id, name }, leaver, at, request);
      }
      return user;
    }
  }
}
