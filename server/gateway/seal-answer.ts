import type { GatewayAnswer } from './exchange.ts';
import { scanMessage } from './json-scan.ts';
import { ownedValues, type OwnedValue } from './owned-values.ts';
import type { PrincipalSeal } from './principal-seal.ts';
import { replaced } from './splice.ts';
import { SseEvents } from './sse-events.ts';

// A longer message is none that only hands out an id or a state: it goes on as it comes, and whatever
// it hands out is good for nobody, as nobody's seal is on it.
const maxBytes = 1024 * 1024;
const marks = ['"taskId"', '"requestState"'];

/**
 * An answer in which whatever the upstream bound to one caller is bound to this one: task ids and request
 * states are sealed, and ids of tasks that the caller keeps opened; every other byte stays.
 */
export function sealAnswer(answer: GatewayAnswer, seal: PrincipalSeal): GatewayAnswer {
  const { headers, body } = answer;
  if (body === undefined || typeof body === 'string') return answer;
  const isStream = headers['Content-Type'] === 'text/event-stream';
  if (body instanceof Uint8Array) {
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    if (isStream || !isMarked(bytes)) return answer;
    return { ...answer, body: sealMessage(bytes, seal) };
  }
  return { ...answer, body: isStream ? sealEvents(body, seal) : sealLong(body, seal) };
}

function isMarked(bytes: Buffer): boolean {
  return marks.some((mark) => bytes.includes(mark));
}

/** What cannot be read goes on as it is: nothing in it opens anything. */
function sealMessage(body: Buffer, seal: PrincipalSeal): Buffer {
  const scan = scanMessage(body);
  if (scan.outcome === 'refused') return body;
  const edits = ownedValues(body, scan.envelope, 'upstream').flatMap((owned) => {
    const text = sealed(owned, seal);
    return text === undefined ? [] : [{ span: owned.span, text: JSON.stringify(text) }];
  });
  return replaced(body, edits);
}

/** A task that the caller keeps gets the caller's own name for it back. */
function sealed({ kind, value, keeper }: OwnedValue, seal: PrincipalSeal): string | undefined {
  if (value === undefined) return undefined;
  const own = keeper === 'upstream' ? undefined : seal.open('ownTask', value);
  return own ?? (keeper === 'caller' ? value : seal.seal(kind, value));
}

async function* sealEvents(
  body: AsyncIterable<Uint8Array>,
  seal: PrincipalSeal,
): AsyncGenerator<Uint8Array> {
  const splitter = new SseEvents({ maxBytes, passLarge: true });
  for await (const chunk of body) {
    for (const { raw, data, id, event } of splitter.push(chunk)) {
      const message = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
      if (!isMarked(message)) {
        yield raw;
        continue;
      }
      const line = sealMessage(message, seal).toString('utf8').replaceAll('\n', '\ndata: ');
      const fields = [
        ...(id === undefined ? [] : [`id: ${id}`]),
        ...(event === undefined ? [] : [`event: ${event}`]),
        `data: ${line}`,
      ];
      yield Buffer.from(`${fields.join('\n')}\n\n`);
    }
  }
}

/** Held back while it is short; once it turns out to be long it is passed on as it comes. */
async function* sealLong(
  body: AsyncIterable<Uint8Array>,
  seal: PrincipalSeal,
): AsyncGenerator<Uint8Array> {
  let held: Uint8Array[] | undefined = [];
  let bytes = 0;
  for await (const chunk of body) {
    if (!held) {
      yield chunk;
      continue;
    }
    held.push(chunk);
    bytes += chunk.length;
    if (bytes <= maxBytes) continue;
    yield* held;
    held = undefined;
  }
  if (!held) return;
  const message = Buffer.concat(held);
  yield isMarked(message) ? sealMessage(message, seal) : message;
}
