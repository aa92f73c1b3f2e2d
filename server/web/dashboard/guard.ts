import assert from 'node:assert/strict';
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { AccountRefusal } from '#accounts/account-refusal';
import type { Role } from '#model/roles';
import { missingProof } from '#model/sign-in-proof';
import { type Actor, mayDo, type Operation, perform, type Permission } from '#admin/operation';
import { AdministrationRefusal, notFound } from '#admin/refusal';
import { listOpenMemberships, type Membership as MembershipRecord } from '#db/people';
import { mayUseServer } from '#db/server-access';
import { findServerHeading } from '#db/servers';
import { findSettings } from '#db/settings';
import type { Db } from '#db/transaction';
import type { Form } from '#oauth/forms';
import { dashboardPath, type Tab } from '#web/layout';
import type { Titled } from '#web/titles';
import {
  type CurrentMember,
  type Handler,
  type MemberGuard,
  type MemberPage,
  type PageRequest,
  type PersonForm,
  type PersonPage,
  visitOf,
} from '#web/page-session';
import type { DashboardOptions } from './ports.ts';

/** The person, organization and role behind a request, as checked a moment ago. */
export interface DashboardVisit {
  readonly person: CurrentMember;
  readonly organization: string;
  /** The organization with its title. */
  readonly titled: Titled;
  /** The server in the path of the page; only its name if it does not exist, and an empty name if the path has none. */
  readonly server: VisitedServer;
  readonly role: Role;
  /** The other organizations of the person. */
  readonly others: readonly Titled[];
  /** Whether the person may create another organization. */
  readonly mayCreate: boolean;
  readonly actor: Actor;
  /** Performs an operation within the organization as this person. @throws {AdministrationRefusal} */
  readonly perform: <Input extends z.ZodObject, Output extends z.ZodObject>(
    operation: Operation<Input, Output>,
    input?: Readonly<Record<string, unknown>>,
  ) => Promise<z.output<Output>>;
  /** The navigation as this person sees it on this page. */
  readonly navigation: readonly Tab[];
  /** Whether the page should offer an action; `perform` checks again. */
  readonly may: (permission: Permission) => boolean;
}

/** A server as its pages introduce it to a person. */
interface VisitedServer extends Titled {
  readonly isCollection: boolean;
  /** Whether it is restricted to groups, and the person is in none of them. */
  readonly isClosed: boolean;
}

export type DashboardRequest = PageRequest;

export type PageHandler = Handler<[visit: DashboardVisit], DashboardOptions>;

/** Carries out a form that one of our pages sent to this person. */
export type FormHandler = Handler<[visit: DashboardVisit, form: Form], DashboardOptions>;

/** As `PageHandler`, for pages outside of any organization that every signed-in person may open. */
export type MemberPageHandler = MemberPage<DashboardOptions>;

/** As `PageHandler` and `FormHandler`, for pages of a person outside of any organization. */
export type PersonPageHandler = PersonPage<DashboardOptions>;
export type PersonFormHandler = PersonForm<DashboardOptions>;

/**
 * Guards the pages of an organization: every route goes through here. `path` follows `/dashboard/:organization`, and
 * `needs` is the permission that the page or the form requires.
 */
export interface DashboardGuard {
  get(path: string, needs: Permission, show: PageHandler): void;
  post(path: string, needs: Permission, act: FormHandler): void;
}

/** An entry of the navigation, with the routes of the pages that belong to it. */
export interface NavigationEntry {
  readonly text: string;
  /** The page that the entry links to; one of `routes`. It follows `/dashboard/:organization`. */
  readonly path: string;
  readonly routes: readonly ((guard: DashboardGuard, options: DashboardOptions) => void)[];
}

/** The navigation on the page of a route, without the entries whose page `role` may not open. */
export type NavigationOf = (
  route: string | undefined,
  organization: string,
  role: Role,
) => readonly Tab[];

interface DashboardGuards {
  /** Returns the guard of the pages of a navigation entry, or of pages without an entry. */
  readonly within: (entry: NavigationEntry | undefined) => DashboardGuard;
  readonly navigationOf: NavigationOf;
}

/**
 * Guards the pages of an organization with these checks in this order: the person is signed in, otherwise redirect to
 * the sign-in page; a form was sent by our page; the person is a member, since for others the organization does not
 * exist; and the role has the permission that the page requires.
 */
