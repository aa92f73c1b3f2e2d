import type { EpochSeconds } from '#clock/clock';
import type { ServerLimits } from './server-limits.ts';

/** A value of a fixed header, sealed for one server, one header and one origin. */
export interface SealedHeaderValue {
  readonly sealed: string;
  /** Its last characters, where the value is long enough to show them. */
  readonly hint?: string | undefined;
  readonly setAt: EpochSeconds;
}

/** A header that every request to an HTTP upstream carries. */
export interface FixedHeader extends SealedHeaderValue {
  /** Lower case. */
  readonly name: string;
  /** What it was replaced from: sent where the upstream refuses the present value, until then. */
  readonly previous?: (SealedHeaderValue & { readonly until: EpochSeconds }) | undefined;
}

/** Where the calls of a server go. */
export type UpstreamKind =
  | { readonly kind: 'demo' }
  | {
      readonly kind: 'http';
      readonly url: string;
      /** Somebody else than the operator typed it: it leads to the public internet, or to a host that the operator named. */
      readonly publicOnly?: true;
      /** The `UpstreamAccess` in force: it wants a token of its own before it answers. */
      readonly accessId?: string;
      /** Its calls say who is calling, in a signed assertion. */
      readonly tellsCallers?: true;
      /** Sent with every request to the origin of `url`, for which alone their values open. */
      readonly headers?: readonly FixedHeader[];
      /** When it last refused the present values of `headers` and took the previous ones; there where it was read to be shown. */
      readonly headersRefusedAt?: EpochSeconds;
    }
  | { readonly kind: 'agent'; readonly agentId: string }
  /** A command that the operator's file names for this server, and nobody else can. */
  | { readonly kind: 'stdio' };

/** An MCP server of an organization: the thing behind `POST /mcp/{organization}/{server}`. */
export interface ServerRecord {
  readonly id: string;
  readonly organization: string;
  readonly name: string;
  readonly upstream: UpstreamKind;
  /** What people call it. */
  readonly title?: string;
  readonly description?: string;
  /** What an assistant is told about using it. */
  readonly instructions?: string;
  /** Tools that are neither listed nor callable. */
  readonly hiddenTools: readonly string[];
  /** What becomes of a tool that is other than it was accepted: people are told, or it is closed besides. */
  readonly changedTools: 'flag' | 'withhold';
  /** Those that are closed for that reason now. */
  readonly withheldTools: readonly string[];
  readonly limits?: ServerLimits;
  /** Counts the changes to the record; there where it was read to be shown or changed. */
  readonly revision?: number;
  readonly createdAt: EpochSeconds;
  /** Since when it serves nobody. */
  readonly disabledAt?: EpochSeconds;
}

export interface NewServer {
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly upstream: UpstreamKind;
  readonly title?: string;
  readonly description?: string;
  readonly instructions?: string;
  readonly createdAt: EpochSeconds;
}
