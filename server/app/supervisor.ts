import cluster, { type Worker } from 'node:cluster';
import { CommandError } from '#config/usage-error';
import type { Log } from '#log/log';
import { backOffs, pauseMs } from '#model/back-off';
import { type FromBroker, LocalBroker, LocalBus, type ToBroker } from '#nodes/local-bus';
import type { OwnerSocket } from '#nodes/owner-socket';

/** A process that served longer than this is restarted after the shortest pause again. */
const steadyMs = 60_000;
const mostFailedStarts = 5;
/** After its shutdown delay a server stops within ten seconds; a process that takes longer than this is killed. */
const stopLimitMs = 20_000;

/** The environment variable in which a worker finds its `WorkerPlace`. */
const placeVariable = 'LATCHKEY_WORKER';

/** The facts that a worker gets when it starts. */
interface WorkerPlace {
  /** Counts from 1. A replacement has the number of the worker that it replaces. */
  readonly number: number;
  /** The port that all workers listen on. */
  readonly port: number;
  /** Whether this worker prints how the first person signs in. Only one does. */
  readonly isGreeter: boolean;
  /** Where workers that share SQLite reach the owner, which is worker 1. */
  readonly ownerSocket?: OwnerSocket | undefined;
}

type ToWorker = { readonly type: 'stop' } | { readonly type: 'bus'; readonly message: FromBroker };
type FromWorker = { readonly type: 'ready' } | { readonly type: 'bus'; readonly message: ToBroker };

export interface SupervisorOptions {
  readonly processes: number;
  readonly port: number;
  /** Where workers that share SQLite reach their owner. */
  readonly ownerSocket?: OwnerSocket | undefined;
  /** How long a worker that is told to stop goes on serving. */
  readonly shutdownDelayMs: number;
  readonly log: Log;
  /** Called when no worker can be started any more. */
  readonly failed: (error: CommandError) => void;
}

/** A worker ended before it served. It has printed why. */
export class WorkerStartError extends Error {
  override readonly name = 'WorkerStartError';
  readonly exitCode: number;

  constructor(exitCode: number) {
    super('a process of the server did not start');
    this.exitCode = exitCode;
  }
}

