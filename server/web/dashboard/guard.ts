import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { AccountRefusal } from '#accounts/account-refusal';
import type { Role } from '#model/roles';
import { type Actor, mayDo, type Operation, perform, type Permission } from '#admin/operation';
import { AdministrationRefusal, notFound } from '#admin/refusal';
import { listMemberships, type Membership as MembershipRecord } from '#db/people';
import { findServerTitles } from '#db/servers';
import { findSettings } from '#db/settings';
import type { Db } from '#db/transaction';
import type { Form } from '#oauth/forms';
import type { DashboardSection } from '#web/layout';
import type { Titled } from '#web/titles';
import {
  type CurrentPerson,
  type Handler,
  type PageRequest,
  type PersonForm,
  type PersonGuard,
  type PersonPage,
  visitOf,
} from '#web/page-session';
import type { DashboardOptions } from './ports.ts';

/** The person, organization and role behind a request, as checked a moment ago. */
export interface DashboardVisit {
  readonly person: CurrentPerson;
  readonly organization: string;
  /** The organization with its title. */
  readonly titled: Titled;
  /** The server in the path of the page with its title; only the name if there is no such server, or no such part. */
  readonly server: Titled;
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
  readonly section: DashboardSection;
  /** Whether the page should offer an action; `perform` checks again. */
  readonly may: (permission: Permission) => boolean;
}

/** The permission that a page requires, and its place in the navigation. */
export interface PageNeeds {
  readonly permission: Permission;
  readonly section: DashboardSection;
}

export type DashboardRequest = PageRequest;

/** Shows a page. */
export type PageHandler = Handler<[visit: DashboardVisit], DashboardOptions>;

/** Carries out a form that one of our pages sent to this person. */
export type FormHandler = Handler<[visit: DashboardVisit, form: Form], DashboardOptions>;

/** As `PageHandler` and `FormHandler`, for pages of a person outside of any organization. */
export type PersonPageHandler = PersonPage<DashboardOptions>;
export type PersonFormHandler = PersonForm<DashboardOptions>;

/** Guards the pages of an organization: every route goes through here. `path` follows `/dashboard/:organization`. */
export interface DashboardGuard {
  get(path: string, needs: PageNeeds, show: PageHandler): void;
  post(path: string, needs: PageNeeds, act: FormHandler): void;
  /** The navigation entry of a route. */
  readonly sectionOf: (route: string) => DashboardSection | undefined;
}

/**
 * Guards the pages of an organization with these checks in this order: the person is signed in, otherwise redirect to
 * the sign-in page; a form was sent by our page; the person is a member, since for others the organization does not
 * exist; and the role has the permission that the page requires.
 */
export function dashboardGuard(
  guard: PersonGuard<DashboardOptions>,
  { ports }: DashboardOptions,
): DashboardGuard {
  const { refusals } = ports;
  const sections = new Map<string, DashboardSection>();

  const enter = async (
    person: CurrentPerson,
    { permission, section }: PageNeeds,
    request: DashboardRequest,
  ): Promise<DashboardVisit> => {
    const { organization = '' } = request.params;
    const membership = await membershipOf(person, organization, ports);
    if (!membership) throw notFound('organization');
    if (!membership.isProved) throw new AccountRefusal('second_factor');
    const { titled, role, others, mayCreate } = membership;
    const { address, requestId } = visitOf(request);
    if (!mayDo(role, permission)) {
      const actor = `user:${person.user.id}`;
      const target = request.routeOptions.url;
      const where = { organization, target, address, requestId };
      await refusals.note({ actor, action: permission, ...where });
      throw new AdministrationRefusal(
        'forbidden',
        `your role in ${organization} (${role}) does not allow this`,
      );
    }
    const actor = personActor(person, request);
    const { server = '' } = request.params;
    const titles =
      server === '' ? undefined : await findServerTitles(ports.db, organization, [server]);
    return {
      person,
      organization,
      titled,
      server: { name: server, title: titles?.get(server) },
      role,
      section,
      others,
      mayCreate,
      actor,
      perform: (operation, input) => perform(operation, { ...input, organization }, actor, ports),
      may: (wanted) => mayDo(role, wanted),
    };
  };

  const routeOf = (path: string, { section }: PageNeeds) => {
    const route = `/dashboard/:organization${path}`;
    sections.set(route, section);
    return route;
  };

  return {
    get(path, needs, show) {
      guard.get(routeOf(path, needs), async (person, request, reply, options) =>
        show(await enter(person, needs, request), request, reply, options),
      );
    },
    post(path, needs, act) {
      guard.post(routeOf(path, needs), async (person, form, request, reply, options) =>
        act(await enter(person, needs, request), form, request, reply, options),
      );
    },
    sectionOf: (route) => sections.get(route),
  };
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
  /** Whether the person signed in with a second factor, if the organization requires one. */
  readonly isProved: boolean;
}

export interface MembershipPorts {
  readonly db: Db;
}

/**
 * The current membership of a person in an organization. `undefined` for others, whether or not the organization
 * exists.
 */
export async function membershipOf(
  { user, session }: CurrentPerson,
  organization: string,
  { db }: MembershipPorts,
): Promise<Membership | undefined> {
  const memberships = await listMemberships(db, user.id);
  const here = memberships.find((membership) => membership.organization === organization);
  if (!here) return undefined;
  const rules = await findSettings(db, organization);
  return {
    titled: titledOf(here),
    role: here.role,
    others: memberships.filter((other) => other !== here).map(titledOf),
    mayCreate: memberships.some((membership) => membership.role === 'owner'),
    isProved: session.factors === 2 || rules?.secondFactorRequired === false,
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
export function personActor({ user, session }: CurrentPerson, request: FastifyRequest): Actor {
  const { address, requestId } = visitOf(request);
  const { id, createdAt: provedAt, factors } = session;
  const credential = { type: 'session', id } as const;
  return { type: 'person', userId: user.id, credential, provedAt, factors, address, requestId };
}
