/** Why an agent is not let in. Becomes words and a status in `http/agent-error-answer.ts`. */
export type TunnelRefusalCode = 'no_upgrade' | 'browser' | 'bad_subprotocol' | 'full';

export class TunnelRefusal extends Error {
  override readonly name = 'TunnelRefusal';
  readonly code: TunnelRefusalCode;

  constructor(code: TunnelRefusalCode) {
    super(code);
    this.code = code;
  }
}
