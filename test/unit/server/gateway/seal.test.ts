import { describe, expect, test, vi } from 'vitest';

import { scanMessage } from '#mcp/message';
import {
  openState,
  type PrincipalSeal,
  principalSeal,
  sealed,
  sealState,
  type SealedCall,
  unsealMessage,
} from '#server/gateway/seal';
import { LongAnswerSeal } from '#server/gateway/long-answer-seal';
import { fakeMac } from '#support/fake-mac';
import type { ScriptedAnswer } from '#support/fake-upstream';
import { bodyText } from '#support/gateway-answer';
import { replied } from '#support/replied';

const callId = '0193c0ffee0000010203abcd';

function sealing(seal: PrincipalSeal, kind: 'task' | 'state', value: string): string {
  return kind === 'state' ? sealState(seal, { callId, value }) : seal.seal(kind, value);
}

describe('sealed ids', () => {
  const ann = principalSeal('key:ann srv_1', fakeMac);

  test('an id opens for the owner it was sealed for, and seals to the same text each time', () => {
    const id = ann.seal('task', 'täsk.1');

    expect(id).toMatch(/^[\w-]{22}\.täsk\.1$/);
    expect(ann.seal('task', 'täsk.1')).toBe(id);
    expect(ann.open('task', id)).toBe('täsk.1');
  });

  test('an id opens for no other principal, no other server and no other purpose', () => {
    const id = ann.seal('task', '1');

    expect(principalSeal('key:bob srv_1', fakeMac).open('task', id)).toBeUndefined();
    expect(principalSeal('key:ann srv_2', fakeMac).open('task', id)).toBeUndefined();
    expect(ann.open('state', id)).toBeUndefined();
  });

  test.each(['', '.', '1', 'a.1', `${'a'.repeat(22)}.1`, `${'ä'.repeat(22)}.1`])(
    'a text that was never sealed does not open: %j',
    (value) => {
      expect(ann.open('task', value)).toBeUndefined();
    },
  );

  test('any change to an id is detected', () => {
    const id = ann.seal('state', 'abc');

    expect(ann.open('state', `${id}d`)).toBeUndefined();
    expect(ann.open('state', id.replace('.', ','))).toBeUndefined();
  });
});

