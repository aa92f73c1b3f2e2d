import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { toolsList } from '#support/mcp-call';
import { wireProxy, type WireProxy } from '#support/wire-proxy';
import {
  admin,
  createServer,
  createServerKey,
  keyCall,
  openRecords,
  type Records,
} from './credentials.ts';
import { Installation } from './installation.ts';
import { answered, type OwnPostgres } from './machinery.ts';
import { isAccepted, send, sendTo, Tally, wordFor } from './send.ts';

export interface FailoverReport {
  readonly synchronous: Takeover;
  readonly asynchronous: Takeover;
  /** The error of a node that starts while an asynchronous standby is attached; empty if it starts. */
  readonly refusal: string;
  readonly violations: readonly string[];
}

/** The result of a run in which the primary was killed and its standby took over. */
export interface Takeover {
  readonly answeredRevocations: number;
  /** Keys that were let in again after the standby had taken over. */
  readonly lostRevocations: number;
  readonly unansweredRevocations: Tally;
  /** From the kill of the primary to the first call that was served. */
  readonly servedAfterMs: number;
  /** From the moment at which the new primary accepted connections to the first call that was served. */
  readonly servedAfterPromotionMs: number;
  readonly acceptedAfterAnswer: readonly string[];
}

const nodes = 2;
const keys = 1000;
const revokers = 4;
/** How long the standby receives nothing before the primary is killed, as on a slow network. */
const lagMs = 400;
const standbyName = 'second';

const list = (key: string) => keyCall('library', key, toolsList);

/** Kills the primary in a storm of revocations, with a synchronous and then with an asynchronous standby. */
export async function failover(log: (line: string) => void): Promise<FailoverReport> {
  const synchronous = await takeover({ isSynchronous: true, log });
  const asynchronous = await takeover({ isSynchronous: false, log });
  const violations = [
    ...[synchronous, asynchronous].flatMap(({ acceptedAfterAnswer }) => acceptedAfterAnswer),
    ...(synchronous.lostRevocations > 0
      ? [`${synchronous.lostRevocations} revocations lost with a synchronous standby`]
      : []),
    ...(asynchronous.refusal.includes('--allow-async-standby')
      ? []
      : [`a node started with an asynchronous standby: ${asynchronous.refusal}`]),
  ];
  const { refusal, ...rest } = asynchronous;
  const { refusal: _, ...strict } = synchronous;
  return { synchronous: strict, asynchronous: rest, refusal, violations };
}

async function takeover({
  isSynchronous,
  log,
}: {
  isSynchronous: boolean;
  log: (line: string) => void;
}): Promise<Takeover & { refusal: string }> {
  await using stack = new AsyncDisposableStack();
  // The address that nodes know: it leads to the primary, and later to the standby that took over.
  const place = { host: '127.0.0.1', port: 0 };
  const wire = stack.use(await wireProxy(place));
  const installation = stack.use(
    await Installation.create({
      size: 0,
      databaseUrl: (own) => wire.through(own),
      nodeArgs: isSynchronous ? [] : ['--allow-async-standby'],
    }),
  );
  const { postgres } = installation;
  place.port = postgres.port;
  const replication = stack.use(await wireProxy({ host: '127.0.0.1', port: postgres.port }));
  const standby = stack.use(
    await postgres.createStandby(installation.folder, {
      name: standbyName,
      port: replication.port,
    }),
  );
  if (isSynchronous) await makeSynchronous(postgres);
  const refusal = isSynchronous ? '' : await refusedStart(installation);
  for (let at = 0; at < nodes; at += 1) await installation.addNode();
  const records = stack.use(await openRecords(installation));
  const revocables = await createKeys(records);
  log(`${isSynchronous ? 'synchronous' : 'asynchronous'} standby: ${keys} keys`);
  const result = await killInStorm({
    installation,
    records,
    revocables,
    wire,
    place,
    replication,
    standby,
  });
  return { ...result, refusal };
}

interface KeyRevocation {
  readonly id: string;
  readonly key: string;
  isAnswered: boolean;
}

