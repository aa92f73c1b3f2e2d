/** Why an agent does not start. `key`: without a good key; `server`: the URL of the server is none; `service`. */
export class AgentError extends Error {
  override readonly name = 'AgentError';
  readonly code: 'key' | 'server' | 'service';
  readonly remedy: string;

  constructor(
    code: AgentError['code'],
    message: string,
    { remedy = '', ...options }: ErrorOptions & { remedy?: string } = {},
  ) {
    super(message, options);
    this.code = code;
    this.remedy = remedy;
  }
}
