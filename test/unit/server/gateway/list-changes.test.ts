import { describe, expect, test, vi } from 'vitest';

import { AnswerMessage, filtered } from '#server/gateway/filters';
import {
  announcedChanges,
  ListChanges,
  toldLists,
  withChanges,
} from '#server/gateway/list-changes';
import { Ending } from '#server/model/ending';
import type { AccessRules, ToolCaller } from '#server/model/tool-rights';
import { sseEvents } from '#mcp/sse';
import { rightsTo } from '#support/some-admission';
import { patient } from '#support/patient';

const sales = new Set(['sales']);
const support = new Set(['support']);
const none = new Map<string, Set<string>>();
const rulesOf = (tools: Readonly<Record<string, ReadonlySet<string>>>): AccessRules => ({
  others: {},
  named: { tool: new Map(Object.entries(tools)), prompt: none, resource: none, template: none },
});
const dana: ToolCaller = { groups: sales, selections: [] };

describe('what a server announces of its lists', () => {
  const answerOf = (capabilities: string) =>
    `{"jsonrpc":"2.0","id":1,"result":{"capabilities":${capabilities},"serverInfo":{"name":"é"}}}`;
  const announcedIn = (capabilities: string, rules?: AccessRules, isHeard = true) => {
    const announced = vi.fn();
    const filter = announcedChanges(rightsTo({ rules }, dana), { isHeard, announced });
    const message = filtered(new AnswerMessage(Buffer.from(answerOf(capabilities))), [filter]);
    return { text: message?.bytes.toString(), lists: announced.mock.calls[0]?.[0] };
  };

  test('is what it says, unless what a caller may use can change', () => {
    const capabilities = '{"tools":{"listChanged":true},"prompts":{},"logging":{}}';

    expect(announcedIn(capabilities)).toEqual({ text: answerOf(capabilities), lists: ['tool'] });
  });

  test('is each list that it has, if what a caller may use can change', () => {
    const capabilities =
      '{"tools": {},"prompts":{"listChanged": false},"resources":{"subscribe":true},"x":{}}';

    expect(announcedIn(capabilities, rulesOf({ a: sales }))).toEqual({
      text: answerOf(
        '{"tools": {"listChanged":true},"prompts":{"listChanged": true},"resources":{"listChanged":true,"subscribe":true},"x":{}}',
      ),
      lists: ['tool', 'prompt', 'resource'],
    });
  });

  test('is what it says to a caller who cannot listen', () => {
    const capabilities = '{"tools":{},"prompts":{"listChanged":true}}';

    expect(announcedIn(capabilities, rulesOf({ a: sales }), false)).toEqual({
      text: answerOf(capabilities),
      lists: ['prompt'],
    });
  });

  test.each([
    ['without capabilities', '{"jsonrpc":"2.0","id":1,"result":{}}'],
    ['that is an error', '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}'],
    ['that is not JSON', '{'],
    ['with tools that are no object', answerOf('{"tools":true}')],
  ])('stays as it is in an answer %s', (_, text) => {
    const filter = announcedChanges(rightsTo({ rules: rulesOf({ a: sales }) }, dana), {
      isHeard: true,
    });

    expect(filtered(new AnswerMessage(Buffer.from(text)), [filter])?.bytes.toString()).toBe(text);
  });
});

describe('the events of a stream with those of ours', () => {
  const event = (n: number) => `data: {"n":${n}}\n\n`;

  function merged() {
    const rights = rightsTo({ rules: rulesOf({ a: sales, b: support }) }, dana);
    const changes = new ListChanges(rights, { lists: ['tool'], told: toldLists(rights) });
    const upstream = new TransformStream<Uint8Array, Uint8Array>();
    const writer = upstream.writable.getWriter();
    const ending = new Ending();
    const events = sseEvents(upstream.readable, { maxBytes: 1000 });
    const read: string[] = [];
    const reading = (async () => {
      for await (const { data } of withChanges(events, changes, ending)) read.push(data.toString());
    })();
    return {
      changes,
      read,
      reading,
      ending,
      say: (n: number) => writer.write(Buffer.from(event(n))),
      end: () => writer.close(),
      fail: (error: Error) => writer.abort(error),
    };
  }

  const more = rightsTo({ rules: rulesOf({ a: sales, b: sales }) }, dana);
  const told = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';

  test('come as they happen, and one of ours for each change that the caller can see', async () => {
    const { changes, read, reading, say, end } = merged();
    changes.start();
    await say(1);
    changes.look(rightsTo({ rules: rulesOf({ a: sales, b: support, c: support }) }, dana));
    changes.look(more);
    await vi.waitFor(() => expect(read).toHaveLength(2), patient);
    await say(2);
    changes.look(rightsTo({ rules: rulesOf({ a: sales, b: sales }) }, dana));
    await end();
    await reading;

    expect(read.toSorted()).toEqual(['{"n":1}', told, '{"n":2}'].toSorted());
  });

  test('end with the upstream, and fail with it', async () => {
    const [ended, failed] = [merged(), merged()];
    await ended.end();
    await failed.fail(new Error('reset'));

    await expect(ended.reading).resolves.toBeUndefined();
    await expect(failed.reading).rejects.toThrow('reset');
  });

  test('go on after the upstream if the stream is held, until the call ends', async () => {
    const { changes, read, reading, end, ending } = merged();
    changes.hold();
    changes.start();
    await end();
    changes.look(more);
    await vi.waitFor(() => expect(read).toEqual([told]), patient);
    ending.abort();
    await reading;

    expect(read).toEqual([told]);
  });

  test('many changes that nobody reads are one of each list', () => {
    const rights = rightsTo({}, dana);
    const changes = new ListChanges(rights, {
      lists: ['tool', 'prompt'],
      told: toldLists(rights),
    });
    changes.start();
    for (let n = 0; n < 1000; n += 1) {
      const prompt = new Map([[`p${n}`, support]]);
      const rules = { ...rulesOf({ [`t${n}`]: support }) };
      changes.look(rightsTo({ rules: { ...rules, named: { ...rules.named, prompt } } }, dana));
    }
    const events = Array.from({ length: 5 }, () => changes.take()?.data.toString());

    expect(events.filter(Boolean)).toHaveLength(2);
  });

  test('what changed before the stream is reported at its start, and only once to several streams of a session', () => {
    const session = toldLists(rightsTo({}, dana));
    const streams = [1, 2].map(() => new ListChanges(more, { lists: ['tool'], told: session }));
    for (const stream of streams) stream.start();

    expect(streams.map((stream) => stream.take() !== undefined)).toEqual([true, false]);
  });
});
