// Properties of event streams, headers, translated messages and frames of the tunnel of every kind.
import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { decodeHeader, encodeHeader, parameterHeaders } from '#mcp/headers';
import { type Message, messageOf, valueAt } from '#mcp/message';
import { messageEvent, SseEvents, withEventId, type SseEvent } from '#mcp/sse';
import {
  type ClientDescription,
  clientOf,
  legacyRequest,
  legacyResult,
  metaPrefix,
  modernRequest,
  modernResult,
} from '#mcp/translation';
import {
  creditFrame,
  frameType,
  jsonFrame,
  maxPayloadBytes,
  readBound,
  readCredit,
  readFrame,
  readHead,
  readHello,
  readLeft,
  readOpen,
  readReset,
  requestHeaders,
  writeFrame,
} from '#mcp/tunnel-frames';
import { chunked, cuts, ensure, type Property } from './properties.ts';
import { parsed, wireFrame } from './wire-frames.ts';

type Fields = Pick<SseEvent, 'id' | 'event' | 'retryMs' | 'isComment'> & { data: string };

/** The events of a stream, without regard to chunks. HTML Living Standard §9.2.5, §9.2.6 */
function referenceEvents(stream: string, printableIds: boolean): Fields[] {
  const events: Fields[] = [];
  const lines = stream.replace(/^\ufeff/, '').split(/\r\n|\r|\n/);
  // The text after the last line end is not a line yet.
  lines.pop();
  let block: string[] = [];
  for (const line of lines) {
    if (line !== '') block.push(line);
    else if (block.length > 0) {
      events.push(referenceEvent(block, printableIds));
      block = [];
    }
  }
  return events;
}

function referenceEvent(lines: readonly string[], printableIds: boolean): Fields {
  const event: Fields = { data: '' };
  let data: string | undefined;
  let isComment = true;
  for (const line of lines) {
    const [, name = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name !== '') isComment = false;
    if (name === 'data') data = data === undefined ? value : `${data}\n${value}`;
    else if (name === 'event') event.event = value;
    else if (name === 'retry' && /^[0-9]{1,9}$/.test(value)) event.retryMs = Number(value);
    // oxlint-disable-next-line no-control-regex
    else if (name === 'id' && !(printableIds ? /[\0-\x1f\x7f]/ : /\0/).test(value))
      event.id = value;
  }
  return { ...event, data: data ?? '', ...(isComment && { isComment }) };
}

function read(chunks: readonly Buffer[], printableIds = false): { events: Fields[]; raw: Buffer } {
  const parser = new SseEvents({ maxBytes: 1_000_000, printableIds });
  const events: Fields[] = [];
  const raws: Buffer[] = [];
  for (const chunk of chunks)
    for (const { raw, data, ...fields } of parser.push(chunk)) {
      events.push({ ...fields, data: data.toString() });
      raws.push(raw);
    }
  return { events, raw: Buffer.concat(raws) };
}

/** Objects as JSON.parse makes them. */
const record = <T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record(model, { noNullPrototype: true });

const fieldName = fc.constantFrom(
  'data',
  'id',
  'event',
  'retry',
  'Data',
  'datax',
  '',
  '\ufeffdata',
  'da ta',
);
const fieldValue = fc.oneof(
  fc.constantFrom(
    '',
    ' ',
    '  x',
    '0',
    '50',
    '1e3',
    '-1',
    '9999999999',
    '{"é":1}',
    'a\0b',
    'a\tb',
    ':',
    '😀',
    '\ufeff',
  ),
  fc.string({ maxLength: 5 }).map((text) => text.replaceAll(/[\r\n]/g, '')),
);
const line = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(fieldName, fc.constantFrom(':', ': '), fieldValue)
      .map((parts) => parts.join('')),
  },
  { weight: 1, arbitrary: fieldName },
  { weight: 3, arbitrary: fc.constant('') },
);
const stream = fc
  .tuple(
    fc.constantFrom('', '', '\ufeff', '\ufeff\ufeff', '\n\ufeff'),
    fc.array(fc.tuple(line, fc.constantFrom('\n', '\r\n', '\r')), { maxLength: 14 }),
    fc.constantFrom('', '', 'data: rest', '\n\n'),
  )
  .map(([start, lines, rest]) => start + lines.map((parts) => parts.join('')).join('') + rest);

