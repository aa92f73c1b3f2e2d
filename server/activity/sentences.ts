import type { RefusalCode } from '#gateway/gateway-refusal';
import type { CallRecord } from '#model/calls';
import type { SuspensionCode } from '#model/suspension';
import { ownWordsOf } from './own-failures.ts';

/** Where the cause of a failed call can be removed. */
export type RemedyPlace =
  /** The page of the key or client. */
  | 'credential'
  /** Settings, access, tools, or authentication of the server. */
  | 'settings'
  | 'access'
  | 'tools'
  | 'upstream'
  /** Settings of the organization. */
  | 'organization'
  /** The list of resources that people who left had created, and that need a new owner. */
  | 'leavers'
  /** Where a person connects an account of their own. */
  | 'account';

/** Why a call failed, for people. */
export interface Failure {
  /** Continues `The call failed because`, without a period. */
  readonly because: string;
  /** What to do next, in sentences. */
  readonly remedy: string;
  readonly place?: RemedyPlace;
}

type FailedCall = Pick<CallRecord, 'end' | 'error' | 'account' | 'person'>;

/**
 * The probable cause of a failed call, and what to do about it; `undefined` if the call did not fail. It addresses its reader as "you" if
 * `readerId` is the person who made the call.
 */
export function failureOf(call: FailedCall, readerId?: string): Failure | undefined {
  const failure = causeOf(call);
  return failure && isOwnCall(call, readerId) ? { ...failure, ...ownWordsOf(call) } : failure;
}

/** Whether a reader made the call, or an application for them. */
export function isOwnCall({ person }: Pick<CallRecord, 'person'>, readerId?: string): boolean {
  return person !== undefined && person.id === readerId;
}

function causeOf(call: FailedCall): Failure | undefined {
  const { end, error = '' } = call;
  switch (end) {
    case 'ok':
    case 'cancelled':
      return undefined;
    case 'tool_error':
      return {
        because: 'the tool reported an error',
        remedy:
          'The application received the tool’s own message; Latchkey does not store it. Check what the application sent, or try the tool here.',
      };
    case 'protocol_error':
      return protocolFailure(error);
    case 'unknown':
      return {
        because: 'Latchkey was stopped before it ended, or could not record how it ended',
        remedy: 'The call may have taken effect. Check at the server before you repeat it.',
      };
    case 'refused':
    case 'upstream_error':
      return isRefusalCode(error) ? refusalFailure(error, call) : unexplained;
  }
}

const unexplained: Failure = {
  because: 'the server did not return a usable answer',
  remedy: 'Try again. If it keeps failing, search the server’s log for the request ID.',
};

function isRefusalCode(code: string): code is RecordedCode {
  return Object.hasOwn(refusals, code);
}

type Account = Pick<CallRecord, 'account' | 'person'>;

/** Explains a refusal, which may depend on the account that the call was sent with. */
function refusalFailure(code: RecordedCode, call: Account): Failure {
  if (code === 'upstream_refused_credentials') return refusedAccount(call);
  if (code === 'key_refused') return refusedAccount(call);
  if (code === 'upstream_token' && call.account !== 'none') return refusedAccount(call);
  if (code === 'upstream_failed' && call.account !== 'none') {
    return { ...refusals[code], place: 'upstream' };
  }
  return refusals[code];
}

/** The upstream answered 401 or 403 to the account that it was called with. */
function refusedAccount({ account, person }: Account): Failure {
  switch (account) {
    case 'none':
      return refusals.upstream_refused_credentials;
    case 'fixed_headers':
      return {
        because: 'the upstream refused the shared key',
        remedy:
          'Replace it under Upstream authentication. It may have expired, or it may lack a permission.',
        place: 'upstream',
      };
    case 'server_account':
      return {
        because: 'the upstream refused the account of the server',
        remedy:
          'Test the connection under Upstream authentication. The account may have been disabled, or it may lack a permission.',
        place: 'upstream',
      };
    case 'person_key': {
      const whose = person?.name ? `the key of ${person.name}` : 'the key of the person';
      return {
        because: `the upstream refused ${whose}`,
        remedy:
          'The person enters a new key on the page of the server. It may have expired or been revoked, or it may lack a permission.',
        place: 'account',
      };
    }
    case 'person_account':
    case 'oauth_account': {
      const whose = person?.name ? `the account of ${person.name}` : 'the connected account';
      return {
        because: `the upstream refused ${whose}`,
        remedy:
          'Connect it again under Your servers. It may have been disabled, or it may lack a permission.',
        place: 'account',
      };
    }
  }
}