describe('a message of the caller', () => {
  const ann = principalSeal('key:ann srv_1', fakeMac);
  const bob = principalSeal('key:bob srv_1', fakeMac);

  function unsealed(text: string) {
    const body = Buffer.from(text);
    const scan = scanMessage(body);
    if (scan.outcome === 'refused') throw new Error(scan.reason);
    return unsealMessage({ body, envelope: scan.envelope }, ann).body.toString();
  }

  const message = (method: string, params: string) =>
    `{"jsonrpc":"2.0", "id":1,"method":"${method}","params":{${params}}}`;
  const related = (id: string) =>
    `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"${id}"}}`;
  const places: [string, 'task' | 'state', (value: string) => string][] = [
    ['the task that is asked for', 'task', (id) => message('tasks/get', `"taskId":"${id}"`)],
    ['it under an escaped name', 'task', (id) => message('tasks/get', `"t\\u0061skId":"${id}"`)],
    ['the task that a request is about', 'task', (id) => message('ping', related(id))],
    [
      'it under an escaped name too',
      'task',
      (id) => message('ping', related(id).replace('related', String.raw`rel\u0061ted`)),
    ],
    ['the state of a call', 'state', (value) => message('tools/call', `"requestState":"${value}"`)],
    [
      'it under an escaped name ',
      'state',
      (value) => message('tools/call', `"request\\u0053tate":"${value}"`),
    ],
  ];

  describe('the upstream gets its own ids for', () => {
    test.each(places)('%s', (_, kind, place) => {
      expect(unsealed(place(sealing(ann, kind, 'x')))).toBe(place('x'));
    });
  });

  describe('the answer is “not found” if the id belongs to another owner or to none,', () => {
    test.each(places)('%s', (_, kind, place) => {
      for (const value of [sealing(bob, kind, 'x'), 'x', '']) {
        expect(() => unsealed(place(value))).toThrow(
          expect.objectContaining({ code: 'not_theirs' }),
        );
      }
    });

    test('a state that is not a string', () => {
      expect(() => unsealed(message('tools/call', '"requestState":{"a":1}'))).toThrow(
        expect.objectContaining({ code: 'not_theirs' }),
      );
    });
  });

  test('a state names the call that the message continues, and goes to the upstream as it came', () => {
    for (const value of ['x', '', '.', undefined]) {
      const state = sealState(ann, { callId, value });
      const body = Buffer.from(message('tools/call', `"name":"a","requestState":"${state}"`));
      const scan = scanMessage(body);
      if (scan.outcome === 'refused') throw new Error(scan.reason);
      const kept = value === undefined ? '"name":"a"' : `"name":"a","requestState":"${value}"`;

      expect(openState(ann, state)).toEqual({ callId, value });
      expect(openState(bob, state)).toBeUndefined();
      const opened = unsealMessage({ body, envelope: scan.envelope }, ann);
      expect(opened.continues).toBe(callId);
      expect(opened.body.toString()).toBe(message('tools/call', kept));
    }
  });

  test('a tool’s own argument named like a task is unchanged', () => {
    const text = message('tools/call', '"arguments":{"taskId":"x"}');

    expect(unsealed(text)).toBe(text);
  });

  const told = (method: string, params: string) =>
    `{"jsonrpc":"2.0","method":"${method}","params":{${params}}}`;
  const answered = (result: string) => `{"jsonrpc":"2.0","id":1,"result":{${result}}}`;

  describe('a task id that the caller chose itself is not read as one of the upstream’s', () => {
    const owned: [string, (id: string) => string][] = [
      ['in its response', (id) => answered(`"task":{"taskId":"${id}"}`)],
      ['as what it tells of it', (id) => answered(`"taskId":"${id}","status":"working"`)],
      ['where a response mentions it', (id) => answered(related(id))],
      ['in its status', (id) => told('notifications/tasks/status', `"taskId":"${id}"`)],
      ['where a notification mentions it', (id) => told('notifications/progress', related(id))],
      ['where no notification has one', (id) => told('notifications/x', `"taskId":"${id}"`)],
    ];

    test.each(owned)('%s', (_, place) => {
      const own = unsealed(place('x'));

      expect(own).toBe(place(ann.seal('ownTask', 'x')));
      // An id that was sealed for somebody else is not unsealed either.
      expect(unsealed(place(bob.seal('task', 'x')))).toBe(
        place(ann.seal('ownTask', bob.seal('task', 'x'))),
      );
    });

    test('and an id that the upstream chose itself is', () => {
      const id = ann.seal('task', 'x');

      expect(unsealed(told('notifications/progress', related(id)))).toBe(
        told('notifications/progress', related('x')),
      );
    });
  });

  test('the task that a response to a question is about is opened where a request carries the response', () => {
    const id = ann.seal('task', 'x');
    const again = (task: string) =>
      message(
        'tools/call',
        `"_meta":{},"inputResponses":{"q":{"action":"accept",${related(task)}}}`,
      );

    expect(unsealed(again(id))).toBe(again('x'));
  });

  test('a state in a notification is refused like one in a request', () => {
    const place = (value: string) => told('notifications/x', `"requestState":"${value}"`);

    expect(unsealed(place(sealing(ann, 'state', 'x')))).toBe(place('x'));
    for (const value of ['x', bob.seal('state', 'x')]) {
      expect(() => unsealed(place(value))).toThrow(expect.objectContaining({ code: 'not_theirs' }));
    }
  });

  const relatedName = '"io.modelcontextprotocol/related-task"';

  test.each([
    ...['["x"]', '7', 'null', '{"toString":"x"}'].map((id) => `{"taskId":${id}}`),
    '["x"]',
    '[{"taskId":"x"}]',
    '7',
  ])('a task reference that is not a string is refused: %s', (about) => {
    const params = `"_meta":{${relatedName}:${about}}`;
    for (const text of [message('ping', params), told('notifications/progress', params)]) {
      expect(() => unsealed(text)).toThrow(expect.objectContaining({ code: 'bad_params' }));
    }
  });

  test('a task member that differs only in case is refused', () => {
    const text = message('ping', `"_meta":{${relatedName}:{"taskID":"x"}}`);

    expect(() => unsealed(text)).toThrow('in case only');
  });
});

