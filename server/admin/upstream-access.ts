import { z } from 'zod';
import {
  findUpstreamAccess,
  removeUpstreamAccess,
  replaceUpstreamAccess,
  updateForwardsCaller,
} from '#db/upstream-access';
import { listPersonKeys, setPersonKeyRule } from '#db/person-keys';
import { listUpstreamConnections } from '#db/upstream-connections';
import { accountPath } from '#upstreams/credentials/authorization-client';
import { headerFields, textWithout } from '#model/fixed-headers';
import { helpUrlProblem, templateProblem } from '#model/person-keys';
import { takesCredentials } from '#model/upstream-kinds';
import {
  surfaces,
  words as line,
  type FieldChoice,
  type FieldControl,
  identifier,
} from './fields.ts';
import { organizationOperation, type WithDb } from './operation.ts';
import { ofServer, ownServer, serverPath, serverTarget } from './paths.ts';
import {
  answeredAhead,
  chosenAccess,
  chosenKeyRule,
  noKeyThere,
  onlyHttp,
} from './upstream-access-choice.ts';
import { conflict } from './refusal.ts';

/** The credentials in calls to an upstream: none, one token for all callers, or a token or a key of each person. */
const accessKinds = ['none', 'client_credentials', 'authorization_code', 'person_key'] as const;

/** The view of an upstream's access: on pages, in the API and in commands. */
const accessViewSchema = z
  .object({
    server: z.string(),
    kind: z
      .enum(accessKinds)
      .describe(
        '`authorization_code`: each person with their own account; `person_key`: with a key',
      ),
    issuer: z.string().nullable(),
    clientId: z.string().nullable(),
    hasClientSecret: z.boolean(),
    scopes: z.array(z.string()),
    resource: z
      .string()
      .nullable()
      .describe('The resource that tokens are requested for. RFC 8707'),
    omitsResource: z.boolean().describe('Whether tokens are requested without a resource'),
    redirectPath: z.string().describe('The path of the redirect URI to register there'),
    connections: z.int().describe('How many people have connected an account or entered a key'),
    keyHeader: z.string().nullable().describe('The header that contains each person’s key'),
    keyTemplate: z.string().nullable().describe('Its value, where `{key}` stands for the key'),
    keyLabel: z.string().nullable().describe('What people call it'),
    keyHelpUrl: z.string().nullable().describe('Where people get one'),
    keyTool: z.string().nullable().describe('The tool with which a key is tried'),
    forwardsCaller: z
      .boolean()
      .describe('Whether calls contain a signed assertion of the caller’s identity'),
  })
  .meta({ id: 'UpstreamAccess' });

/** `null` for values that the upstream or its authorization server does not have. */
export type AccessView = z.output<typeof accessViewSchema>;

/** Finds the access of a server's upstream. @throws {AdministrationRefusal} `not_found` */
async function toAccessView(
  organization: string,
  name: string,
  ports: WithDb,
): Promise<AccessView> {
  const { target } = await ownServer(organization, name, ports);
  const { id: targetId, upstream, personKey } = target;
  const { accessId, forwardsCaller } = takesCredentials(upstream)
    ? upstream
    : { accessId: undefined, forwardsCaller: undefined };
  const access = accessId === undefined ? undefined : await findUpstreamAccess(ports.db, accessId);
  const accounts = access ? await listUpstreamConnections(ports.db, access.id) : [];
  const keys = personKey ? await listPersonKeys(ports.db, targetId) : [];
  return {
    server: name,
    kind: personKey ? 'person_key' : (access?.kind ?? 'none'),
    issuer: access?.metadata.issuer ?? null,
    clientId: access?.clientId ?? null,
    hasClientSecret: access?.sealedClientSecret !== undefined,
    scopes: [...(access?.scopes ?? [])],
    resource: access?.resource ?? null,
    omitsResource: access !== undefined && access.resource === undefined,
    redirectPath: `${accountPath({ organization, name })}/callback`,
    connections: accounts.length + keys.length,
    keyHeader: personKey?.header ?? null,
    keyTemplate: personKey?.template ?? null,
    keyLabel: personKey?.label ?? null,
    keyHelpUrl: personKey?.helpUrl ?? null,
    keyTool: personKey?.tool ?? null,
    forwardsCaller: forwardsCaller === true,
  };
}

