import { connectRequestKey } from './account-words.ts';
import { membersIn } from './json-parts.ts';
import { scanMessage, type Envelope } from './json-scan.ts';
import { replaced } from './splice.ts';

interface Message {
  readonly body: Buffer;
  readonly envelope: Envelope;
}

/**
 * A retry without the response to our own request to connect an account, which the upstream never put and which is none
 * of its business; without `inputResponses` where that was all. Every other byte stays.
 *
 * MCP 2026-07-28 "Multi Round-Trip Requests"
 */
export function withoutConnectResponse({ body, envelope }: Message): Message {
  const { params } = envelope;
  if (!params || !body.includes(connectRequestKey)) return { body, envelope };
  const given = membersIn(body, params).get('inputResponses');
  const responses = given && membersIn(body, given);
  if (!given || !responses?.delete(connectRequestKey)) return { body, envelope };
  const rest = membersIn(body, params);
  if (responses.size === 0) rest.delete('inputResponses');
  const edit =
    responses.size === 0
      ? { span: params, text: objectOf(body, rest) }
      : { span: given, text: objectOf(body, responses) };
  const stripped = replaced(body, [edit]);
  const scan = scanMessage(stripped);
  return scan.outcome === 'message'
    ? { body: stripped, envelope: scan.envelope }
    : { body, envelope };
}

function objectOf(body: Buffer, members: ReturnType<typeof membersIn>): string {
  const texts = [...members].map(
    ([name, { start, end }]) => `${JSON.stringify(name)}:${body.toString('utf8', start, end)}`,
  );
  return `{${texts.join(',')}}`;
}
