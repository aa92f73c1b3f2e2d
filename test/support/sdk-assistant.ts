import type { OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js';
import type {
  OAuthClientInformationMixed,
  OAuthTokens,
} from '@modelcontextprotocol/sdk/shared/auth.js';

const redirectUri = 'http://127.0.0.1:49152/callback';

/** The registration and the tokens of an assistant that is built on the MCP SDK v1, in memory. */
export class SdkAssistant implements OAuthClientProvider {
  readonly redirectUrl = redirectUri;
  readonly clientMetadata = { redirect_uris: [redirectUri], client_name: 'SDK assistant' };
  readonly clientMetadataUrl?: string;
  #information: OAuthClientInformationMixed | undefined;
  #tokens: OAuthTokens | undefined;
  #verifier = '';
  sentTo: URL | undefined;

  constructor({ clientMetadataUrl }: { readonly clientMetadataUrl?: string } = {}) {
    if (clientMetadataUrl !== undefined) this.clientMetadataUrl = clientMetadataUrl;
  }

  clientInformation() {
    return this.#information;
  }
  saveClientInformation(information: OAuthClientInformationMixed) {
    this.#information = information;
  }
  tokens() {
    return this.#tokens;
  }
  saveTokens(tokens: OAuthTokens) {
    this.#tokens = tokens;
  }
  redirectToAuthorization(url: URL) {
    this.sentTo = url;
  }
  saveCodeVerifier(verifier: string) {
    this.#verifier = verifier;
  }
  codeVerifier() {
    return this.#verifier;
  }
}