export function dashboardGuards(
  guard: MemberGuard<DashboardOptions>,
  navigation: readonly NavigationEntry[],
  { ports }: DashboardOptions,
): DashboardGuards {
  const entries = new Map<string, NavigationEntry | undefined>();
  const permissions = new Map<string, Permission>();

  const navigationOf: NavigationOf = (route = '', organization, role) => {
    const here = entries.get(route);
    return navigation.flatMap((entry) => {
      const { text, path } = entry;
      const needs = permissions.get(path);
      assert(needs, `no page for the entry ${text} of the navigation`);
      if (!mayDo(role, needs)) return [];
      return { text, href: dashboardPath(organization) + path, isHere: entry === here };
    });
  };

  const visitAs = (person: CurrentMember, needs: Permission, request: DashboardRequest) =>
    enter(person, needs, request, { ports, navigationOf });

  const within = (entry: NavigationEntry | undefined): DashboardGuard => {
    const routeOf = (path: string) => {
      const route = `/dashboard/:organization${path}`;
      entries.set(route, entry);
      return route;
    };
    return {
      get(path, needs, show) {
        permissions.set(path, needs);
        guard.get(routeOf(path), async (person, request, reply, options) =>
          show(await visitAs(person, needs, request), request, reply, options),
        );
      },
      post(path, needs, act) {
        guard.post(routeOf(path), async (person, form, request, reply, options) =>
          act(await visitAs(person, needs, request), form, request, reply, options),
        );
      },
    };
  };

  return { within, navigationOf };
}

/** @throws {AccountRefusal | AdministrationRefusal} */
async function enter(
  person: CurrentMember,
  needs: Permission,
  request: DashboardRequest,
  { ports, navigationOf }: Pick<DashboardOptions, 'ports'> & Pick<DashboardGuards, 'navigationOf'>,
): Promise<DashboardVisit> {
  const { organization = '' } = request.params;
  const membership = await membershipOf(person, organization, ports);
  if (!membership) throw notFound('organization');
  if (membership.missing === 'single-sign-on') throw new AccountRefusal('single_sign_on');
  if (membership.missing) throw new AccountRefusal('second_factor');
  const { titled, role, others, mayCreate } = membership;
  const { address, requestId } = visitOf(request);
  if (!mayDo(role, needs)) {
    const actor = `user:${person.user.id}`;
    const target = request.routeOptions.url;
    const where = { organization, target, address, requestId };
    await ports.refusals.note({ actor, action: needs, ...where });
    throw new AdministrationRefusal(
      'forbidden',
      `your role in ${organization} (${role}) does not allow this`,
    );
  }
  const actor = personActor(person, request);
  return {
    person,
    organization,
    titled,
    server: await serverFor(person, organization, request, ports),
    role,
    others,
    mayCreate,
    navigation: navigationOf(request.routeOptions.url, organization, role),
    actor,
    perform: (operation, input) => perform(operation, { ...input, organization }, actor, ports),
    may: (wanted) => mayDo(role, wanted),
  };
}

async function serverFor(
  { user }: CurrentMember,
  organization: string,
  { params: { server: name = '' } }: DashboardRequest,
  { db }: MembershipPorts,
): Promise<VisitedServer> {
  const heading = name === '' ? undefined : await findServerHeading(db, organization, name);
  if (!heading) return { name, title: undefined, isCollection: false, isClosed: false };
  const isClosed = !(await mayUseServer(db, user.id, `${organization}/${name}`));
  return { name, ...heading, isClosed };
}

/** A person's membership in an organization. */
interface Membership {
  /** The organization with its title. */
  readonly titled: Titled;
  readonly role: Role;
  /** Their other organizations, by name. */
  readonly others: readonly Titled[];
  /** Whether they may create another organization. */
  readonly mayCreate: boolean;
  /** What the person still has to prove before they may enter. */
  readonly missing: ReturnType<typeof missingProof>;
}

export interface MembershipPorts {
  readonly db: Db;
}

/**
 * The current membership of a person in an organization that their session opens. `undefined` for any other organization,
 * whether or not it exists.
 */
export async function membershipOf(
  { session }: CurrentMember,
  organization: string,
  { db }: MembershipPorts,
): Promise<Membership | undefined> {
  const memberships = await listOpenMemberships(db, session);
  const here = memberships.find((membership) => membership.organization === organization);
  if (!here) return undefined;
  const rules = await findSettings(db, organization);
  return {
    titled: titledOf(here),
    role: here.role,
    others: memberships.filter((other) => other !== here).map(titledOf),
    mayCreate: !session.through && memberships.some((membership) => membership.role === 'owner'),
    missing: rules ? missingProof(session, here.role, rules) : 'second-factor',
  };
}

/** The organization of a membership, as pages show it. */
export function titledOf({
  organization,
  title,
}: Pick<MembershipRecord, 'organization' | 'title'>): Titled {
  return { name: organization, title };
}

/** The actor of a dashboard request, for `perform`. */
export function personActor({ user, session }: CurrentMember, request: FastifyRequest): Actor {
  const { address, requestId } = visitOf(request);
  const { id, createdAt: provedAt, factors, through } = session;
  const credential = { type: 'session', id } as const;
  const from = { address, requestId };
  return { type: 'person', userId: user.id, credential, provedAt, factors, through, ...from };
}
