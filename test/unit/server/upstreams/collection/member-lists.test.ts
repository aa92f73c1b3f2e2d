import { messageOf } from 'latchkey-mcp/message';
import { expect, test } from 'vitest';

import type { Admission } from '#server/gateway/admission';
import { errorAnswer } from '#server/gateway/errors';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';
import { jsonAnswer } from '#server/gateway/reply';
import type { GatewayAnswer, GatewayRequest } from '#server/gateway/request';
import type { UpstreamKind } from '#server/model/upstream-kinds';
import type { CollectionPorts } from '#server/upstreams/collection/member-calls';
import { MemberLists } from '#server/upstreams/collection/member-lists';
import { rightsTo, someAdmission, someServer, someTarget } from '#support/some-admission';
import { stillClock } from '#support/still-clock';

const member = { id: 'srv_wiki', name: 'wiki' };
const upstream: UpstreamKind<'collection'> = { kind: 'collection', members: [member], names: [] };
const collection = {
  owner: 'key:key_a',
  isForPage: false,
  admission: someAdmission(),
  target: someTarget(),
  upstream,
};

/** A caller of the collection that names its application. */
const callerOf = (client = 'Claude') => ({ ...collection, request: listing(client) });

const listing = (client: string) =>
  messageOf(
    `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"${client}","version":"1"}}}}`,
  );

const tools = (...names: string[]): GatewayAnswer => {
  const listed = names.map((name) => `{"name":"${name}","inputSchema":{"type":"object"}}`).join();
  return jsonAnswer(
    200,
    `{"jsonrpc":"2.0","id":"list-0","result":{"resultType":"complete","tools":[${listed}],"ttlMs":0,"cacheScope":"private"}}`,
  );
};

const failed = { base: 'http://127.0.0.1', serverPath: 'acme/wiki', era: 'modern' } as const;

/** A gateway in front of the member, which admits callers with `rights` and answers as told. */
function memberGateway(
  answer: (request: GatewayRequest) => GatewayAnswer | Promise<GatewayAnswer>,
) {
  const asked: GatewayRequest[] = [];
  const clock = stillClock();
  const admitted: Pick<Admission, 'endpoint'> & { rights: Admission['rights'] } = {
    endpoint: someServer(),
    rights: rightsTo(),
  };
  const ports: CollectionPorts = {
    answer: (request) => {
      asked.push(request);
      return answer(request);
    },
    admit: () => someAdmission(admitted),
    mac: () => '',
    note: () => Promise.resolve([]),
    now: () => clock.now(),
  };
  return { asked, admitted, ports };
}

const namesIn = async (lists: MemberLists, caller = callerOf()) => {
  const read = await lists.read('tools/list', member, caller);
  return 'answer' in read ? read.answer.entries.map(({ name }) => name) : read.outcome;
};

test('226: collection: a list that was begun before the rights of its caller changed is not theirs afterwards', async () => {
  const before = Promise.withResolvers<GatewayAnswer>();
  const answers = [before.promise, tools('open')];
  const { admitted, asked, ports } = memberGateway(() => answers.shift() ?? tools());
  const lists = new MemberLists(ports);
  const begun = namesIn(lists);
  admitted.rights = rightsTo();
  const narrowed = namesIn(lists);
  before.resolve(tools('open', 'closed'));

  expect([await begun, await narrowed]).toEqual([['open', 'closed'], ['open']]);
  expect(asked).toHaveLength(2);
  expect(await namesIn(lists)).not.toContain('closed');
});

test('collection: a list is read once for all that want it at the same time with the same rights', async () => {
  const { asked, ports } = memberGateway(() => Promise.resolve(tools('open')));
  const lists = new MemberLists(ports);
  const all = await Promise.all([namesIn(lists), namesIn(lists), namesIn(lists)]);

  expect(all).toEqual([['open'], ['open'], ['open']]);
  expect(asked).toHaveLength(1);
});

test('226: collection: what is cached is bounded for callers who name ever other clients, however short the answers are', async () => {
  const unknown = new GatewayRefusal('unknown_method', {});
  const { asked, ports } = memberGateway(() => errorAnswer(unknown, { ...failed, id: '"list-0"' }));
  const lists = new MemberLists(ports, 64 * 1024);
  for (let client = 0; client < 100; client += 1)
    await namesIn(lists, callerOf(`client ${client}`));
  await namesIn(lists, callerOf('client 99'));
  const before = asked.length;
  await namesIn(lists, callerOf('client 0'));

  expect([before, asked.length]).toEqual([100, 101]);
});
