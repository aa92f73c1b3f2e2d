import type { EndSignal } from '#model/ending';
import { GatheredBytes } from 'latchkey-mcp/gathered-bytes';
import { memberOf } from 'latchkey-mcp/json-value';
import { requestHeaders } from 'latchkey-mcp/tunnel-frames';
import { z } from 'zod';
import type { Gateway } from '#gateway/gateway';
import { GatewayRefusal, refusalMeanings } from '#gateway/gateway-refusal';
import type { NodeCall } from '#gateway/other-nodes';
import type { GatewayAnswer } from '#gateway/request';
import { isScope } from '#model/scopes';
import { type LinkStream, NodeLinkError } from './link-stream.ts';
import type { NodeLinks } from './node-links.ts';

/** A longer body is streamed. */
const shortBytes = 64 * 1024;
const maxHeaderBytes = 32 * 1024;

const ownSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('key'), keyHash: z.string() }),
  z.object({
    type: z.literal('token'),
    claims: z.object({
      id: z.string(),
      subject: z.string(),
      clientId: z.string(),
      grantId: z.string().optional(),
      audience: z.string(),
      scopes: z.array(z.string().refine(isScope)),
      issuedAt: z.number(),
      expiresAt: z.number(),
    }),
  }),
  z.object({ type: z.literal('person'), userId: z.string() }),
]);

const provedSchema = z.union([
  ownSchema,
  z.object({ type: z.literal('member'), collection: z.string(), proved: ownSchema }),
]);

/** The opening of a stream: a call to the gateway of another node. */
const gatewayCallSchema = z.object({
  to: z.literal('gateway'),
  request: z.string(),
  organization: z.string(),
  server: z.string(),
  method: z.enum(['POST', 'GET', 'DELETE']),
  headers: z.record(z.string(), z.string()),
  address: z.string().optional(),
  proved: provedSchema,
});

/** Whether a stream that another node opened is a call to the gateway here. */
export function isForGateway(opening: unknown): boolean {
  return memberOf(opening, 'to') === 'gateway';
}

const answerSchema = z.object({
  status: z.int().min(200).max(599),
  headers: z.record(z.string(), z.string()),
  /** The length of a body that is sent whole. */
  bytes: z.number().optional(),
  errorCode: z.number().optional(),
  refused: z.enum(refusalMeanings).optional(),
});

/**
 * Sends a call to the node that has its session, at most once.
 *
 * @throws {GatewayRefusal} `unknown_session`, `node_unreachable`, `node_lost`, `too_large`
 */
export async function callNode(
  links: Pick<NodeLinks, 'open'>,
  instance: string,
  { request, proved, body, signal }: NodeCall,
): Promise<GatewayAnswer> {
  const { id, organization, server, method, address } = request;
  const headers = forwardedHeaders(request.headers);
  if (JSON.stringify(headers).length > maxHeaderBytes) {
    throw new GatewayRefusal('too_large', { detail: 'its headers' });
  }
  const opening = { to: 'gateway', request: id, organization, server, method, headers };
  try {
    const stream = await links.open(instance, { ...opening, address, proved });
    cancelWith(signal, stream);
    sendBody(stream, body);
    const { bytes, headers: answered, ...head } = await headIn(stream, answerSchema);
    return {
      ...head,
      headers: answered,
      ...(bytes !== 0 && { body: await bodyIn(stream, bytes) }),
    };
  } catch (error) {
    throw error instanceof NodeLinkError ? sessionRefusal(error) : error;
  }
}

/** Answers a call that another node admitted and sent here. The gateway admits it again, and passes it to no other node. */
export async function answerNode(
  opening: unknown,
  stream: LinkStream,
  { gateway, maxBodyBytes }: { gateway: Pick<Gateway, 'handle'>; maxBodyBytes: number },
): Promise<void> {
  const call = gatewayCallSchema.safeParse(opening).data;
  if (!call) return stream.reset('unreadable');
  const { request: id, organization, server, method, headers, address, proved } = call;
  const answer = await gateway.handle({
    id,
    organization,
    server,
    method,
    headers,
    address,
    proved,
    isPassedOn: true,
    rawHeaders: [],
    async readBody(arrived, signal) {
      const end = () => stream.reset('ended');
      signal?.addEventListener('abort', end, { once: true });
      try {
        return await wholeBody(stream, maxBodyBytes, arrived);
      } finally {
        // A call that ends after its body was read still gets an answer.
        signal?.removeEventListener('abort', end);
      }
    },
    gone: stream.gone,
  });
  const { status, headers: answered, errorCode, refused, body = '', sent, whenGivenUp } = answer;
  whenGivenUp?.(() => stream.reset('busy'));
  await sendAnswer(stream, { status, headers: answered, errorCode, refused }, body);
  sent?.();
}

