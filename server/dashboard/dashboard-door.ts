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
import type { OrganizationSettingsStore } from '#organizations/organization-settings';
import type { DashboardSection } from '#pages/dashboard-frame';
import { PeopleRefusal } from '#people/people-refusal';
import type { Role } from '#people/role';
import type { UserStore } from '#people/user';

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
}

export interface DashboardDoorOptions {
  readonly base: string;
  readonly ports: CurrentPersonPorts & {
    readonly users: Pick<UserStore, 'byId' | 'memberships'>;
    readonly settings: Pick<OrganizationSettingsStore, 'of'>;
    readonly refusals: RefusalLog;
  };
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
  const { users, settings, refusals } = ports;
  const currentPerson = currentPersonOf(base, ports);

  const enter = async (
    person: CurrentPerson,
    { permission, section }: PageNeeds,
    request: DashboardRequest,
  ): Promise<DashboardVisit> => {
    const { organization = '' } = request.params;
    const memberships = await users.memberships(person.user.id);
    const role = memberships.find((membership) => membership.organization === organization)?.role;
    if (!role) throw notFound('organization');
    const rules = await settings.of(organization);
    if (rules?.secondFactorRequired && person.session.factors < 2) {
      throw new PeopleRefusal('second_factor');
    }
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
    const others = memberships.map((membership) => membership.organization);
    return {
      person,
      organization,
      role,
      section,
      others: others.filter((name) => name !== organization).toSorted(),
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

  return {
    get(path, needs, show) {
      app.get<{ Params: Params }>(`/dashboard/:organization${path}`, async (request, reply) => {
        const person = await signedIn(request, reply, currentPerson);
        if (!person) return reply;
        return show(await enter(person, needs, request), request, reply);
      });
    },
    post(path, needs, decide) {
      app.post<{ Params: Params }>(`/dashboard/:organization${path}`, async (request, reply) => {
        const person = await signedIn(request, reply, currentPerson);
        if (!person) return reply;
        const form = readPageForm(request, base, person);
        return decide(await enter(person, needs, request), form, request, reply);
      });
    },
  };
}
