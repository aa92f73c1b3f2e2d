// Resolves host names as the operating system does, with /etc/hosts, search domains and names of containers. Only getaddrinfo knows
// all of that, but it blocks a thread, cannot be cancelled, and Node runs only two at a time.
import { spawn, type ChildProcess } from 'node:child_process';
import type nodeDns from 'node:dns';
import type { LookupAddress } from 'node:dns';
import { z } from 'zod';
import { LimitedMap } from '#model/limited-map';
import { OutboundError } from './checked-addresses.ts';

/** How long a name may take. */
const usualLimitMs = 5000;
/** Working name servers answer sooner. A look-up that takes longer moves to a child process. */
const slowAfterMs = 200;
/** How long a name is refused without another look-up after it took too long. */
const refusedMs = 5000;
/** How many names are resolved at the same time, and how many slow names are remembered. */
const mostNames = 1000;
/** How many resolved names are remembered, and for how long, as answers for when too many names are being resolved. */
const mostResolved = 10_000;
const rememberedMs = 10 * 60_000;
const mostChildren = 3;
/** How many look-ups a child runs at the same time. libuv lends half of its threads to look-ups. */
const childLookups = 64;
/** The minimum age at which a full child is replaced. */
const leastLifeMs = 1000;
const childIdleMs = 60_000;

type Addresses = readonly LookupAddress[];
type Answer = { readonly addresses: Addresses } | { readonly error: Error };

interface Resolved {
  readonly addresses: Addresses;
  readonly atMs: number;
}

export interface NameResolverOptions {
  /** Calls getaddrinfo in this process. */
  readonly lookup: (host: string) => Promise<Addresses>;
  readonly nodePath: string;
  /** The environment of this process. Children get the variables that the resolver of the C library reads. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** How long a name may take: five seconds unless given. */
  readonly limitMs?: number;
}

/**
 * Resolves names so that a slow name does not delay callers that wait for another name.
 *
 * - All callers that wait for a name share one look-up, which ends after five seconds. For five more, the name is refused.
 * - This process runs one look-up at a time. A look-up without a turn or an answer after 200 ms moves to a child process, which runs
 *   up to 64. A full child is killed, which is the only way to end a look-up, and replaced. As long as names resolve quickly,
 *   there is no child.
 * - While too many names take long, a name that was resolved within the last ten minutes has the same addresses as then.
 */
export class NameResolver {
  readonly #options: NameResolverOptions;
  readonly #running = new Map<string, Lookup>();
  /** Look-ups that wait for their turn in this process, in order. */
  readonly #waiting = new Set<Lookup>();
  /** Names that took too long, and until when they are refused. */
  readonly #slow = new LimitedMap<string, number>(mostNames);
  readonly #resolved = new LimitedMap<string, Resolved>(mostResolved);
  /** The oldest first. */
  readonly #children: LookupChild[] = [];
  /** Since when a look-up has been running in this process. */
  #busySince: number | undefined;
  #isClosed = false;

  constructor(options: NameResolverOptions) {
    this.#options = options;
  }

  get children(): readonly (number | undefined)[] {
    return this.#children.map(({ pid }) => pid);
  }

