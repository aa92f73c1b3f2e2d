import { expect, test } from 'vitest';
import { nodeOf, nodeOfResponse, type OtherNodes } from '#server/gateway/other-nodes';
import { scannedRequest } from '#support/scanned-message';

const own = 'ownownownownown1';
const other = 'otherotherother2';
const random = 'r'.repeat(32);
const nodes: OtherNodes = { instance: own, send: () => expect.fail('nothing is sent') };

/** The nodes that a call would be passed to, by its session and by its state. */
function namedBy(instance: string, { isPassedOn = false, ports = { nodes } } = {}) {
  const request = { headers: { 'mcp-session-id': `${instance}.${random}` }, isPassedOn };
  const requestState = `latchkey.${instance}.${random}`;
  const response = scannedRequest('tools/call', { requestState });
  return [nodeOf(request, ports), nodeOfResponse(response, request, ports)];
}

test('other nodes: a call goes to the node that its session or its state names', () => {
  expect(namedBy(other)).toEqual([other, other]);
});

test('other nodes: a call that names this node is answered here', () => {
  expect(namedBy(own)).toEqual([undefined, undefined]);
});

test('106: forwarding: a call that another node forwarded is answered here, whichever node it names', () => {
  expect(namedBy(other, { isPassedOn: true })).toEqual([undefined, undefined]);
});

test('other nodes: without a link to them, every call is answered here', () => {
  expect(namedBy(other, { ports: { nodes: { instance: own } } })).toEqual([undefined, undefined]);
});
