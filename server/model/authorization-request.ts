import type { Scope } from './scopes.ts';

/** A validated authorization request. */
export interface AuthorizationRequest extends AnswerTarget {
  /** `{organization}/{server}`. Whether it exists is revealed only after sign-in. */
  readonly serverPath: string;
  readonly scopes: readonly Scope[];
  readonly codeChallenge: string;
  /** The assistant that our proxy says it works for. A claim: any program on that computer can make it. */
  readonly assistant?: string | undefined;
  readonly device?: ClaimedDevice | undefined;
}

/**
 * The computer that our proxy says it runs on. Like the name of the assistant, this is a claim that proves nothing, and the id is not
 * secret. The same id of another person is another device.
 */
export interface ClaimedDevice {
  /** Random; 22 characters of base64url. */
  readonly id: string;
  readonly name: string;
  /** `macOS`, `Windows`, `Linux`; may be empty. */
  readonly system: string;
}

/** A validated request for several servers at once. RFC 8707 §2 */
export interface BundleRequest extends AnswerTarget, Omit<AuthorizationRequest, 'serverPath'> {
  /** The servers that the client named, each as `{organization}/{server}`. May be empty if it asks for the list. */
  readonly serverPaths: readonly string[];
  /** Whether the client asks for the list of the person's servers, from which they choose. */
  readonly listsServers: boolean;
}

/** The most servers that one authorization is for. */
export const mostResources = 50;

/** The client and redirect URI that receive the answer of the authorization endpoint. */
export interface AnswerTarget {
  readonly clientId: string;
  readonly clientName: string;
  /** Whether the client described or registered itself, which anyone can do. */
  readonly isSelfRegistered: boolean;
  readonly redirectUri: string;
  readonly state: string | undefined;
}