  /** Returns all addresses of a host name. @throws {OutboundError} `timeout`, `unreachable`; errors of getaddrinfo */
  async resolve(host: string): Promise<Addresses> {
    const running = this.#running.get(host);
    if (running) return running.promise;
    if ((this.#slow.get(host) ?? 0) > performance.now()) throw tookTooLong(host);
    if (this.#isClosed) throw notResolved(host);
    if (this.#running.size < mostNames) return this.#begin(host).promise;
    const addresses = this.#remembered(host);
    if (!addresses) throw notResolved(host);
    return addresses;
  }

  close(): void {
    this.#isClosed = true;
    for (const lookup of this.#running.values()) {
      this.#settle(lookup, { error: notResolved(lookup.host) });
    }
    for (const child of this.#children.splice(0)) child.kill();
  }

  #begin(host: string): Lookup {
    const lookup = new Lookup(host);
    const isStuck = performance.now() - (this.#busySince ?? Infinity) > slowAfterMs;
    lookup.after(isStuck ? 0 : slowAfterMs, () => this.#moveToChild(lookup));
    lookup.after(this.#options.limitMs ?? usualLimitMs, () => this.#expire(lookup));
    this.#running.set(host, lookup);
    this.#waiting.add(lookup);
    this.#next();
    return lookup;
  }

  /** Runs the next look-up in this process, unless one runs here. */
  #next(): void {
    const [lookup] = this.#waiting;
    if (this.#busySince !== undefined || !lookup) return;
    this.#waiting.delete(lookup);
    this.#busySince = performance.now();
    void this.#options
      .lookup(lookup.host)
      .then(
        (addresses) => this.#found(lookup, addresses),
        (error: unknown) => this.#settle(lookup, { error: errorOf(error) }),
      )
      .finally(() => {
        this.#busySince = undefined;
        this.#next();
      });
  }

  /** Repeats a look-up in a child, even if it already runs here, because it blocks a thread that other parts of this process use. */
  #moveToChild(lookup: Lookup): void {
    this.#waiting.delete(lookup);
    const child = this.#childWithRoom();
    if (child) return child.ask(lookup);
    const addresses = this.#remembered(lookup.host);
    this.#settle(lookup, addresses ? { addresses } : { error: notResolved(lookup.host) });
  }

  #remembered(host: string): Addresses | undefined {
    const known = this.#resolved.get(host);
    return known && performance.now() - known.atMs < rememberedMs ? known.addresses : undefined;
  }

  #childWithRoom(): LookupChild | undefined {
    const [oldest] = this.#children;
    const withRoom = this.#children.find(({ lookups }) => lookups.size < childLookups);
    if (withRoom) return withRoom;
    if (oldest && this.#children.length >= mostChildren) {
      if (performance.now() - oldest.startedAtMs < leastLifeMs) return undefined;
      this.#end(oldest);
    }
    const child = new LookupChild(this.#options, {
      answered: (lookup, answer) =>
        'addresses' in answer
          ? this.#found(lookup, answer.addresses)
          : this.#settle(lookup, answer),
      ended: () => this.#end(child),
    });
    this.#children.push(child);
    return child;
  }

  /** Kills a child. Its unanswered look-ups get remembered addresses, or fail because they took too long. */
  #end(child: LookupChild): void {
    const at = this.#children.indexOf(child);
    if (at === -1) return;
    this.#children.splice(at, 1);
    child.kill();
    for (const lookup of child.lookups.values()) {
      const addresses = this.#remembered(lookup.host);
      if (addresses) this.#settle(lookup, { addresses });
      else this.#expire(lookup);
    }
  }

  #expire(lookup: Lookup): void {
    const { host } = lookup;
    if (this.#running.get(host) !== lookup) return;
    this.#slow.set(host, performance.now() + refusedMs);
    this.#settle(lookup, { error: tookTooLong(host) });
    // A child with only expired look-ups is useless.
    const useless = this.#children.filter(
      ({ lookups }) => lookups.size > 0 && [...lookups.values()].every((one) => one.isSettled),
    );
    for (const child of useless) this.#end(child);
  }

  #found(lookup: Lookup, addresses: Addresses): void {
    if (addresses.length > 0) {
      this.#resolved.set(lookup.host, { addresses, atMs: performance.now() });
    }
    this.#settle(lookup, { addresses });
  }

  #settle(lookup: Lookup, answer: Answer): void {
    if (lookup.isSettled) return;
    this.#running.delete(lookup.host);
    this.#waiting.delete(lookup);
    lookup.settle(answer);
  }
}

/** A name that is being resolved, for all callers that wait for it. */
class Lookup {
  readonly host: string;
  readonly promise: Promise<Addresses>;
  isSettled = false;
  readonly #resolve: (addresses: Addresses) => void;
  readonly #reject: (error: Error) => void;
  readonly #timers: NodeJS.Timeout[] = [];

