import { join } from 'node:path';

import { revisions } from './client-scenarios.ts';
import { suiteGateway, upstreamKinds } from './suite-gateway.ts';
import { suiteUpstream } from './suite-upstream.ts';
import { passedOf, scenariosOf, suiteVerdicts } from './suite-verdicts.ts';

/** The suite reports `INFO` for an answer in JSON where it looks for a stream, because streams are optional. */
const allows: ReadonlySet<string> = new Set(['SUCCESS', 'INFO']);

/**
 * Runs the suite's server scenarios, both requirement sets, against an MCP server made for them and through the gateway,
 * which reaches that server over HTTP, as a command of its machine, and behind an agent. A check that passes directly but
 * not through the gateway is a failure of the gateway. `wanted` names scenarios or kinds of upstream.
 */
export async function runServerScenarios(
  wanted: readonly string[],
  out: string,
  print: (line: string) => void,
): Promise<{ failures: number; total: number }> {
  const isKind = (word: string) => upstreamKinds.some((kind) => kind === word);
  const scenarios = wanted.filter((word) => !isKind(word));
  const kinds = upstreamKinds.filter((kind) => wanted.includes(kind) || !wanted.some(isKind));
  const upstream = await suiteUpstream();
  await using stack = new AsyncDisposableStack();
  stack.defer(() => upstream.close());
  const { urls } = stack.use(await suiteGateway(upstream.url, kinds));
  let failures = 0;
  let total = 0;
  print(`| scenario | revision | directly | ${kinds.join(' | ')} |`);
  print(`| --- | --- | --- |${' --- |'.repeat(kinds.length)}`);
  for (const revision of revisions) {
    const run = async (url: string, place: string) =>
      suiteVerdicts(url, { revision, wanted: scenarios, out: join(out, `${revision} ${place}`) });
    const direct = await run(upstream.url, 'directly');
    const through = new Map<string, Awaited<ReturnType<typeof run>>>();
    for (const [kind, url] of urls) through.set(kind, await run(url, kind));
    for (const scenario of scenariosOf(direct)) {
      const places = [direct, ...through.values()].map((all) => passedOf(all, scenario));
      print(`| ${scenario} | ${revision} | ${places.join(' | ')} |`);
      for (const [check, { status }] of direct) {
        if (!check.startsWith(`${scenario} `)) continue;
        for (const [kind, all] of through) {
          const here = all.get(check);
          total += 1;
          if (status !== 'SUCCESS' || allows.has(here?.status ?? '')) continue;
          failures += 1;
          print(`${kind}: ${check}: ${here?.status ?? 'missing'} ${here?.errorMessage ?? ''}`);
        }
      }
    }
  }
  return { failures, total };
}
