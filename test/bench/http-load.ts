import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { request } from 'undici';
import { runProgram } from '#support/processes';
import { lack } from '#support/requirements';
import { median } from './measurements.ts';
import { numberHere, type Shot } from './shot.ts';
import { socketLoad } from './socket-load.ts';

const numbers = 4096;

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
      // `wrk` adds a Host of its own unless this header is spelled `Host`.
      ([name, value]) =>
        `wrk.headers[${JSON.stringify(name === 'host' ? 'Host' : name)}] = ${JSON.stringify(value)}`,
    );
    // Each request is made once: making one costs the same for every contender, and next to nothing.
    lines.push(
      'wrk.method = "POST"',
      'local made, at = {}, 0',
      'function init()',
      `  for n = 1, ${numbers} do made[n] = wrk.format(nil, nil, nil, (string.gsub(${JSON.stringify(body)}, "%%NUMBER%%", n))) end`,
      'end',
      `function request() at = at % ${numbers} + 1 return made[at] end`,
    );
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

const nodeLoad: HttpLoad = async (shot, connections, seconds) => {
  const { perSecond, times } = await socketLoad(shot, connections, { seconds });
  return { perSecond, medianMs: median(times) };
};

/** Checks one answer before the race, because a refusal is fast too. */
export async function answers({ url, headers, body }: Shot, wanted: string): Promise<void> {
  const numbered = body.replace(numberHere, '1');
  // Not `fetch`, which does not send a given Host.
  const response = await request(url, { method: 'POST', headers, body: numbered });
  const text = await response.body.text();
  if (response.statusCode >= 300 || !text.includes(wanted)) {
    throw new Error(`${url} answers ${response.statusCode} ${text}`);
  }
}
