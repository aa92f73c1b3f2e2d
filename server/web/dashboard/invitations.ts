import { groupList } from '#admin/groups';
import { invitationCreate } from '#admin/invitations';
import { roleChoices } from '#admin/people';
import { html, type Html } from '#web/html';
import { dashboardPath, layout, pageHeading, type Frame } from '#web/layout';
import { secretPanel, type OneTimeSecret } from '#web/one-time-secret';
import { formRoutes, type FormRoutes } from './form-routes.ts';
import { formFor } from './forms.ts';
import type { DashboardGuard } from './guard.ts';
import { sendDashboardPage } from './page.ts';

const needs = 'people.manage';

/** `/people/invite`: creates a one-time link and shows it once. */
export function invitationRoutes(guard: DashboardGuard): void {
  formRoutes(guard, '/people/invite', needs, newInvitation);
}

const homeOf = (organization: string) => `${dashboardPath(organization)}/people`;

const newInvitation: FormRoutes = {
  form: formFor(invitationCreate, ['note']),
  async page({ organization, perform, may }, _request) {
    const home = homeOf(organization);
    const { items } = await perform(groupList);
    const groups = items.map(({ id, name }) => ({ value: id, text: name }));
    return {
      heading: 'Invite a person',
      lead: 'Creates a link that works once and expires after seven days. Latchkey does not send e-mail; send the link yourself.',
      refused: 'Not invited yet',
      verb: 'Create link',
      cancel: home,
      crumbs: [{ text: 'People', href: home }, { text: 'Invite a person' }],
      shownFields: {
        here: {
          role: { choices: roleChoices(may('owners.manage')) },
          group: { choices: groups },
        },
      },
    };
  },
  async act(visit, entered, _request, reply, { base }) {
    const { organization } = visit;
    const made = await visit.perform(invitationCreate, entered);
    const secret = {
      label: 'Invitation link',
      secret: base + made.path,
      beside: [],
      keep: 'Send the link to the person, or keep it until you do.',
      done: homeOf(organization),
    };
    const crumbs = [{ text: 'People', href: secret.done }, { text: 'Invitation link' }];
    return sendDashboardPage(reply, visit, invitedPage, { secret }, { crumbs });
  },
};

/** Shows the link of an invitation once. */
function invitedPage({ secret }: { readonly secret: OneTimeSecret }, frame: Frame): Html {
  const lead =
    'Send this link to the person in a private message. It works once and expires after seven days.';
  const content = html`${pageHeading({ heading: 'Invitation link', lead })}
${secretPanel(secret)}`;
  return layout({ title: 'Invitation link', width: 'text' }, frame, content);
}