const path = `${serverPath}/upstream-access`;
// RFC 6749 Appendix A.1, A.2, A.4
const visible = (most: number) =>
  z
    .string()
    .max(most)
    .regex(/^[\x20-\x7e]*$/, 'may contain only printable ASCII characters');
const scope = z
  .string()
  .max(200)
  .regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, 'must not contain spaces or quotes');

/** For the fields about our OAuth client at the authorization server, which the form has only for these kinds. */
const withToken: NonNullable<FieldControl['when']> = {
  choice: 'kind',
  is: ['client_credentials', 'authorization_code'],
  part: 'access',
};

/** For the fields about each person's key. */
const withKey: NonNullable<FieldControl['when']> = {
  choice: 'kind',
  is: ['person_key'],
  part: 'key',
};

/** The kinds of authentication that forms offer for an upstream. */
export const accessKindChoices: readonly FieldChoice[] = [
  {
    value: 'none',
    text: 'No token',
    help: 'Use this for an upstream that is open or that needs only the fixed headers below.',
  },
  {
    value: 'client_credentials',
    text: 'One token for all callers',
    help: 'Latchkey requests a token with its own client ID and secret. The upstream cannot tell people apart.',
  },
  {
    value: 'authorization_code',
    text: 'Each person’s own account',
    help: 'Each person connects an account once, and only their own calls use it. API keys and applications without a person cannot call this server.',
  },
  {
    value: 'person_key',
    text: 'Each person’s own key',
    help: 'Each person enters a key of their own once, and only their own calls use it. API keys and applications without a person cannot call this server.',
  },
];

export const accessRead = organizationOperation({
  name: 'server.read-access',
  doc: 'Read the upstream authentication of a server',
  route: { method: 'GET', path },
  permission: 'server.manage',
  input: z.strictObject(ofServer),
  output: accessViewSchema,
  run: async ({ server }, { organization }, ports) =>
    toAccessView(organization.name, server, ports),
});