/** Ends the call at the other node when its caller is gone. */
export function cancelWith(signal: EndSignal, stream: LinkStream): void {
  const cancel = () => stream.cancel();
  if (signal.aborted) cancel();
  else signal.addEventListener('abort', cancel, { once: true });
}

/** Sends a request's body, at the speed of the other node. */
export function sendBody(stream: LinkStream, body: Uint8Array = new Uint8Array()): void {
  if (stream.endWith(body)) return;
  void stream.write(body).then(() => stream.end());
}

/**
 * The whole body of a stream. `arrived` is called with the length of each part.
 *
 * @throws {GatewayRefusal} `too_large`, `cancelled`, and the errors of `arrived`
 */
export async function wholeBody(
  stream: LinkStream,
  maxBytes: number,
  arrived: (bytes: number) => void = () => {},
): Promise<Buffer> {
  const check = (length: number) => {
    if (length <= maxBytes) return;
    throw new GatewayRefusal('too_large', { detail: `at most ${maxBytes} bytes are taken` });
  };
  const whole = stream.takeWhole();
  if (whole) {
    check(whole.length);
    if (whole.length > 0) arrived(whole.length);
    return whole;
  }
  const body = new GatheredBytes();
  try {
    for await (const chunk of stream.body()) {
      check(body.length + chunk.length);
      arrived(chunk.length);
      body.add(chunk);
    }
  } catch (cause) {
    throw cause instanceof NodeLinkError ? new GatewayRefusal('cancelled', { cause }) : cause;
  }
  return body.whole();
}

/** Sends an answer, with its body whole or streamed. */
export async function sendAnswer(
  stream: LinkStream,
  head: object,
  body: NonNullable<GatewayAnswer['body']>,
): Promise<void> {
  try {
    if (typeof body === 'string' || body instanceof Uint8Array) {
      const whole = typeof body === 'string' ? Buffer.from(body) : body;
      stream.sendHead({ ...head, bytes: whole.length });
      if (stream.endWith(whole)) return;
      await stream.write(whole);
    } else {
      stream.sendHead(head);
      // If the caller disconnects, keep reading: the gateway decides whether the call goes on.
      for await (const chunk of body) await stream.write(chunk);
    }
    stream.end();
  } catch {
    stream.reset('broken');
  }
}

/** The head of an answer. @throws {NodeLinkError} */
export async function headIn<Head>(stream: LinkStream, schema: z.ZodType<Head>): Promise<Head> {
  const head = schema.safeParse(await stream.head);
  if (head.success) return head.data;
  stream.reset('unreadable');
  throw new NodeLinkError('broken', 'the head of the answer cannot be read');
}

/** The body of an answer: whole if it is short or has arrived with its head, otherwise streamed. */
export async function bodyIn(
  stream: LinkStream,
  bytes: number | undefined,
): Promise<Uint8Array | AsyncIterable<Uint8Array>> {
  const whole = stream.takeWhole();
  if (whole) return whole;
  if (bytes === undefined || bytes > shortBytes) return stream.body();
  const body = new GatheredBytes();
  for await (const chunk of stream.body()) body.add(chunk);
  return body.whole();
}

/** The headers that the gateway reads, without credentials. */
function forwardedHeaders(headers: NodeCall['request']['headers']): Record<string, string> {
  const single: Record<string, string> = {};
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (typeof value === 'string') single[name] = value;
  }
  return requestHeaders(single);
}

function sessionRefusal(error: NodeLinkError): GatewayRefusal {
  switch (error.code) {
    case 'gone':
      return new GatewayRefusal('unknown_session', { cause: error });
    case 'unreachable':
      return new GatewayRefusal('node_unreachable', { detail: 'this session', cause: error });
    case 'reset':
      // A stopping node has not begun this call, and its sessions end with it.
      if (error.reset?.code === 'stopping')
        return new GatewayRefusal('unknown_session', { cause: error });
      return new GatewayRefusal('node_lost', { cause: error });
    case 'broken':
      return new GatewayRefusal('node_lost', { cause: error });
  }
}