/** JSON-RPC 2.0 §5.1, MCP 2025-11-25 and 2026-07-28 */
const protocolErrors: ReadonlyMap<string, Failure> = new Map(
  Object.entries({
    '-32700': {
      because: 'the server could not read the request',
      remedy: 'Update the application. If others work, report it to its vendor.',
    },
    '-32600': {
      because: 'the server found the request invalid',
      remedy: 'Update the application. If others work, report it to its vendor.',
    },
    '-32601': {
      because: 'the server does not support this method',
      remedy: 'Check whether the server still offers the tool, prompt or resource.',
      place: 'tools',
    },
    '-32602': {
      because: 'the server rejected the arguments, or knows no such tool, prompt or resource',
      remedy:
        'Reload the list of tools in the application. If the tool is there, try it with the same arguments.',
      place: 'tools',
    },
    '-32603': {
      because: 'the server had an internal error',
      remedy: 'Read what the log of the MCP server says at this time.',
    },
    '-32002': {
      because: 'the server has no such resource',
      remedy: 'Reload the list of resources in the application.',
    },
    '-32042': {
      because: 'the server wants the person to open a page first',
      remedy: 'The person opens the page that the application shows, and then repeats the call.',
    },
    '-32800': {
      because: 'the request was cancelled',
      remedy: 'Repeat the call if it is still needed.',
    },
  } satisfies Record<string, Failure>),
);

function protocolFailure(code: string): Failure {
  return (
    protocolErrors.get(code) ?? {
      because: `the server answered with ${code === '' ? 'an error' : `the error ${code}`}`,
      remedy: 'The documentation of the MCP server explains its codes.',
    }
  );
}

const sender = 'Update the application. If others work, report it to its vendor.';
const again = 'Nothing has to be changed. Try again in a minute.';

/** The codes that calls are recorded with. `suspended` is only in rows from before the cause was recorded. */
type RecordedCode = RefusalCode | SuspensionCode;