  constructor(host: string) {
    this.host = host;
    const { promise, resolve, reject } = Promise.withResolvers<Addresses>();
    this.promise = promise;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** Calls `act` after `delayMs`, unless the look-up is settled by then. */
  after(delayMs: number, act: () => void): void {
    this.#timers.push(setTimeout(act, delayMs));
  }

  settle(answer: Answer): void {
    this.isSettled = true;
    for (const timer of this.#timers) clearTimeout(timer);
    if ('error' in answer) this.#reject(answer.error);
    else this.#resolve(answer.addresses);
  }
}

interface ChildEvents {
  readonly answered: (lookup: Lookup, answer: Answer) => void;
  /** Called when the child exited, could not be started, or was idle for a minute. */
  readonly ended: () => void;
}

const childAnswer = z.object({
  id: z.number(),
  code: z.string().optional(),
  addresses: z.array(z.object({ address: z.string(), family: z.number() })),
});

/** The variables that the resolver of the C library reads, and the one that Windows needs to start a program. */
const childVariables = ['RES_OPTIONS', 'LOCALDOMAIN', 'HOSTALIASES', 'SYSTEMROOT'];

/** A process that runs look-ups. Killing it ends them. */
class LookupChild {
  readonly startedAtMs = performance.now();
  /** Unanswered look-ups, including those that no caller waits for any more. */
  readonly lookups = new Map<number, Lookup>();
  readonly #child: ChildProcess;
  readonly #idle: NodeJS.Timeout;
  #count = 0;

  constructor(
    { nodePath, env }: Pick<NameResolverOptions, 'nodePath' | 'env'>,
    { answered, ended }: ChildEvents,
  ) {
    const read = childVariables.map((name) => [name, env[name]]);
    // The child runs the source text of a function, so it works the same from sources and in a bundle.
    const source = `(${String(answerLookups)})(process, process.getBuiltinModule('node:dns'))`;
    this.#child = spawn(nodePath, ['--input-type=commonjs', '-e', source], {
      env: { ...Object.fromEntries(read), UV_THREADPOOL_SIZE: String(2 * childLookups) },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      serialization: 'json',
      windowsHide: true,
    });
    // An idle child must not keep this process alive. It ends when this process does.
    this.#child.unref();
    this.#child.channel?.unref();
    this.#idle = setTimeout(() => {
      if (this.lookups.size === 0) ended();
    }, childIdleMs).unref();
    for (const event of ['exit', 'disconnect', 'error']) this.#child.once(event, ended);
    this.#child.on('message', (message) => {
      const { id, code, addresses } = childAnswer.parse(message);
      const lookup = this.lookups.get(id);
      this.lookups.delete(id);
      this.#idle.refresh();
      if (!lookup) return;
      const error = Object.assign(new Error(`getaddrinfo ${code} ${lookup.host}`), { code });
      answered(lookup, code === undefined ? { addresses } : { error });
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  ask(lookup: Lookup): void {
    this.#count += 1;
    this.lookups.set(this.#count, lookup);
    // Sending fails only if the child has ended, which `ended` reports.
    this.#child.send({ id: this.#count, host: lookup.host }, () => undefined);
  }

  kill(): void {
    clearTimeout(this.#idle);
    this.#child.kill('SIGKILL');
  }
}

/** Runs in the child. */
function answerLookups(
  parent: Pick<NodeJS.Process, 'on' | 'send' | 'exit'>,
  dns: Pick<typeof nodeDns, 'lookup'>,
): void {
  parent.on('disconnect', () => parent.exit());
  parent.on('message', ({ id, host }: { id: number; host: string }) => {
    dns.lookup(host, { all: true }, (error, addresses) => {
      parent.send?.({ id, code: error?.code, addresses: error ? [] : addresses });
    });
  });
}

function errorOf(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

function tookTooLong(host: string): OutboundError {
  return new OutboundError('timeout', `resolving the name ${host} takes too long`);
}

function notResolved(host: string): OutboundError {
  return new OutboundError('unreachable', `${host} is not resolved: too many names take too long`);
}
