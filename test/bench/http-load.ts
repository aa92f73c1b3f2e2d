import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Pool } from 'undici';
import { runProgram } from '#support/processes';
import { lack } from '#support/requirements';
import { median } from './measurements.ts';

/** One POST, over and over. */
export interface Shot {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Load {
  readonly perSecond: number;
  readonly medianMs: number;
}

/** Loads a server with `shot` over `connections` for `seconds`. */
export type HttpLoad = (shot: Shot, connections: number, seconds: number) => Promise<Load>;

/** `wrk` where there is one; else a loop in this process, which is slower and takes more of the machine. */
export async function httpLoad(folder: string): Promise<{ name: string; load: HttpLoad }> {
  const words = { reason: '', install: '' };
  const noWrk = await lack({ ...words, commands: ['wrk'] });
  return noWrk ? { name: 'node', load: nodeLoad } : { name: 'wrk', load: wrkLoad(folder) };
}

/**
 * @throws {Error} when any answer was not 2xx or did not come: a fast refusal is no throughput
 */
function wrkLoad(folder: string): HttpLoad {
  const script = join(folder, 'shot.lua');
  return async ({ url, headers, body }, connections, seconds) => {
    const lines = Object.entries(headers).map(
      ([name, value]) => `wrk.headers[${JSON.stringify(name)}] = ${JSON.stringify(value)}`,
    );
    lines.push('wrk.method = "POST"', `wrk.body = ${JSON.stringify(body)}`);
    await writeFile(script, lines.join('\n'), { mode: 0o600 });
    const options = ['-t', '1', '-c', String(connections), '-d', `${seconds}s`, '--latency'];
    const { code, stdout, stderr } = await runProgram('wrk', {
      args: [...options, '-s', script, url],
      timeoutMs: (seconds + 10) * 1000,
    });
    const rate = /Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1];
    const half = /50%\s+([\d.]+)(us|ms|s)\b/.exec(stdout);
    if (code !== 0 || !rate || !half || /Non-2xx|Socket errors/.test(stdout)) {
      throw new Error(`wrk ${url}: ${stdout}${stderr}`);
    }
    const unitMs = { us: 0.001, ms: 1, s: 1000 }[half[2] ?? ''] ?? Number.NaN;
    return { perSecond: Number(rate), medianMs: Number(half[1]) * unitMs };
  };
}

const nodeLoad: HttpLoad = async ({ url, headers, body }, connections, seconds) => {
  const { origin, pathname } = new URL(url);
  const pool = new Pool(origin, { connections });
  const times: number[] = [];
  const startedAt = performance.now();
  const lane = async () => {
    while (performance.now() - startedAt < seconds * 1000) {
      const sentAt = performance.now();
      const answer = await pool.request({ method: 'POST', path: pathname, headers, body });
      await answer.body.dump();
      if (answer.statusCode >= 300) throw new Error(`${url}: ${answer.statusCode}`);
      times.push(performance.now() - sentAt);
    }
  };
  try {
    await Promise.all(Array.from({ length: connections }, lane));
  } finally {
    await pool.destroy();
  }
  const perSecond = times.length / ((performance.now() - startedAt) / 1000);
  return { perSecond, medianMs: median(times) };
};
