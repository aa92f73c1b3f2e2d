import type { Scope } from './scopes.ts';

/** A validated authorization request. */
export interface AuthorizationRequest extends AnswerTarget {
  /** `{organization}/{server}`. Whether it exists is revealed only after sign-in. */
  readonly serverPath: string;
  readonly scopes: readonly Scope[];
  readonly codeChallenge: string;
  /** The assistant that our proxy says it works for. A claim: any program on that computer can make it. */
  readonly assistant?: string | undefined;
}

/** The client and redirect URI that receive the answer of the authorization endpoint. */
export interface AnswerTarget {
  readonly clientId: string;
  readonly clientName: string;
  /** Whether the client described or registered itself, which anyone can do. */
  readonly isSelfRegistered: boolean;
  readonly redirectUri: string;
  readonly state: string | undefined;
}