/**
 * Starts this program several times, as workers that share one port and a bus. The supervisor accepts connections, passes each to
 * the next worker, and replaces a worker that ends. When the supervisor ends, even killed, Node ends its workers.
 */
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #broker = new LocalBroker();
  readonly #workers = new Map<number, Worker>();
  readonly #ready = new Set<number>();
  readonly #crashes = new Map<number, number>();
  readonly #restarts = new Set<NodeJS.Timeout>();
  #isStopping = false;

  private constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  /** Resolves when all workers serve. @throws {WorkerStartError} when one of them does not start; the others are ended */
  static async open(options: SupervisorOptions): Promise<Supervisor> {
    // The messages of the bus contain bytes, which JSON would write as numbers.
    cluster.setupPrimary({ serialization: 'advanced' });
    const supervisor = new Supervisor(options);
    try {
      // Worker 1 starts alone, so that only one process creates or migrates the database, and creates the keys.
      await supervisor.#start(1, true);
      const others = Array.from({ length: options.processes - 1 }, (_, at) => at + 2);
      await Promise.all(others.map((number) => supervisor.#start(number, false)));
    } catch (error) {
      await supervisor.close();
      throw error;
    }
    return supervisor;
  }

  /** Lets the workers finish their calls, and resolves when all have ended. */
  async close(): Promise<void> {
    this.#isStopping = true;
    for (const restart of this.#restarts) clearTimeout(restart);
    const workers = [...this.#workers.values()];
    const late = setTimeout(() => {
      for (const { process: child } of workers) child.kill('SIGKILL');
    }, this.#options.shutdownDelayMs + stopLimitMs);
    await Promise.all(
      workers.map((worker) => {
        const exited = new Promise((resolve) => worker.once('exit', resolve));
        send(worker, { type: 'stop' });
        return exited;
      }),
    );
    clearTimeout(late);
  }

  /** Resolves when the worker serves. @throws {WorkerStartError} when it ends before */
  #start(number: number, isGreeter = false): Promise<void> {
    const { port, ownerSocket } = this.#options;
    const place: WorkerPlace = { number, port, isGreeter, ownerSocket };
    const worker = cluster.fork({ [placeVariable]: JSON.stringify(place) });
    this.#workers.set(number, worker);
    const connection = this.#broker.connect((message) => send(worker, { type: 'bus', message }));
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let readyAtMs: number | undefined;
    worker.on('message', (message: FromWorker) => {
      if (message.type === 'bus') return connection.receive(message.message);
      readyAtMs = performance.now();
      this.#ready.add(number);
      resolve();
    });
    worker.on('error', (err) => this.#options.log.error({ err, process: number }, 'process'));
    worker.once('exit', (code: number | null, signal: string | null) => {
      connection.close();
      this.#workers.delete(number);
      this.#ready.delete(number);
      if (readyAtMs === undefined) return reject(new WorkerStartError(code ?? 1));
      if (this.#isStopping) return;
      if (performance.now() - readyAtMs > steadyMs) this.#crashes.delete(number);
      this.#restart(number, { code, signal });
    });
    return promise;
  }

  #restart(number: number, ended: object, failedStarts = 0): void {
    const { log, failed } = this.#options;
    // While other workers serve, the cause may be temporary, such as an unreachable database.
    if (failedStarts >= mostFailedStarts && this.#ready.size === 0) {
      return failed(
        new CommandError(
          `process ${number} did not start ${failedStarts} times in a row, and no other process is left`,
          'the lines above say why it ended',
        ),
      );
    }
    const crashes = (this.#crashes.get(number) ?? 0) + 1;
    this.#crashes.set(number, crashes);
    const waitMs = pauseMs(backOffs.workerRestart, crashes);
    log.error({ ...ended, process: number, pauseMs: waitMs }, 'a process ended and is restarted');
    const timer = setTimeout(() => {
      this.#restarts.delete(timer);
      this.#start(number).catch((error: unknown) => {
        if (this.#isStopping) return;
        const code = error instanceof WorkerStartError ? error.exitCode : undefined;
        this.#restart(number, { code }, failedStarts + 1);
      });
    }, waitMs);
    this.#restarts.add(timer);
  }
}

/** Sends a message, unless the worker has just ended, which its exit event reports. */
function send(worker: Worker, message: ToWorker): void {
  worker.send(message, () => {});
}

export interface WorkerProcess extends WorkerPlace {
  /** Carries messages to and from the other workers, through the supervisor. */
  readonly bus: LocalBus;
  /** Tells the supervisor that this worker serves. */
  ready(): void;
  /** Calls `stop` when the supervisor stops. */
  onStop(stop: () => void): void;
}

/** Returns the place and the ports of this worker; `undefined` if no supervisor started the process. */
export function workerProcess(own: NodeJS.Process): WorkerProcess | undefined {
  const place = own.env[placeVariable];
  if (!cluster.isWorker || place === undefined) return undefined;
  // MCP servers that this worker starts must not inherit the variable.
  delete own.env[placeVariable];
  const workerPlace: WorkerPlace = JSON.parse(place);
  const tell = (message: FromWorker) => void own.send?.(message, undefined, {}, () => {});
  const bus = new LocalBus((message) => tell({ type: 'bus', message }));
  let stop: () => void = () => own.exit(0);
  own.on('message', (message: ToWorker) => {
    if (message.type === 'bus') bus.receive(message.message);
    else stop();
  });
  return {
    ...workerPlace,
    bus,
    ready: () => tell({ type: 'ready' }),
    onStop(call) {
      stop = call;
    },
  };
}
