import type { Scope } from '#credentials/scope';
import { eventsIn } from './event-stream.ts';
import { scanMessage } from './json-scan.ts';
import type { Upstream, UpstreamAnswer } from './upstream.ts';

/** What is told of, by the scope without which nobody hears of it. */
const scopeByPrefix: ReadonlyArray<readonly [string, Scope]> = [
  ['notifications/tools/', 'mcp:tools:read'],
  // Of 2025-11-25, and of the tasks extension, whose own has nothing behind it.
  ['notifications/tasks', 'mcp:tools:execute'],
  ['notifications/resources/', 'mcp:resources:read'],
  ['notifications/prompts/', 'mcp:resources:read'],
];

/**
 * An upstream of whose notifications a caller hears those that its `scopes` cover; of what it may not list or
 * read it does not hear that it changed, nor what could be read as such. Itself where that is all of them.
 */
export function heardUpstream(upstream: Upstream, scopes: readonly Scope[]): Upstream {
  // As it is for nearly every call.
  if (scopeByPrefix.every(([, scope]) => scopes.includes(scope))) return upstream;
  const missing = scopeByPrefix.filter(([, scope]) => !scopes.includes(scope));
  const unheard = missing.map(([prefix]) => prefix);
  return {
    async send(request) {
      const answer = await upstream.send(request);
      if (answer.mediaType !== 'text/event-stream') return answer;
      return { ...answer, body: without(answer.body, unheard) };
    },
  };
}

async function* without(
  body: UpstreamAnswer['body'],
  unheard: readonly string[],
): AsyncGenerator<Uint8Array> {
  for await (const { raw, data } of eventsIn(body)) if (!isUnheard(data, unheard)) yield raw;
}

function isUnheard(data: Uint8Array, unheard: readonly string[]): boolean {
  const text = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  // Only a text with an escape in it can hide the words.
  if (!text.includes('notifications/') && !text.includes('\\')) return false;
  const scan = scanMessage(data);
  if (scan.outcome === 'refused') return true;
  const { method = '' } = scan.envelope;
  return unheard.some((prefix) => method.startsWith(prefix));
}