describe('an answer of the upstream', () => {
  const seal = principalSeal('key:ann srv_1', fakeMac);
  const task = seal.seal('task', 't-1');
  const state = sealing(seal, 'state', 's"1');
  const related = (id: string) =>
    `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"${id}"}}`;
  const result = (members: string) =>
    `{"jsonrpc":"2.0", "id":12345678901234567890,"result":{${members}}}`;

  const json = (text: NonNullable<ScriptedAnswer['text']>): ScriptedAnswer => ({ text });
  const events = (...chunks: string[]): ScriptedAnswer => ({
    mediaType: 'text/event-stream',
    text: chunks,
  });
  async function* inChunks(chunks: readonly string[]) {
    for (const chunk of chunks) yield Buffer.from(chunk);
  }
  const told = vi.fn<SealedCall['isOfTask']>();
  const filters = [sealed(seal, { callId, isOfTask: told })];
  const sealedText = async (answer: ScriptedAnswer) => bodyText(await replied(answer, { filters }));

  describe('a task id that the caller chose itself is returned unchanged', () => {
    const own = seal.seal('ownTask', 'mine');
    const asked = (method: string, params: string) =>
      `{"jsonrpc":"2.0","id":1,"method":"${method}","params":{${params}}}`;

    test.each<[string, (id: string) => string]>([
      ['where the upstream asks for it', (id) => asked('tasks/get', `"taskId":"${id}"`)],
      ['where it mentions it', (id) => asked('elicitation/create', related(id))],
    ])('%s', async (_, place) => {
      expect(await sealedText(json(inChunks([place(own)])))).toBe(place('mine'));
    });

    test('and an unsealed id stays if the upstream asks for it', async () => {
      const text = asked('tasks/get', '"taskId":"mine"');

      expect(await sealedText(json(inChunks([text])))).toBe(text);
    });
  });

  /** The text that is passed on of a response that is too long to be held and arrives in chunks of this length. */
  const sealedLong = (text: string, length: number) => {
    const body = Buffer.from(text);
    const stream = new LongAnswerSeal(seal, { callId, isOfTask: told });
    const count = Math.ceil(body.length / length);
    const chunks = Array.from({ length: count }, (_, index) =>
      body.subarray(index * length, (index + 1) * length),
    );
    return Buffer.concat(chunks.map((chunk) => stream.push(chunk))).toString();
  };
  const cutLengths = [1, 2, 7, 1000];

  describe('sealed for its caller, with every other byte unchanged, is', () => {
    test.each([
      [
        'a request state',
        result(`"requestState":"s\\"1"`),
        result(`"requestState":"${state.replace('"', '\\"')}"`),
      ],
      [
        'the id of a new task',
        result('"task":{"taskId":"t-1","n":1.0}'),
        result(`"task":{"taskId":"${task}","n":1.0}`),
      ],
      ['the id of a task that is told', result('"taskId":"t-1"'), result(`"taskId":"${task}"`)],
      [
        'an id under an escaped name',
        result('"taskId":1,"task":{"\\u0074askId":"t-1"}'),
        result(`"taskId":1,"task":{"\\u0074askId":"${task}"}`),
      ],
      ['the task that a result is of', result(related('t-1')), result(related(task))],
      [
        'the task that a notification is about',
        '{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t-1"}}',
        `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"${task}"}}`,
      ],
      [
        'the task for which the upstream asks',
        `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{${related('t-1')}}}`,
        `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{${related(task)}}}`,
      ],
    ])('%s', async (_, came, goes) => {
      expect(await sealedText(json(Buffer.from(came)))).toBe(goes);
      expect(await sealedText(json(inChunks([came.slice(0, 40), came.slice(40)])))).toBe(goes);
      if (!came.includes('"result"')) return;
      for (const length of cutLengths) expect(sealedLong(came, length)).toBe(goes);
    });
  });

  test('the task that a question is about is sealed where a result puts the question', async () => {
    const asking = (id: string) =>
      result(
        `"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{${related(id)}}}},"requestState":"${id === task ? state.replace('"', String.raw`\"`) : String.raw`s\"1`}"`,
      );

    expect(await sealedText(json(asking('t-1')))).toBe(asking(task));
  });

  test('an answer that requires input and has no state gets one with the id of the call', async () => {
    const added = sealState(seal, { callId, value: undefined });
    const asks = '"resultType":"input_required","inputRequests":{}';

    expect(await sealedText(json(Buffer.from(result(asks))))).toBe(
      result(`"requestState":"${added}",${asks}`),
    );
    for (const length of cutLengths) {
      expect(sealedLong(result(asks), length)).toBe(result(`${asks},"requestState":"${added}"`));
      const withNone = result(`${asks},"requestState":null`);
      expect(sealedLong(withNone, length)).toBe(withNone);
    }
  });

  test('the task that an answer begins or reports is noted, sealed and with its status', async () => {
    told.mockClear();
    await sealedText(json(Buffer.from(result('"task":{"taskId":"t-1","status":"working"}'))));
    await sealedText(json(Buffer.from(result('"taskId":"t-1","status":"failed"'))));
    await sealedText(json(Buffer.from(result(related('t-2')))));

    sealedLong(result('"task":{"taskId":"t-1","status":"working"}'), 3);
    sealedLong(result('"taskId":"t-1","status":"failed"'), 3);
    sealedLong(result(related('t-2')), 3);

    const [begun, failed] = [[task, undefined] as const, [task, 'failed'] as const];
    expect(told.mock.calls).toEqual([begun, failed, begun, failed]);
  });

  describe('unchanged is', () => {
    test.each([
      [
        'what a tool calls a task of its own',
        result('"structuredContent":{"taskId":"t-1","requestState":"s"}'),
      ],
      [
        'text that speaks of one',
        result('"content":[{"type":"text","text":"{\\"taskId\\":\\"t-1\\"}"}]'),
      ],
      [
        'a task that the caller keeps',
        '{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"mine"}}',
      ],
      ['a result that only quotes what requires input', result('"a":["input_required"]')],
      ['what is no message', '{"taskId":"t-1"}'],
      ['what a tool calls a result', result('"a":[{"result":{"taskId":"t-1"}},"\\\\"],"b":{}')],
      ['a list of messages', `[${result('"taskId":"t-1"')}]`],
    ])('%s', async (_, body) => {
      expect(await sealedText(json(Buffer.from(body)))).toBe(body);
      for (const length of cutLengths) expect(sealedLong(body, length)).toBe(body);
    });
  });

  test('events of a stream are sealed as they arrive, wherever they are cut, with their ids', async () => {
    const stream = `: hi\n\nid: 7\nevent: message\ndata: ${result('"requestState":"s"')}\n\ndata: {}\n\n`;
    const goes = stream.replace(
      '"requestState":"s"',
      `"requestState":"${sealing(seal, 'state', 's')}"`,
    );

    expect(await sealedText(events(...stream.split('')))).toBe(goes);
    expect(await sealedText(events(stream))).toBe(goes);
  });

  const text = 'x'.repeat(3 * 1024 * 1024);

  test('a state and a task after megabytes of text are sealed, in a stream and in JSON', async () => {
    const came = (id: string, held: string) =>
      result(`"content":"${text}","requestState":"${held}",${related(id)}`);
    const goes = came(task, sealing(seal, 'state', 's'));
    const sealLong = () => new LongAnswerSeal(seal, { callId, isOfTask: told });
    const long = await replied(json(inChunks([came('t-1', 's')])), { filters, sealLong });

    expect((await bodyText(long)) === goes).toBe(true);
    const event = (message: string) => `event: message\ndata: ${message}\n\n`;
    expect((await sealedText(events(event(came('t-1', 's'))))) === event(goes)).toBe(true);
    expect((await sealedText(json(Buffer.from(came('t-1', 's'))))) === goes).toBe(true);
  });

  test('107: a long answer with a state that is too long to be held is cut off', async () => {
    const [cut, finish] = [vi.fn(), vi.fn()];
    const sealLong = () => new LongAnswerSeal(seal, { callId, isOfTask: told });
    const answer = json(inChunks([result(`"content":"${text}","requestState":"${text}"`)]));
    const long = await replied(answer, { filters, sealLong, cut, finish });

    await expect(bodyText(long)).rejects.toMatchObject({ code: 'upstream_too_large' });
    expect(cut).toHaveBeenCalledOnce();
    expect(finish.mock.calls[0]).toMatchObject(['upstream-error', { error: 'upstream_too_large' }]);
  });

  test('an answer of several megabytes is passed on in its own chunks', async () => {
    const chunk = 'x'.repeat(300_000);
    const { body } = await replied(
      json(inChunks([`{"a":"${chunk}`, chunk, chunk, chunk, chunk, '"}'])),
      { filters },
    );
    const lengths: number[] = [];
    if (typeof body === 'object' && !(body instanceof Uint8Array)) {
      for await (const { length } of body) lengths.push(length);
    }

    expect(lengths).toEqual([300_006, 300_000, 300_000, 300_000, 300_000, 2]);
  });
});
