import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import type { Actor } from '#administration/actor';
import { AdministrationRefusal, notFound } from '#administration/administration-refusal';
import { mayDo, type Permission } from '#administration/permission';
import type { RefusalLog } from '#audit/counted-refusals';
import { currentPersonOf, type CurrentPerson, type CurrentPersonPorts } from '#http/current-person';
import { readPageForm } from '#http/page-form';
import { signedIn } from '#http/signed-in';
import { visitOf } from '#http/visit';
import type { Form } from '#oauth/form';
import type { DashboardSection } from '#pages/dashboard-frame';
import { PeopleRefusal } from '#people/people-refusal';
import type { Role } from '#people/role';
import { membershipOf, type MembershipPorts } from './membership-of.ts';

/** Who looks at a page of which organization, and as what. All of it was true a moment ago. */
export interface DashboardVisit {
  readonly person: CurrentPerson;
  readonly organization: string;
  readonly role: Role;
  /** The other organizations of the person. */
  readonly others: readonly string[];
  /** For `perform`. */
  readonly actor: Actor;
  readonly section: DashboardSection;
  /** Whether the page should offer what takes `permission`; `perform` asks again. */
  readonly may: (permission: Permission) => boolean;
}

/** What a page takes, and where it stands in the navigation. */
export interface PageNeeds {
  readonly permission: Permission;
  readonly section: DashboardSection;
}

type Params = Readonly<Record<string, string>>;
/** A request for a page; `params` are the parts of its path by name. */
export type DashboardRequest = FastifyRequest<{ Params: Params }>;
type Answer = Promise<FastifyReply>;

/** The way in to the pages of an organization: every one of them is a line of this. */
export interface DashboardDoor {
  /** `path` follows `/dashboard/:organization`. */
  get(
    path: string,
    needs: PageNeeds,
    show: (visit: DashboardVisit, request: DashboardRequest, reply: FastifyReply) => Answer,
  ): void;
  /** The form is one that our page sent to this very person. */
  post(
    path: string,
    needs: PageNeeds,
    decide: (
      visit: DashboardVisit,
      form: Form,
      request: DashboardRequest,
      reply: FastifyReply,
    ) => Answer,
  ): void;
  /** The entry of the navigation that a route of these stands under. */
  readonly sectionOf: (route: string) => DashboardSection | undefined;
}

/** `base` is the public URL; forms from anywhere else are not ours. */
export interface DashboardDoorOptions {
  readonly base: string;
  readonly ports: CurrentPersonPorts & MembershipPorts & { readonly refusals: RefusalLog };
}

/**
 * Opens the pages of an organization, and only in this order: to who is signed in, else after the sign-in
 * page; with a form, if our own page sent it; to its members, for whom alone it exists; with the
 * permission that the page takes.
 */
export function dashboardDoor(
  app: FastifyInstance,
  { base, ports }: DashboardDoorOptions,
): DashboardDoor {
  const { refusals } = ports;
  const sections = new Map<string, DashboardSection>();
  const currentPerson = currentPersonOf(base, ports);

  const enter = async (
    person: CurrentPerson,
    { permission, section }: PageNeeds,
    request: DashboardRequest,
  ): Promise<DashboardVisit> => {
    const { organization = '' } = request.params;
    const membership = await membershipOf(person, organization, ports);
    if (!membership) throw notFound('organization');
    if (!membership.isProved) throw new PeopleRefusal('second_factor');
    const { role, others } = membership;
    const { address, requestId } = visitOf(request);
    if (!mayDo(role, permission)) {
      const actor = `user:${person.user.id}`;
      const target = request.routeOptions.url;
      const where = { organization, target, address, requestId };
      await refusals.note({ actor, action: permission, ...where });
      throw new AdministrationRefusal(
        'forbidden',
        `as ${role} of ${organization} you may not do this`,
      );
    }
    return {
      person,
      organization,
      role,
      section,
      others,
      actor: {
        type: 'person',
        userId: person.user.id,
        provedAt: person.session.createdAt,
        factors: person.session.factors,
        address,
        requestId,
      },
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
      app.get<{ Params: Params }>(routeOf(path, needs), async (request, reply) => {
        const person = await signedIn(request, reply, currentPerson);
        if (!person) return reply;
        return show(await enter(person, needs, request), request, reply);
      });
    },
    post(path, needs, decide) {
      app.post<{ Params: Params }>(routeOf(path, needs), async (request, reply) => {
        const person = await signedIn(request, reply, currentPerson);
        if (!person) return reply;
        const form = readPageForm(request, base, person);
        return decide(await enter(person, needs, request), form, request, reply);
      });
    },
    sectionOf: (route) => sections.get(route),
  };
}
