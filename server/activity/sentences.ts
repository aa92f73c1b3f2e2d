import type { RefusalCode } from '#gateway/gateway-refusal';
import type { CallEnd, CallRecord, UpstreamAccount } from '#model/calls';

/** How calls end, as pages name it. */
export const endWords: Readonly<Record<CallEnd, string>> = {
  ok: 'OK',
  tool_error: 'Tool error',
  protocol_error: 'Protocol error',
  refused: 'Refused',
  upstream_error: 'Server error',
  cancelled: 'Cancelled',
  unknown: 'Unknown',
};

/** What was sent to the MCP server as proof of who calls. */
export const accountWords: Readonly<Record<UpstreamAccount, string>> = {
  none: 'No credentials',
  fixed_headers: 'The headers that an administrator entered',
  oauth_account: 'An account at the upstream',
};

/** Where the cause of a failed call can be removed. */
export type RemedyPlace =
  /** The page of the key or client. */
  | 'credential'
  /** Settings, access, tools, or authentication of the server. */
  | 'settings'
  | 'access'
  | 'tools'
  | 'upstream'
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

/** The probable cause of a failed call, and what to do about it; `undefined` if the call did not fail. */
export function failureOf(
  call: Pick<CallRecord, 'end' | 'error' | 'account'>,
): Failure | undefined {
  const { end, error = '', account } = call;
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
        because: 'Latchkey was stopped before it ended',
        remedy: 'The call may have taken effect. Check at the server before you repeat it.',
      };
    case 'refused':
    case 'upstream_error':
      return isRefusalCode(error) ? refusalFailure(error, account) : unexplained;
  }
}

const unexplained: Failure = {
  because: 'the server did not return a usable answer',
  remedy: 'Try again. If it keeps failing, search the server’s log for the request ID.',
};

function isRefusalCode(code: string): code is RefusalCode {
  return Object.hasOwn(refusals, code);
}

/** How a call failed that was sent with what an administrator entered or connected. */
function refusalFailure(code: RefusalCode, account: UpstreamAccount): Failure {
  if (code === 'upstream_failed' && account !== 'none') {
    const remedy =
      'Test the connection in the settings of the server. If the server rejects its credentials, replace them under Upstream authentication.';
    return { because: refusals[code].because, remedy, place: 'upstream' };
  }
  return refusals[code];
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
      remedy: 'Look at the log of the MCP server at this time.',
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

/** One for each code, so that no refusal is without an explanation. */
const refusals: Readonly<Record<RefusalCode, Failure>> = {
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
    because: 'a setting suspends this caller',
    remedy:
      'The organization may be disabled, or require a second factor, or the person may have lost access. Change that, and the credential works again.',
    place: 'access',
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
    because: 'the tool is hidden, or the server has no such tool',
    remedy: 'Reload the list of tools in the application, or show the tool to callers again.',
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
  upstream_failed: {
    because: 'the upstream failed, did not answer in time, or refused the request',
    remedy:
      'Test the connection in the settings of the server. If the upstream requires a key, enter it under Upstream authentication.',
    place: 'settings',
  },
  upstream_busy: { because: 'the upstream was busy', remedy: again },
  unreadable_tools: {
    because: 'the upstream sent a list of tools that cannot be read',
    remedy: 'Update or mend the MCP server. Until then its tools cannot be shown or hidden.',
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
    because: 'the person has not connected an account of their own at the upstream',
    remedy: 'The person opens the page of the server here and connects their account.',
    place: 'account',
  },
  no_person: {
    because: 'the upstream requires a personal account, and the caller is not a person',
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
