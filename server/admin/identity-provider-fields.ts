// The fields of an identity provider that people enter: schemas, options of commands and controls of forms.
import { z } from 'zod';

import { readRoleGroup } from '#accounts/organization-providers';
import { readNamedSecret } from '#config/named-file';
import { checkAgainModes, checkIntervals } from '#model/provider-checks';
import { fields, surfaces, wholeNumber, words, yesOrNo, nameControl } from './fields.ts';

const trust = { name: 'trust', label: 'Trust' };

export const nameField = fields.name.clone().register(surfaces, {
  option: { value: 'NAME', doc: 'the name on the button, for example Acme ID' },
  control: nameControl('People see it when they sign in. Example: Acme ID'),
});
export const clientIdField = words(500)
  .min(1)
  .register(surfaces, {
    option: { value: 'ID', doc: 'the client ID of Latchkey there' },
    control: {
      kind: 'text',
      label: 'Client ID',
      subject: 'The client ID',
      help: 'Leave this and the secret empty if people do not sign in through the provider and it only gives applications access.',
      attributes: { maxlength: '500', autocomplete: 'off', spellcheck: 'false' },
    },
  });
export const secretField = z
  .string()
  .min(1)
  .max(2000)
  .regex(/^[\x20-\x7e]+$/, 'must be printable ASCII')
  .register(surfaces, {
    option: {
      name: 'client-secret-file',
      value: 'FILE',
      doc: 'a file with the client secret',
      read: readNamedSecret,
    },
    control: {
      kind: 'text',
      type: 'password',
      label: 'Client secret',
      subject: 'The client secret',
      help: 'Latchkey stores it encrypted and never shows it.',
      attributes: { maxlength: '2000', autocomplete: 'off' },
    },
  });
export const scopesField = z
  .array(
    z
      .string()
      .max(200)
      .regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'is not a scope'),
  )
  .max(20)
  .describe('Scopes to request in addition to `openid email`')
  .register(surfaces, {
    option: {
      name: 'scope',
      value: 'SCOPE',
      repeated: true,
      doc: 'a scope to request in addition to openid and email',
    },
    control: {
      kind: 'text',
      label: 'More scopes',
      subject: 'A scope',
      help: 'Requested in addition to openid and email. Some providers send groups only if a scope asks for them.',
      optional: true,
      attributes: { autocomplete: 'off', spellcheck: 'false' },
      entries: { between: 'spaces' },
    },
  });
export const groupsClaimField = words(200)
  .min(1)
  .describe('The claim that lists the groups or roles of a person')
  .register(surfaces, {
    option: {
      value: 'CLAIM',
      doc: 'the claim that lists the groups of a person (default: groups)',
    },
    control: {
      kind: 'text',
      label: 'Groups claim',
      subject: 'The groups claim',
      help: 'The claim that lists the groups or roles of a person. Map them under Groups.',
      optional: true,
      attributes: { maxlength: '200', autocomplete: 'off', spellcheck: 'false' },
    },
  });
export const emailTrustedField = z
  .boolean()
  .describe(
    'Whether addresses without `email_verified` count; never for an issuer that many organizations share',
  )
  .register(surfaces, {
    option: {
      name: 'trust-email',
      value: 'YES|NO',
      doc: 'whether to trust addresses without email_verified (default: no)',
      read: yesOrNo,
    },
    control: {
      kind: 'checkbox',
      group: trust,
      label: 'Trust addresses without email_verified',
      help: 'Only if your administrators alone can set addresses there. An address that the provider calls unverified never counts.',
    },
  });
export const twoFactorsField = z
  .boolean()
  .describe('Whether each sign-in counts as two factors, whatever the provider says')
  .register(surfaces, {
    option: {
      name: 'two-factors',
      value: 'YES|NO',
      doc: 'whether each sign-in counts as two factors (default: no)',
      read: yesOrNo,
    },
    control: {
      kind: 'checkbox',
      group: trust,
      label: 'Count each sign-in as two factors',
      help: 'Only if the provider requires a second factor of everyone. Otherwise, a sign-in counts as two factors if the provider says so (amr contains mfa).',
    },
  });
