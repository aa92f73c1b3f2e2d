import type { RefusalCode } from '#gateway/gateway-refusal';
import type { CallRecord } from '#model/calls';

// Explains a failed call to the person who made it, where the words for other readers speak of "the person".

interface OwnWords {
  readonly because: string;
  readonly remedy: string;
}

/** What to say instead to the person who made the call; `undefined` if the words for other readers fit. */
export function ownWordsOf({
  end,
  error = '',
  account,
}: Pick<CallRecord, 'end' | 'error' | 'account'>): OwnWords | undefined {
  if (end === 'protocol_error') return error === needsPage ? openPage : undefined;
  if (end !== 'refused' && end !== 'upstream_error') return undefined;
  if (refusedAccounts.has(error)) {
    if (account === 'person_key') return refusedKey;
    if (account === 'person_account') return refusedAccount;
  }
  return words.get(error);
}

/** The code of MCP for an error that asks for a page to be opened. */
const needsPage = '-32042';

const openPage: OwnWords = {
  because: 'the server wants you to open a page first',
  remedy: 'Open the page that the application shows, and then repeat the call.',
};

/** The codes of calls whose credentials the upstream refused. */
const refusedAccounts: ReadonlySet<string> = new Set<RefusalCode>([
  'upstream_refused_credentials',
  'upstream_token',
  'key_refused',
]);

const refusedKey: OwnWords = {
  because: 'the upstream refused your key',
  remedy:
    'Enter a new key on the page of the server. The old one may have expired or been revoked, or it may lack a permission.',
};

const refusedAccount: OwnWords = {
  because: 'the upstream refused your account',
  remedy:
    'Connect it again under Your servers. It may have been disabled, or it may lack a permission.',
};

const words: ReadonlyMap<string, OwnWords> = new Map(
  Object.entries({
    closed_tool: {
      because: 'the tool is not open to you, or not to this key or application',
      remedy:
        'An administrator opens it to one of your groups, or chooses it for the key or application. The page of the server says what you can see.',
    },
    closed_prompt: {
      because:
        'the prompt is not open to you, or not to this key or application, or waits for review',
      remedy:
        'An administrator accepts it, opens it to one of your groups, or chooses it for the key or application.',
    },
    closed_resource: {
      because:
        'the resource is not open to you, or not to this key or application, or waits for review',
      remedy:
        'An administrator accepts its template, opens it to one of your groups, or chooses it for the key or application.',
    },
    not_connected: {
      because: 'you have not connected your account at the upstream, or its sign-in has expired',
      remedy: 'Open the page of the server here and connect your account.',
    },
    key_missing: {
      because: 'you have not entered your key for the upstream',
      remedy: 'Open the page of the server here and enter your key.',
    },
  } satisfies Partial<Record<RefusalCode, OwnWords>>),
);
