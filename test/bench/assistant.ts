import { startProgram, type Program } from '#support/processes';

/** How an assistant starts a stdio MCP server. */
export interface Command {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

interface Reply {
  readonly id?: number;
  readonly error?: unknown;
}

/** A desktop assistant, as far as a stopwatch needs one: starts a stdio MCP server and calls tools. */
export class Assistant {
  readonly program: Program;
  readonly #waiting = new Map<number, (reply: Reply) => void>();
  #lastId = 0;
  #gone: Reply | undefined;

  private constructor({ command, args, env }: Command) {
    this.program = startProgram(command, { args, env, endLimitMs: 2000 });
    this.program.onLine((line) => {
      const reply: Reply = JSON.parse(line);
      const answered = this.#waiting.get(reply.id ?? -1);
      this.#waiting.delete(reply.id ?? -1);
      answered?.(reply);
    });
    void this.program.exited.then(({ code, signal }) => {
      this.#gone = { error: `ended with ${signal ?? code}: ${this.program.stderr}` };
      for (const answered of this.#waiting.values()) answered(this.#gone);
    });
  }

  /** Spawns the server, and resolves with its answer to `initialize` and how long that took. */
  static async start(
    command: Command,
    timeoutMs = 30_000,
  ): Promise<{ readonly assistant: Assistant; readonly startMs: number }> {
    const startedAt = performance.now();
    const assistant = new Assistant(command);
    const timer = setTimeout(() => assistant.program.kill('SIGKILL'), timeoutMs);
    try {
      await assistant.request('initialize', {
        protocolVersion: '2025-06-18',
        capabilities: {},
        clientInfo: { name: 'bench', version: '1' },
      });
    } finally {
      clearTimeout(timer);
    }
    const startMs = performance.now() - startedAt;
    return { assistant, startMs };
  }

  /** Ends the handshake that `start` began. */
  initialized(): void {
    this.#send({ method: 'notifications/initialized' });
  }

  callTool(name: string, text = 'hello'): Promise<void> {
    return this.request('tools/call', { name, arguments: { text } });
  }

  async request(method: string, params: object): Promise<void> {
    const id = ++this.#lastId;
    const answered = new Promise<Reply>((resolve) => this.#waiting.set(id, resolve));
    this.#send({ id, method, params });
    const { error } = this.#gone ?? (await answered);
    if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
  }

  /** Ends the server like an assistant that quits: closes its input first, and sends signals only if that has no effect. */
  async end(): Promise<void> {
    this.program.endInput();
    await this.program.end();
  }

  #send(message: object): void {
    this.program.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }
}
