import { AdministrationRefusal } from '#admin/refusal';
import { findServer } from '#db/servers';
import { shellWord } from '#model/shell-word';
import { hostAndPort } from '#outbound/checked-addresses';
import type { Inspection } from '#upstreams/inspect';
import { html, type Html } from '#web/html';
import { dashboardPath, type Link } from '#web/layout';
import { copyable, type Fact, factList } from '#web/tables';
import type { DashboardVisit } from './guard.ts';
import type { DashboardPorts } from './ports.ts';

/** The result of a connection test, as pages show it. */
export interface ConnectionTest {
  readonly outcome: Inspection['outcome'];
  readonly heading: string;
  readonly text: string;
  readonly facts: readonly Fact[];
  /** For a private address: the form of an agent that reaches it, and the command with which the operator allows it. */
  readonly remedies: { readonly newAgent: string; readonly command: string } | undefined;
  /** What to do next. */
  readonly next?: Link;
  /** Whether the result is no reason to worry, although the MCP server cannot be used yet. */
  readonly isExpected?: boolean;
}

/** The server to be created. */
interface Wanted {
  readonly organization: string;
  readonly name: string;
  readonly url: string | undefined;
}

/** Inspects the MCP server at a URL, unless the URL is plainly in a private network. */
export async function testUrl(
  url: string,
  { upstreamSetup, inspectUrl }: Pick<DashboardPorts, 'upstreamSetup' | 'inspectUrl'>,
): Promise<Inspection> {
  if (!upstreamSetup.isForbidden(new URL(url))) return inspectUrl(url);
  return { outcome: 'forbidden', reason: `${new URL(url).host} is in a private network.` };
}

/** The refusal of a URL that this server must not call. */
export function privateNetworkRefusal(): AdministrationRefusal {
  const field = { field: 'upstream.url', problem: 'is in a private network' };
  return new AdministrationRefusal('invalid', `${field.field} ${field.problem}`, {
    fields: [field],
  });
}

/** Describes the result of an inspection to the person who wants to create a server. */
export function connectionTest(inspection: Inspection, wanted: Wanted): ConnectionTest {
  const { outcome } = inspection;
  const remedies = outcome === 'forbidden' ? remediesFor(wanted) : undefined;
  const rest = { outcome, facts: [], remedies };
  switch (outcome) {
    case 'connected':
      return {
        ...rest,
        heading: 'Connected',
        text: '',
        facts: [...factsOf(inspection), { label: 'Authentication', text: 'None required' }],
      };
    case 'sign-in-required': {
      const text =
        'You can create the server now and set up upstream authentication on the next page.';
      const how = inspection.isOAuth ? 'OAuth' : 'Credentials in a header';
      const facts = [{ label: 'Authentication', text: `${how} (the server answers HTTP 401)` }];
      return { ...rest, heading: 'Connected; sign-in required', text, facts, isExpected: true };
    }
    case 'personal':
    case 'offline':
    case 'error':
      return {
        ...rest,
        heading: 'The connection test failed',
        text: `${inspection.reason} Check the URL, or create the server anyway.`,
      };
    case 'forbidden': {
      const text = `${inspection.reason} Check the URL. Latchkey calls only public addresses and the hosts that its operator allows.`;
      return { ...rest, heading: 'Not found, or not on the public internet', text };
    }
  }
}

function factsOf({
  protocolVersion,
  tools,
}: Extract<Inspection, { outcome: 'connected' }>): Fact[] {
  const names = tools?.map(({ name }) => name) ?? [];
  const more = names.length > mostNames ? ` and ${names.length - mostNames} more` : '';
  const listed = `${names.length}: ${names.slice(0, mostNames).join(', ')}${more}`;
  return [
    { label: 'Protocol', text: `MCP ${protocolVersion ?? ''}` },
    { label: 'Tools', text: names.length > 0 ? listed : 'None' },
  ];
}

const mostNames = 8;

/**
 * Inspects the upstream of a server that was just changed, as calls of this person would, and says what to do next. `home` is the
 * path of the server's page. `undefined` for a disabled server, and for one whose upstream is not asked over HTTP.
 */
export async function testSaved(
  {
    organization,
    person,
    server: { name },
  }: Pick<DashboardVisit, 'organization' | 'person' | 'server'>,
  home: string,
  { db, inspectTools }: Pick<DashboardPorts, 'db' | 'inspectTools'>,
): Promise<ConnectionTest | undefined> {
  const server = await findServer(db, organization, name);
  if (!server || server.disabledAt !== undefined || server.target.upstream.kind !== 'http')
    return undefined;
  const inspection = await inspectTools(server, person.user.id);
  const { outcome } = inspection;
  const rest = { outcome, facts: [], remedies: undefined };
  switch (outcome) {
    case 'connected':
      return {
        ...rest,
        heading: 'The MCP server answers',
        text: '',
        facts: factsOf(inspection),
        next: { text: 'Connect an assistant', href: home },
      };
    case 'personal':
      if (server.target.personKey) {
        return {
          ...rest,
          heading: 'Each person enters their own key',
          isExpected: true,
          text: 'Enter yours to test the connection. Other people find the link on the page of this server.',
          next: { text: 'Enter your key', href: `${home}/account` },
        };
      }
      return {
        ...rest,
        heading: 'Each person connects their own account',
        isExpected: true,
        text: 'Connect yours to test the connection. Other people find the link on the page of this server.',
        next: { text: 'Connect your account', href: `${home}/account` },
      };
    case 'sign-in-required':
      return {
        ...rest,
        heading: 'The MCP server refuses these settings',
        text: `${inspection.reason} Check the kind of token below, and the name and value of each fixed header.`,
      };
    case 'offline':
    case 'error':
    case 'forbidden':
      return {
        ...rest,
        heading: 'The connection test failed',
        text: inspection.reason,
        next: { text: 'Check the URL', href: `${home}/settings` },
      };
  }
}

function remediesFor({ organization, name, url = '' }: Wanted) {
  const query = new URLSearchParams({ ...(name && { server: name }), url });
  return {
    newAgent: `${dashboardPath(organization)}/new-agent?${query.toString()}`,
    command: `latchkey-server outbound allow ${shellWord(hostAndPort(new URL(url)))}`,
  };
}

/** The result. `isRefused`: the form has a summary of errors, which takes the focus. `again` is the link that repeats the test. */
export function connectionTestSection(
  test: ConnectionTest,
  isRefused: boolean,
  again?: string,
): Html {
  const { outcome, heading, text, facts, remedies, next } = test;
  const isGood = outcome === 'connected' || test.isExpected === true;
  return html`<section class="${isGood ? 'notice' : 'notice warning'} group" role="status" aria-labelledby="test-heading">
<h2 id="test-heading" tabindex="-1"${!isRefused && html` autofocus`}>${heading}</h2>
${text && html`<p dir="auto">${text}</p>`}
${facts.length > 0 && factList(facts, 0)}
${
  remedies &&
  html`<p>An agent in that network reaches the server without an open port:</p>
<p><a class="button" href="${remedies.newAgent}">Create an agent</a></p>
<p>Or the operator of Latchkey allows it with this command, without a restart:</p>
${copyable(remedies.command, 'the command')}`
}
${
  (next ?? again) !== undefined &&
  html`<p class="actions">
${next && html`<a class="button" href="${next.href}">${next.text}</a>`}
${again !== undefined && html`<a class="button" href="${again}">Test again</a>`}
</p>`
}
</section>`;
}