async function createKeys(records: Records): Promise<KeyRevocation[]> {
  const serverId = await createServer(records, 'library');
  const made: KeyRevocation[] = [];
  for (let n = 0; n < keys; n += 1) {
    const { id, key } = await createServerKey(records, serverId, `key ${n}`);
    made.push({ id, key, isAnswered: false });
  }
  return made;
}

async function makeSynchronous(postgres: OwnPostgres): Promise<void> {
  await postgres.query(`alter system set synchronous_standby_names = '${standbyName}'`);
  await postgres.query('select pg_reload_conf()');
  await answered('the standby', async () => {
    const [row] = await postgres.query<{ state: string }>(
      'select sync_state as state from pg_stat_replication',
    );
    if (row?.state !== 'sync') throw new Error(`it is ${row?.state}`);
  });
}

/** Starts a node without the option that allows the standby. Returns its error, or an empty text if it starts. */
async function refusedStart(installation: Installation): Promise<string> {
  await answered('the standby', async () => {
    const rows = await installation.postgres.query<object>('select 1 from pg_stat_replication');
    if (rows.length === 0) throw new Error('it is not attached');
  });
  try {
    const node = await installation.addNode({ isStrict: true });
    await node.stop();
    return '';
  } catch (error) {
    return /latchkey-server: .*(?:\nhint: .*)?/.exec(String(error))?.[0] ?? String(error);
  }
}

async function killInStorm({
  installation,
  records,
  revocables,
  wire,
  place,
  replication,
  standby,
}: {
  installation: Installation;
  records: Records;
  revocables: readonly KeyRevocation[];
  wire: WireProxy;
  place: { port: number };
  replication: WireProxy;
  standby: OwnPostgres;
}): Promise<Takeover> {
  const unanswered = new Tally();
  const accepted: string[] = [];
  const [witness, ...others] = revocables;
  if (!witness) throw new Error('there are no keys');
  let next = 0;
  const ending = new AbortController();
  const revoker = async () => {
    while (!ending.signal.aborted && next < others.length) {
      const one = others[next];
      next += 1;
      if (!one) return;
      const reply = await send(installation, admin(records, 'DELETE', `/keys/${one.id}`));
      if (reply.outcome === 'answer' && reply.status < 300) {
        one.isAnswered = true;
        for (const node of installation.nodes) {
          const after = await sendTo(node, installation, list(one.key));
          // After the kill the revocation may have been lost, which is counted below.
          if (isAccepted(after) && !ending.signal.aborted)
            accepted.push(`${one.id} at ${node.name}`);
        }
      } else unanswered.add(wordFor(reply));
    }
  };
  const revoking = Promise.all(Array.from({ length: revokers }, revoker));
  while (next < others.length / 4) await pause(20);
  replication.stall();
  await pause(lagMs);
  await installation.postgres.kill();
  const killedAtMs = performance.now();
  ending.abort();
  await replication.cut();
  await standby.promote();
  const promotedAtMs = performance.now();
  place.port = standby.port;
  // The connections to the dead primary are gone; new ones lead to the standby.
  await wire.cut();
  await wire.mend();
  await answered('the installation', async () => {
    const reply = await send(installation, list(witness.key));
    if (!isAccepted(reply)) throw new Error(wordFor(reply));
  });
  const servedAtMs = performance.now();
  await revoking;
  let lost = 0;
  const answeredOnes = others.filter(({ isAnswered }) => isAnswered);
  for (const { key } of answeredOnes) {
    await answered('the installation', async () => {
      const reply = await send(installation, list(key));
      if (isAccepted(reply)) lost += 1;
      else if (reply.outcome !== 'answer' || reply.status !== 401) throw new Error(wordFor(reply));
    });
  }
  return {
    answeredRevocations: answeredOnes.length,
    lostRevocations: lost,
    unansweredRevocations: unanswered,
    servedAfterMs: Math.round(servedAtMs - killedAtMs),
    servedAfterPromotionMs: Math.round(servedAtMs - promotedAtMs),
    acceptedAfterAnswer: accepted,
  };
}