/** One for each code, so that no refusal is without an explanation. */
const refusals: Readonly<Record<RecordedCode, Failure>> = {
  no_credential: {
    because: 'it carried no credential',
    remedy: 'Sign in with the application, or enter an API key there.',
  },
  bad_credential: {
    because: 'its credential is unknown, expired or revoked',
    remedy: 'Sign in with the application again, or enter a new API key there.',
    place: 'credential',
  },
  suspended: {
    because:
      'the server is disabled, the organization does not accept this application, or the owner of the credential left',
    remedy:
      'Repeat the call: its error says which it is. An administrator can enable the server, accept the application, or hand the credential over. Then the same credential works again.',
  },
  server_disabled: {
    because: 'the server is disabled',
    remedy: 'An administrator can enable it. Then the same credential works again.',
    place: 'settings',
  },
  self_registered_off: {
    because: 'the organization accepts only applications that its administrators created',
    remedy:
      'An owner can accept self-registered applications in the settings of the organization; then the same sign-in works again. Or an administrator creates an OAuth client for the application.',
    place: 'organization',
  },
  latchkey_proxy_off: {
    because: 'the organization does not accept Latchkey’s own proxy',
    remedy:
      'An owner can accept it in the settings of the organization. Then the same sign-in works again.',
    place: 'organization',
  },
  owner_left: {
    because: 'the person who created its key or OAuth client left, and no one has taken it over',
    remedy:
      'An administrator hands it over under People, Needs an owner. Then the same credential works again.',
    place: 'leavers',
  },
  two_credentials: {
    because: 'it carried two credentials',
    remedy: 'Remove either the API key or the Authorization header from the application.',
  },
  insufficient_scope: {
    because: 'the credential lacks the scope for it',
    remedy:
      'Sign in with the application again and allow it, or create an API key or client with the scope.',
    place: 'credential',
  },
  foreign_origin: {
    because: 'it came from a web page of another website',
    remedy: 'If the website is yours, allow it with --allowed-origin.',
  },
  method_not_allowed: { because: 'it was not an MCP request', remedy: sender },
  unsupported_media_type: { because: 'its body was not marked as JSON', remedy: sender },
  not_acceptable: { because: 'the application does not accept any kind of answer', remedy: sender },
  too_large: {
    because: 'it was larger than this server allows',
    remedy: 'Send less at once, or raise the limit in the settings of the server.',
    place: 'settings',
  },
  too_many_chunks: { because: 'its body arrived in too many small parts', remedy: sender },
  not_json: { because: 'its body was not JSON', remedy: sender },
  not_a_message: { because: 'its body was not an MCP message', remedy: sender },
  header_mismatch: { because: 'its headers contradict its body', remedy: sender },
  unsupported_version: {
    because: 'the application speaks a protocol version that Latchkey does not support',
    remedy: 'Update the application.',
  },
  unknown_method: { because: 'there is no such MCP method', remedy: sender },
  unknown_tool: {
    because: 'the server has no such tool',
    remedy: 'Reload the list of tools in the application.',
    place: 'tools',
  },
  hidden_tool: {
    because: 'an administrator has hidden the tool',
    remedy: 'Reload the list of tools in the application, or show the tool to callers again.',
    place: 'tools',
  },
  withheld_tool: {
    because: 'the tool is new or has changed, and nobody has accepted it yet',
    remedy: 'An administrator reviews and accepts it under Tools. Then the same call works.',
    place: 'tools',
  },
  closed_tool: {
    because: 'the tool is not open to this person, key or application',
    remedy:
      'An administrator opens it to a group of the person, or chooses it for the key or application. The page of the server says what this caller can see.',
    place: 'tools',
  },
  unknown_prompt: {
    because: 'the server has no such prompt',
    remedy: 'Reload the list of prompts in the application.',
    place: 'tools',
  },
  closed_prompt: {
    because: 'the prompt is not open to this person, key or application, or waits for review',
    remedy:
      'An administrator accepts it, opens it to a group of the person, or chooses it for the key or application.',
    place: 'tools',
  },
  unknown_resource: {
    because: 'the server has no such resource, or could not return it',
    remedy:
      'Reload the list of resources in the application. Where rules restrict resources, applications get this instead of any error of the server.',
    place: 'tools',
  },
  closed_resource: {
    because: 'the resource is not open to this person, key or application, or waits for review',
    remedy:
      'An administrator accepts its template, opens it to a group of the person, or chooses it for the key or application.',
    place: 'tools',
  },
  bad_params: { because: 'its parameters are invalid', remedy: sender },
  bad_meta: { because: 'what it says about itself is invalid', remedy: sender },
  not_theirs: {
    because: 'it named a session, task or event of another caller, or one that has ended',
    remedy: 'Restart the application. If it happens often, find out who uses this credential.',
    place: 'credential',
  },
  unknown_session: {
    because: 'its session has ended',
    remedy: 'Applications start a new session on their own. If this one does not, restart it.',
  },
  unknown_event: { because: 'the events that it asked for are no longer stored', remedy: sender },
  unexpected_response: { because: 'nothing was waiting for this response', remedy: sender },
  cancelled: {
    because: 'the application cancelled it',
    remedy: 'Repeat the call if it is still needed.',
  },
  too_many_requests: {
    because: 'the caller made more calls than the limit of this server allows',
    remedy: 'Wait a minute, or raise the limit in the settings of the server.',
    place: 'settings',
  },
  too_slow: {
    because: 'it took longer than this server allows',
    remedy: 'Ask for less at once, or raise the time limit in the settings of the server.',
    place: 'settings',
  },
  upstream_unreachable: {
    because: 'the upstream cannot be reached',
    remedy: 'Check that the MCP server runs, then test the connection in its settings.',
    place: 'settings',
  },
  upstream_unknown_host: {
    because: 'the host name of the upstream was not found',
    remedy: 'Check the URL in the settings of the server, and the name servers of Latchkey.',
    place: 'settings',
  },
  upstream_not_public: {
    because: 'the address of the upstream is not on the public internet, or not known',
    remedy:
      'Check the URL. Only the operator can allow a private address; an agent can reach it, too.',
    place: 'settings',
  },
  upstream_tls_failed: {
    because: 'no TLS connection to the upstream could be made',
    remedy:
      'Renew the certificate of the MCP server, correct the host name in the URL, or use http:// if the server has no TLS.',
    place: 'settings',
  },
  upstream_not_served: {
    because: 'the agent is connected, but does not serve this server',
    remedy:
      'Add the server to the configuration of the agent, under the name that its settings show.',
    place: 'settings',
  },
  upstream_timeout: {
    because: 'the upstream did not answer in time',
    remedy:
      'The call may have taken effect. Check at the server before you repeat it, and ask for less at once.',
  },
  upstream_broke_off: {
    because: 'the answer of the upstream ended early',
    remedy: 'The call may have taken effect. Check at the server before you repeat it.',
  },
  upstream_refused_credentials: {
    because: 'the upstream asks for credentials, and none are set',
    remedy: 'Enter them under Upstream authentication, or in the configuration of the agent.',
    place: 'upstream',
  },
  upstream_not_found: {
    because: 'the upstream answered 404, as if its URL were wrong or the session had ended',
    remedy:
      'Try again. If it keeps failing, check the path of the URL in the settings of the server.',
    place: 'settings',
  },
  upstream_method_not_allowed: {
    because: 'the upstream does not take MCP requests at this URL',
    remedy: 'Enter its URL for Streamable HTTP. The older transport HTTP+SSE is not supported.',
    place: 'settings',
  },
  upstream_redirected: {
    because: 'the upstream redirects to another URL, which Latchkey does not follow',
    remedy: 'Enter the final URL in the settings of the server.',
    place: 'settings',
  },
  upstream_rate_limited: {
    because: 'the upstream allows no more calls at the moment',
    remedy: 'Wait, and call less often. The account at the upstream may have a limit of its own.',
  },
  upstream_busy: { because: 'the upstream was busy', remedy: again },
  upstream_server_error: {
    because: 'the upstream had an error of its own',
    remedy: 'Read what the log of the MCP server says at this time.',
  },
  upstream_not_json: {
    because: 'the upstream answered with something other than JSON',
    remedy: 'Check that the URL in the settings of the server is that of an MCP server.',
    place: 'settings',
  },
  upstream_unreadable: {
    because: 'the answer of the upstream is not an MCP message, or belongs to another request',
    remedy: 'Update or repair the MCP server.',
  },
  upstream_too_large: {
    because: 'the answer of the upstream was larger than this server allows',
    remedy:
      'Ask for less at once, or raise the limit in the settings of the server. An agent has a limit of its own.',
    place: 'settings',
  },
  upstream_failed: {
    because: 'the upstream failed',
    remedy:
      'Test the connection in the settings of the server. The log of Latchkey says more under the request ID.',
    place: 'settings',
  },
  unreadable_tools: {
    because: 'the upstream sent a list of tools that cannot be read',
    remedy: 'Update or repair the MCP server. Until then its tools cannot be shown or hidden.',
    place: 'tools',
  },
  unreadable_list: {
    because: 'the upstream sent a list that cannot be read',
    remedy:
      'Update or repair the MCP server. Until then its prompts and resources cannot be restricted.',
    place: 'tools',
  },
  agent_offline: {
    because: 'the agent that reaches the server is offline',
    remedy: 'Start the agent on its computer, and check its network connection.',
    place: 'settings',
  },
  node_unreachable: {
    because: 'the Latchkey node that has the session could not be reached',
    remedy: again,
  },
  node_lost: {
    because: 'the connection between two Latchkey nodes was lost',
    remedy: 'The call may have taken effect. Check at the server before you repeat it.',
  },
  not_connected: {
    because: 'the person has not connected an account at the upstream, or its sign-in has expired',
    remedy: 'The person opens the page of the server here and connects their account.',
    place: 'account',
  },
  key_missing: {
    because: 'the person has not entered their key for the upstream',
    remedy: 'The person opens the page of the server here and enters their key.',
    place: 'account',
  },
  key_refused: {
    because: 'the upstream refused the key of the person',
    remedy: 'The person enters a new key on the page of the server.',
    place: 'account',
  },
  no_person: {
    because: 'the upstream requires a personal account or key, and the caller is not a person',
    remedy: 'Let a person sign in with the application instead of using a key or a service client.',
    place: 'credential',
  },
  upstream_scope: {
    because: 'the account at the upstream lacks a permission',
    remedy: 'Connect the account again and allow what the upstream asks for.',
    place: 'account',
  },
  upstream_token: {
    because: 'the upstream rejected the connected account',
    remedy: 'Connect the account again. It may have been disabled, or its access withdrawn.',
    place: 'account',
  },
  unavailable: {
    because: 'Latchkey could not check access at that time',
    remedy: 'Check that the database can be reached. Then try again.',
  },
  not_recorded: {
    because: 'Latchkey could not record it, which the operator requires',
    remedy: 'Check that the database can be reached and has space. Then try again.',
  },
  fault: {
    because: 'of an error in Latchkey',
    remedy: 'Search the server’s log for the request ID, and report what you find.',
  },
};