export const accessSet = organizationOperation({
  name: 'server.set-access',
  doc: 'Set the upstream authentication of a server: no token, one token for all callers, or a token for each person',
  route: { method: 'PATCH', path },
  permission: 'server.manage',
  input: z.strictObject({
    ...ofServer,
    kind: z.enum(accessKinds).register(surfaces, {
      control: {
        kind: 'radio',
        label: 'Upstream authentication',
        subject: 'The upstream authentication',
        choices: accessKindChoices,
      },
    }),
    issuer: z
      .string()
      .max(2000)
      .optional()
      .describe('Discovered if omitted')
      .register(surfaces, {
        control: {
          kind: 'text',
          type: 'url',
          label: 'Authorization server',
          subject: 'The authorization server',
          help: 'The issuer URL. Leave it empty to use the one that the MCP server announces.',
          attributes: identifier,
          when: withToken,
        },
      }),
    clientId: visible(500)
      .optional()
      .describe(
        'Omit it to keep the current one; for people’s accounts, Latchkey registers a client if there is none',
      )
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Client ID',
          subject: 'The client ID',
          help: 'From the authorization server. For people’s accounts, leave it empty to register a client automatically.',
          optional: 'unmarked',
          attributes: { ...identifier, maxlength: '500' },
          when: withToken,
        },
      }),
    clientSecret: visible(2000)
      .optional()
      .describe('Omit it to keep the current one')
      .register(surfaces, {
        control: {
          kind: 'text',
          type: 'password',
          label: 'Client secret',
          subject: 'The client secret',
          help: 'Stored encrypted. You won’t see it again.',
          attributes: { autocomplete: 'off', spellcheck: 'false', maxlength: '2000' },
          when: withToken,
        },
      }),
    scopes: z
      .array(scope)
      .max(100)
      .optional()
      .describe('Those that the upstream announces if omitted')
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Scopes',
          subject: 'A scope',
          help: 'Separated by spaces. Leave it empty to use the scopes that the MCP server announces.',
          attributes: identifier,
          entries: { between: 'spaces' },
          when: withToken,
        },
      }),
    omitsResource: z
      .boolean()
      .optional()
      .describe(
        'For an authorization server that refuses `resource`: other servers may accept its tokens',
      )
      .register(surfaces, {
        control: {
          kind: 'checkbox',
          name: 'omits',
          group: { name: 'resource', label: 'Resource' },
          label: 'Request tokens without a resource',
          help: 'Only if the authorization server answers invalid_target. The tokens are then not bound to this MCP server, which could use them at other servers.',
          when: withToken,
        },
      }),
    keyLabel: line(60)
      .optional()
      .describe('What people call the key')
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Name of the key',
          subject: 'The name of the key',
          help: 'As people know it, for example Personal access token.',
          optional: 'unmarked',
          attributes: { autocomplete: 'off', maxlength: '60' },
          when: withKey,
        },
      }),
    keyHelpUrl: textWithout(
      (text) => (text === '' ? undefined : helpUrlProblem(text)),
      z.string().max(2000),
    )
      .optional()
      .describe('An https URL where people get a key; empty for none')
      .register(surfaces, {
        control: {
          kind: 'text',
          type: 'url',
          label: 'Where people get it',
          subject: 'The link',
          help: 'An https URL, shown to people as a link.',
          attributes: identifier,
          when: withKey,
        },
      }),
    keyHeader: headerFields.name
      .clone()
      .optional()
      .describe('The header that contains the key. Default: authorization')
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Header of the key',
          subject: 'The header',
          help: 'The header that the MCP server reads. Leave it empty for Authorization.',
          optional: 'unmarked',
          attributes: { ...identifier, maxlength: '100' },
          when: withKey,
        },
      }),
    keyTemplate: textWithout(templateProblem)
      .optional()
      .describe('The value of the header, with `{key}` once in it')
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Value of the header',
          subject: 'The value of the header',
          help: '{key} stands for the key. Leave it empty for Bearer {key} in Authorization, and {key} in any other header.',
          optional: 'unmarked',
          attributes: { ...identifier, maxlength: '200' },
          when: withKey,
        },
      }),
    keyTool: line(200)
      .optional()
      .describe(
        'A tool that only reads and needs no arguments, with which a key is tried; empty for none',
      )
      .register(surfaces, {
        control: {
          kind: 'text',
          label: 'Tool to try a key with',
          subject: 'The tool',
          help: 'A tool that only reads and needs no arguments. Without it, Latchkey lists the tools, which many servers allow with any key.',
          attributes: { ...identifier, maxlength: '200' },
          when: withKey,
        },
      }),
    forwardsCaller: z
      .boolean()
      .optional()
      .describe('Omit it to keep the current setting')
      .register(surfaces, {
        control: {
          kind: 'checkbox',
          name: 'tells',
          group: { name: 'caller', label: 'Caller identity' },
          label: 'Forward caller identity',
        },
      }),
  }),
  output: accessViewSchema,
  target: serverTarget,
  async ahead(input, { organization, actor }, ports) {
    const { kind } = input;
    const { upstreamSetup } = ports;
    const server = await ownServer(organization.name, input.server, ports);
    const needsNoToken = kind === 'none' || kind === 'person_key';
    if (needsNoToken || !takesCredentials(server.target.upstream)) return { upstreamSetup };
    return { upstreamSetup: await answeredAhead({ ...input, kind }, { server, actor }, ports) };
  },
  async run(input, { organization, actor }, ports) {
    const server = await ownServer(organization.name, input.server, ports);
    const { kind, forwardsCaller } = input;
    const isHttp = takesCredentials(server.target.upstream);
    const isOfHttp = kind === 'client_credentials' || kind === 'authorization_code';
    if (!isHttp && (isOfHttp || forwardsCaller)) throw onlyHttp();
    const rule = kind === 'person_key' ? await chosenKeyRule(input, server, ports) : undefined;
    if (!(await setPersonKeyRule(ports.db, server.target.id, rule))) throw noKeyThere();
    if (!isOfHttp) {
      if (isHttp) await removeUpstreamAccess(ports.db, server.target.id);
    } else {
      const access = await chosenAccess({ ...input, kind }, { server, actor }, ports);
      if (!(await replaceUpstreamAccess(ports.db, access))) {
        throw conflict('the upstream was changed in the meantime: try again');
      }
    }
    if (isHttp && forwardsCaller !== undefined) {
      await updateForwardsCaller(ports.db, server.target.id, forwardsCaller);
    }
    return toAccessView(organization.name, input.server, ports);
  },
});