const noBreak = (text: string) => text.replaceAll(/[\r\n\0]/g, '');
const eventFields = fc.record(
  {
    id: fc.string({ unit: 'grapheme', maxLength: 4 }).map(noBreak),
    event: fc.string({ unit: 'grapheme', maxLength: 4 }).map(noBreak),
    retryMs: fc.nat(999_999_999),
  },
  { requiredKeys: [], noNullPrototype: true },
);
const messageText = fc
  .array(fc.constantFrom('{', '"é"', ':', '1', '😀', ' ', '\n', '\r', '\r\n', 'data:', '}'), {
    maxLength: 8,
  })
  .map((parts) => parts.join(''));

const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.string({ unit: 'binary-ascii', maxLength: 12 }),
  fc
    .tuple(
      fc.constantFrom('=?', '=?base64?', '=?BASE64?', ' '),
      fc.base64String({ maxLength: 8 }),
      fc.constantFrom('', '?=', '\t'),
    )
    .map((parts) => parts.join('')),
);

const plainName = fc.constantFrom('a', 'b', 'é', 'name', 'uri', 'progress');
/** JSON texts that a round trip through a parser would change. */
const jsonValue = fc.oneof(
  fc.constantFrom(
    '1.50',
    '12345678901234567890',
    '1e400',
    '"\\u00e9"',
    'null',
    '{"n":1e2}',
    '[ 1 ,2]',
    '""',
  ),
  fc
    .jsonValue({ maxDepth: 2 })
    .map((value) => JSON.stringify(value).replaceAll('__proto__', 'proto')),
);
const objectOf = (members: ReadonlyMap<string, string>) =>
  `{${[...members].map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`;
const members = fc
  .array(fc.tuple(plainName, jsonValue), { maxLength: 3 })
  .map((list) => new Map(list));
const client = record({
  capabilities: fc.constantFrom('{}', '{"sampling":{}}', '{"elicitation":{"form":{}}}'),
  clientInfo: fc.constantFrom(undefined, '{"name":"c","version":"1.0"}'),
  logLevel: fc.constantFrom(undefined, 'debug', 'info'),
});
const id = fc.constantFrom('1', '"é"', '12345678901234567890', '"a\\nb"');

function isMessage(text: string): Message | undefined {
  try {
    return messageOf(text);
  } catch {
    return undefined;
  }
}

const headerName = fc.constantFrom(
  'content-type',
  'accept',
  'mcp-session-id',
  'mcp-param-a-b',
  'mcp-name',
  'cookie',
  'authorization',
  'Accept',
  'mcp-param-',
);
const headerText = fc.string({ maxLength: 6 });
const headers = fc.dictionary(headerName, headerText, { maxKeys: 4, noNullPrototype: true });
const someName = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 });

