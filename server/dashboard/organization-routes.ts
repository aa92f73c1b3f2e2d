import type { FastifyInstance, FastifyReply } from 'fastify';

import { organizationCreate } from '#administration/organization-operations';
import { perform } from '#administration/perform';
import { currentPersonOf, type CurrentPerson } from '#http/current-person';
import { readPageForm } from '#http/page-form';
import { seeOther } from '#http/see-other';
import { sendPage } from '#http/send-page';
import { signedIn } from '#http/signed-in';
import { dashboardPath } from '#pages/dashboard-frame';
import type { FieldError } from '#pages/page';
import type { DashboardOptions } from './dashboard-ports.ts';
import { dashboardScripts } from './dashboard-scripts.ts';
import { organizationFormPage } from './organization-form-page.ts';
import { organizationsPage } from './organizations-page.ts';
import { personActor } from './person-actor.ts';
import { refusedForm } from './refused-form.ts';

const labels = {
  name: { field: 'name', label: 'The name' },
  title: { field: 'title', label: 'The title' },
};

/** `/dashboard`, which leads to the person's organization, `/organizations`, and making one. */
export function organizationRoutes(app: FastifyInstance, { base, ports }: DashboardOptions): void {
  const { users, clock } = ports;
  const currentPerson = currentPersonOf(base, ports);

  app.get('/dashboard', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    const [first] = await users.memberships(person.user.id);
    return seeOther(reply, first ? dashboardPath(first.organization) : '/organizations');
  });

  app.get('/organizations', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    const memberships = await users.memberships(person.user.id);
    const rows = memberships.map(({ organization, role }) => ({
      id: organization,
      cells: [
        { kind: 'name', text: organization, href: dashboardPath(organization) },
        { kind: 'text', text: role },
      ] as const,
    }));
    const empty = {
      text: 'You belong to no organization. Ask an owner of one to invite you, with the e-mail address of your account.',
      action: { text: 'Your account', href: '/account' },
    };
    const columns = [{ text: 'Name' }, { text: 'Your role' }];
    const table = { caption: 'Organizations', columns, rows, empty, now: clock.now() };
    const mayCreate = memberships.some(({ role }) => role === 'owner');
    return sendPage(reply, organizationsPage, { table, mayCreate }, { person });
  });

  const form = (
    reply: FastifyReply,
    person: CurrentPerson,
    typed: { name: string; title: string },
    errors: FieldError[],
  ) => {
    const status = errors.length > 0 ? 422 : 200;
    const scripts = dashboardScripts();
    return sendPage(reply, organizationFormPage, { typed, errors }, { person, status, scripts });
  };

  app.get('/new-organization', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    return form(reply, person, { name: '', title: '' }, []);
  });

  app.post('/new-organization', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    const sent = readPageForm(request, base, person);
    const typed = { name: sent.get('name')?.trim() ?? '', title: sent.get('title') ?? '' };
    try {
      const { name } = await perform(
        organizationCreate,
        typed,
        personActor(person, request),
        ports,
      );
      return seeOther(reply, dashboardPath(name));
    } catch (refusal) {
      return form(reply, person, typed, refusedForm(refusal, labels, 'name'));
    }
  });
}
