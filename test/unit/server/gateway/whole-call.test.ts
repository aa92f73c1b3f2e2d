import { messageOf } from 'latchkey-mcp/message';
import { expect, test } from 'vitest';

import { Applications } from '#server/gateway/applications';
import { type MeteredCall, Metering } from '#server/gateway/metering';
import type { GatewayRequest } from '#server/gateway/request';
import type { CallContents } from '#server/model/call-contents';
import { ContentMemory, noContents } from '#server/model/call-contents';
import type { EndedCall } from '#server/model/calls';
import { someAdmission, someServer } from '#support/some-admission';

const sent = messageOf(
  '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"a":1}}}',
);

/** A call to the collection `desk`, which passes it on to `sales`, a server that stores arguments. */
function passedCall() {
  const memory = new ContentMemory();
  const recorded: [EndedCall, readonly CallContents[]][] = [];
  const noted: MeteredCall[] = [];
  const ports = {
    note: (call: MeteredCall) => void noted.push(call),
    ended: (call: EndedCall, _begun: unknown, contents: readonly CallContents[] = []) =>
      void recorded.push([call, contents]),
    contentMemory: memory,
  };
  const follow = (name: string, target: object, whole?: GatewayRequest['whole']) => {
    const request: GatewayRequest = {
      id: 'request-1',
      method: 'POST',
      organization: 'acme',
      server: name,
      // The request to a member has headers of its own.
      headers: whole ? {} : { 'user-agent': 'desktop/3' },
      rawHeaders: [],
      readBody: () => sent.body,
      gone: new AbortController().signal,
      whole,
    };
    const metering = new Metering(request, ports, new Applications());
    const endpoint = someServer({ id: `srv_${name}`, name, target });
    metering.admitted(someAdmission({ endpoint }));
    metering.read({ envelope: sent.envelope, era: 'modern', received: sent.body });
    return metering;
  };
  const outer = follow('desk', { upstream: { kind: 'collection', members: [], names: [] } });
  const inner = follow('sales', { contents: { ...noContents, arguments: true } }, outer.whole);
  return { outer, inner, memory, recorded, noted };
}

test('a call through a collection: is recorded once, with what its member stores', () => {
  const { outer, inner, memory, recorded } = passedCall();
  void outer.begin();
  void inner.begin();
  inner.sentThrough({});
  inner.answered('ok');
  outer.answered('ok');

  expect(recorded).toHaveLength(1);
  const [[call, contents] = []] = recorded;
  expect(call).toMatchObject({
    endpoint: { name: 'desk' },
    target: { name: 'sales' },
    subject: 'ask',
  });
  expect(contents?.map(({ targetId }) => targetId)).toEqual(['target_of_srv_sales']);
  for (const one of contents ?? []) one.letGo();
  expect(memory.heldBytes).toBe(0);
});

test('a call through a collection: what its member would store of a call that has ended takes no memory', () => {
  const { outer, inner, memory, recorded } = passedCall();
  void outer.begin();
  // The member waits until the beginning is recorded; meanwhile, the caller leaves.
  void inner.begin();
  outer.answered('ok', { end: 'cancelled' });
  inner.sentThrough({});
  inner.answered('ok', { end: 'cancelled' });

  expect(recorded.map(([{ end, target }]) => [end, target.name])).toEqual([['cancelled', 'sales']]);
  expect(memory.heldBytes).toBe(0);
});

test.each([
  ['srv_sales', 'srv_desk'],
  // The caller leaves, so the call ends at the collection first.
  ['srv_desk', 'srv_sales'],
])(
  'a call through a collection: it counts for the application that calls at both, if %s ends first',
  (first, last) => {
    const { outer, inner, noted } = passedCall();
    void outer.begin();
    void inner.begin();
    for (const id of [first, last]) (id === 'srv_desk' ? outer : inner).answered('ok');

    expect(noted.map(({ serverId, application }) => [serverId, application])).toEqual([
      [first, 'desktop/3'],
      [last, 'desktop/3'],
    ]);
  },
);