export const joiningRoleField = z
  .enum(['nobody', 'viewer', 'member', 'admin'])
  .describe('The role of people who join by signing in; `nobody`: only members sign in')
  .register(surfaces, {
    option: {
      value: 'ROLE',
      doc: 'let people with an address of a proved domain join as viewer, member or admin (default: nobody)',
    },
    control: {
      kind: 'select',
      label: 'People who are not members',
      subject: 'The role',
      chosen: 'nobody',
      help: 'Anyone with an account at the provider and an address of a proved domain.',
      choices: [
        { value: 'nobody', text: 'Cannot sign in' },
        { value: 'viewer', text: 'Join as viewer' },
        { value: 'member', text: 'Join as member' },
        { value: 'admin', text: 'Join as admin' },
      ],
    },
  });
export const joiningGroupsField = z
  .array(z.string().max(100))
  .max(100)
  .describe('The ids of the groups of people who join')
  .register(surfaces, {
    control: { kind: 'checkboxes', name: 'group', label: 'Groups of people who join', choices: [] },
  });
export const roleGroupsField = z
  .array(
    z
      .string()
      .max(300)
      .refine(
        (text) => readRoleGroup(text) !== undefined,
        'must be admin, member or viewer, then = and a group',
      ),
  )
  .max(20)
  .describe(
    'Groups at the provider that give a role, such as `admin=latchkey-admins`; never that of owners',
  )
  .register(surfaces, {
    option: {
      name: 'role-group',
      value: 'ROLE=GROUP',
      repeated: true,
      doc: 'a group at the provider that gives a role, such as admin=latchkey-admins',
    },
    control: {
      kind: 'textarea',
      label: 'Roles by group',
      subject: 'A line',
      help: 'One per line, for example admin=latchkey-admins. At each sign-in, people get the highest role of their groups. Owners stay owners.',
      optional: true,
      attributes: { spellcheck: 'false' },
      entries: { between: 'lines' },
    },
  });

export const checkAgainField = z
  .enum(checkAgainModes)
  .describe(
    'Whether people are checked again at the provider with its refresh token: `auto`, unless it announces logouts; `always`; `never`',
  )
  .register(surfaces, {
    option: {
      value: 'WHEN',
      doc: 'whether people are checked again at the provider: auto (unless it announces logouts), always or never (default: auto)',
    },
    control: {
      kind: 'select',
      label: 'People who were removed there',
      subject: 'The choice',
      chosen: 'auto',
      help: 'Latchkey asks the provider with the refresh token of the last sign-in. Allow the scope offline_access for it there.',
      choices: [
        { value: 'auto', text: 'Check, unless it announces logouts' },
        { value: 'always', text: 'Check again' },
        { value: 'never', text: 'Do not check' },
      ],
    },
  });
const { sessionCheckMinutes: minutes, grantCheckHours: hours } = checkIntervals;
export const sessionCheckField = wholeNumber(minutes.least, minutes.most)
  .describe('After how many minutes people with a session are checked again')
  .register(surfaces, {
    option: {
      value: 'MINUTES',
      doc: `after how many minutes people with a session are checked again (${minutes.least} to ${minutes.most}, default: ${minutes.usual})`,
    },
    control: {
      kind: 'text',
      label: 'Check sessions every (minutes)',
      subject: 'The number of minutes',
      help: `${minutes.least} to ${minutes.most}; ${minutes.usual} if empty.`,
      optional: 'unmarked',
      attributes: { inputmode: 'numeric', maxlength: '4', autocomplete: 'off' },
    },
  });
export const grantCheckField = wholeNumber(hours.least, hours.most)
  .describe(
    'After how many hours people without a session are checked again, while applications have access for them',
  )
  .register(surfaces, {
    option: {
      value: 'HOURS',
      doc: `after how many hours people are checked again for whom only applications have access (${hours.least} to ${hours.most}, default: ${hours.usual})`,
    },
    control: {
      kind: 'text',
      label: 'Check applications every (hours)',
      subject: 'The number of hours',
      help: `${hours.least} to ${hours.most}; ${hours.usual} if empty.`,
      optional: 'unmarked',
      attributes: { inputmode: 'numeric', maxlength: '3', autocomplete: 'off' },
    },
  });