export const wireProperties: Record<string, Property> = {
  'an event stream is read as WHATWG says, however it is cut': fc.property(
    stream,
    cuts,
    fc.boolean(),
    (text, at, printableIds) => {
      const bytes = Buffer.from(text);
      const { events, raw } = read(chunked(bytes, at), printableIds);
      const expected = referenceEvents(text, printableIds);
      ensure(
        isDeepStrictEqual(events, expected),
        `read as ${JSON.stringify(events)}, not ${JSON.stringify(expected)}`,
      );
      const start = text.startsWith('\ufeff') ? 3 : 0;
      ensure(bytes.subarray(start, start + raw.length).equals(raw), 'bytes were lost');
    },
  ),

  'any bytes are an event stream, the same however they are cut': fc.property(
    fc.uint8Array({ maxLength: 40 }).map((bytes) =>
      // About half of the bytes are those that matter to the parser.
      Buffer.from(
        bytes.map((byte) =>
          byte % 2 === 0 ? byte : (Buffer.from('\r\n:d\ufeff')[byte % 7] ?? byte),
        ),
      ),
    ),
    cuts,
    (bytes, at) => {
      const [cut, whole] = [read(chunked(bytes, at)), read([bytes])];
      ensure(isDeepStrictEqual(cut.events, whole.events), 'cut, it reads another');
      const rest = whole.raw.subarray(cut.raw.length).toString();
      const isSame = whole.raw.subarray(0, cut.raw.length).equals(cut.raw);
      // The last event does not wait for the line feed of its last CRLF.
      ensure(isSame && (rest === '' || rest === '\n'), 'cut, it has other bytes');
    },
  ),

  'a message that is written as an event is read again, with the fields of its event': fc.property(
    messageText,
    fc.option(eventFields, { nil: undefined }),
    cuts,
    (text, fields, at) => {
      const written = messageEvent(Buffer.from(text), fields);
      const data = fields ? text.replaceAll(/\r\n|\r/g, '\n') : text.replaceAll(/[\r\n]+/g, ' ');
      const expected = [{ ...(fields ?? { event: 'message' }), data }];
      const { events } = read(chunked(written, at));
      ensure(isDeepStrictEqual(events, expected), `read as ${JSON.stringify(events)}`);
    },
  ),

  'an event that gets an id keeps everything else': fc.property(stream, (text) => {
    const parser = new SseEvents({ maxBytes: 1_000_000 });
    for (const event of parser.push(Buffer.from(text))) {
      const [{ id: given, ...numbered } = { data: '' }, ...more] = read([
        withEventId(event, 'ours-1'),
      ]).events;
      const { raw: _raw, id: _id, isComment: _isComment, data, ...fields } = event;
      ensure(given === 'ours-1' && more.length === 0, 'not one event with the id');
      ensure(isDeepStrictEqual(numbered, { ...fields, data: data.toString() }), 'another event');
    }
  }),

  'a header value is read again, and is valid in a header': fc.property(anyText, (text) => {
    const header = encodeHeader(text);
    ensure(decodeHeader(header) === text.toWellFormed(), `decoded as ${decodeHeader(header)}`);
    ensure(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(header), `no header: ${header}`);
  }),

  'an argument that a header repeats is the one in the body': fc.property(jsonValue, (json) => {
    const header = parameterHeaders([{ path: ['a'], header: 'mcp-param-a' }], () => json)[
      'mcp-param-a'
    ];
    const value: unknown = JSON.parse(json);
    const isExact =
      typeof value === 'number' &&
      Number.isFinite(value) &&
      (Number.isSafeInteger(value) || !Number.isInteger(value));
    const hasHeader = isExact || typeof value === 'string' || typeof value === 'boolean';
    const expected = hasHeader ? String(value) : undefined;
    ensure(decodeHeader(header) === expected, `header ${header} of ${json}`);
  }),

  'a legacy request that was translated and back keeps its values': fc.property(
    record({ id, params: members, meta: fc.option(members, { nil: undefined }) }),
    client,
    fc.constantFrom('7', '"ours"'),
    ({ id: theirs, params, meta }, by: ClientDescription, ours) => {
      const withMeta = new Map([...params, ...(meta ? [['_meta', objectOf(meta)] as const] : [])]);
      const text = (of: string, given: ReadonlyMap<string, string>) =>
        `{"jsonrpc":"2.0","method":"tools/call","id":${of},"params":${objectOf(given)}}`;
      const request = isMessage(text(theirs, withMeta));
      if (!request) return;
      const modern = modernRequest(request, by);
      ensure(isDeepStrictEqual(clientOf(modern), by), 'another client');
      ensure(modern.envelope.protocolVersion === '2026-07-28', 'another version');
      const legacy = legacyRequest(modern, ours);
      ensure(!legacy.body.includes(metaPrefix), `kept: ${legacy.body.toString()}`);
      const expected = new Map([
        ...params,
        ...(meta && meta.size > 0 ? [['_meta', objectOf(meta)] as const] : []),
      ]);
      const again = isMessage(text(ours, expected));
      ensure(
        again !== undefined && isDeepStrictEqual(valueAt(legacy), valueAt(again)),
        `another: ${legacy.body.toString()}`,
      );
      for (const value of params.values())
        ensure(legacy.body.includes(value), `${value} in ${legacy.body.toString()}`);
    },
  ),

  'a legacy result that was translated and back keeps its values': fc.property(
    members,
    id,
    fc.constantFrom('tools/list', 'tools/call', 'resources/read', 'ping'),
    (result, theirs, method) => {
      const response = isMessage(`{"jsonrpc":"2.0","id":1,"result":${objectOf(result)}}`);
      if (!response) return;
      const modern = modernResult(response, method, '2');
      ensure(valueAt(modern, 'result', 'resultType') === 'complete', 'no type');
      const again = legacyResult(modern, method, theirs);
      ensure(again.envelope.id === theirs, 'another id');
      ensure(
        isDeepStrictEqual(valueAt(again, 'result'), valueAt(response, 'result')),
        again.body.toString(),
      );
      for (const value of result.values())
        ensure(again.body.includes(value), `${value} is missing`);
    },
  ),

  'a frame is read as it was written, by the tests’ own reader, too': fc.property(
    fc.constantFrom(...Object.values(frameType)),
    fc.nat(0xffff_ffff),
    fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
    (type, of, payload) => {
      const frame = writeFrame(type, of, payload);
      ensure(isDeepStrictEqual(readFrame(frame), { type, stream: of, payload }), 'another frame');
      ensure(frame.equals(wireFrame(type, of, payload)), 'other bytes');
      const { json, ...own } = parsed(jsonFrame(type, of, { bytes: [...payload] }));
      ensure(isDeepStrictEqual(json, { bytes: [...payload] }), 'another payload');
      ensure(own.type === type && own.stream === of, 'another head');
      const credit = readFrame(creditFrame(1, of));
      ensure(
        readCredit(credit?.payload ?? Buffer.alloc(0)) === (of || undefined),
        'another credit',
      );
    },
  ),

  'the payload of a frame is read as it was written': fc.property(
    record({
      server: fc.string(),
      method: fc.constantFrom('POST', 'GET', 'DELETE'),
      headers,
      caller: someName,
    }),
    record({
      version: someName,
      instance: someName,
      servers: fc.array(record({ name: someName, kind: fc.constantFrom('stdio', 'http') }), {
        maxLength: 3,
      }),
    }),
    record({
      organization: someName,
      agent: someName,
      servers: fc.array(someName, { maxLength: 3 }),
    }),
    (opening, hello, bound) => {
      const payload = (value: object) =>
        readFrame(jsonFrame(frameType.open, 1, value))?.payload ?? Buffer.alloc(0);
      const open = readOpen(payload(opening));
      ensure(
        isDeepStrictEqual(open, { ...opening, headers: requestHeaders(opening.headers) }),
        'another OPEN',
      );
      ensure(!('cookie' in (open?.headers ?? {})), 'a header too many');
      const given = readHello(payload(hello));
      ensure(isDeepStrictEqual(given, hello), 'another HELLO');
      ensure(isDeepStrictEqual(readBound(payload(bound)), bound), 'another BOUND');
      ensure(readLeft(payload({ caller: opening.caller })) === opening.caller, 'another LEFT');
    },
  ),

  'no payload of the other side makes a reader of frames throw': fc.property(
    fc.oneof(
      fc.uint8Array({ maxLength: 30 }).map((bytes) => Buffer.from(bytes)),
      fc.jsonValue({ maxDepth: 2 }).map((value) => Buffer.from(JSON.stringify(value))),
      fc
        .dictionary(
          fc.constantFrom(
            'version',
            'instance',
            'servers',
            'status',
            'headers',
            'code',
            'detail',
            'server',
            'method',
            'caller',
            'organization',
            'agent',
          ),
          fc.oneof(
            fc.jsonValue({ maxDepth: 1 }),
            fc.constantFrom(
              'POST',
              'timeout',
              200,
              '',
              {},
              [],
              { accept: 1 },
              { 'content-type': 'a\r\nb' },
              'a\r\nb\u2028',
            ),
          ),
          { maxKeys: 4 },
        )
        .map((value) => Buffer.from(JSON.stringify(value))),
    ),
    (bytes) => {
      const frame = readFrame(bytes);
      ensure((frame !== undefined) === bytes.length >= 5, 'a frame has five bytes');
      for (const payload of [bytes, frame?.payload ?? bytes]) {
        for (const reader of [readHello, readBound, readLeft, readOpen, readHead, readCredit])
          reader(payload);
        const { code, detail } = readReset(payload);
        ensure(code.length > 0 && detail.length <= 300 && !/[\r\n]/.test(detail), 'a reset');
        const head = readHead(payload);
        const values = Object.values(head?.headers ?? {});
        ensure(
          values.every((value) => /^[\x20-\x7e]*$/.test(value)),
          'a header',
        );
      }
      ensure(bytes.length <= maxPayloadBytes, 'longer than a payload');
    },
  ),
};
