import { createHash } from 'node:crypto';

import type { RefusalDetails } from './gateway-refusal.ts';

export interface AccountWords {
  /** 200: it is about an account elsewhere, and must not be taken for a refusal of the caller's own credential. */
  readonly status: 200;
  readonly code: number;
  readonly message: string;
  readonly data?: object;
}

/**
 * What a caller is told when the MCP server behind the endpoint wants an account of its own. Who can show a person a
 * URL is asked to. MCP 2025-11-25 elicitation, "URL Elicitation Required Error"
 */
export function accountWords(
  code: 'not_connected' | 'no_person' | 'upstream_scope' | 'upstream_token',
  { page = '', showsUrls = false }: RefusalDetails,
): AccountWords {
  switch (code) {
    case 'not_connected': {
      const message = `connect your account at the MCP server behind this endpoint first: open ${page}`;
      if (!showsUrls) return { status: 200, code: -32000, message };
      const elicitations = [{ ...connectElicitation(page), elicitationId: idOf(page) }];
      return { status: 200, code: -32042, message, data: { elicitations } };
    }
    case 'no_person':
      return {
        status: 200,
        code: -32000,
        message:
          'the MCP server behind this endpoint is used by each person with an account of their own: sign in as a person instead of using a key or a client secret',
      };
    case 'upstream_scope':
      return {
        status: 200,
        code: -32000,
        message: `the MCP server behind this endpoint does not let this account do that: connect it again at ${page}, or ask an administrator for more scopes there`,
      };
    case 'upstream_token':
      return {
        status: 200,
        code: -32000,
        message: `the MCP server behind this endpoint refuses the account: connect it again at ${page}, or ask an administrator to look at its authorization`,
      };
  }
}

/** Under which name that request is put to a modern caller, who answers under the same. */
export const connectRequestKey = 'latchkey-connect';

/** The request to show a person the page where they connect their account. */
export function connectElicitation(page: string) {
  const message = 'Connect your account at the MCP server, then try again.';
  return { mode: 'url', url: page, message } as const;
}

function idOf(page: string): string {
  return createHash('sha256').update(page).digest('base64url').slice(0, 22);
}
