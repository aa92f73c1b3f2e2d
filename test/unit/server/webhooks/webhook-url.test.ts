import { expect, test } from 'vitest';
import { webhookUrlProblem } from '#server/webhooks/webhook-message';

test.each([
  ['https://siem.example/in?source=latchkey', [], undefined],
  ['http://siem.example/in', [], 'is not an https URL'],
  ['http://siem.internal/in', ['siem.internal'], undefined],
  ['http://siem.internal:8088/in', ['siem.internal:8088'], undefined],
  ['http://siem.internal:8089/in', ['siem.internal:8088'], 'is not an https URL'],
  ['javascript:alert(1)', [], 'is not an https URL'],
  ['siem.example', [], 'is not an https URL'],
  ['https://u:p@siem.example/', [], 'must not contain a user, a password or a fragment'],
  ['https://siem.example/#x', [], 'must not contain a user, a password or a fragment'],
])('%s, with %j named by the operator: %s', (url, hosts, problem) => {
  expect(webhookUrlProblem(url, hosts)).toBe(problem);
});
