import { expect, test } from 'vitest';
import { TopLevelMembers } from '#mcp/top-level-members';

test('107: of an endless object only two ids are kept, and whether there is a result', () => {
  const members = new TopLevelMembers();
  members.push(Buffer.from('{'));
  for (let at = 0; at < 5000; at += 1) members.push(Buffer.from(`"name ${at}":1,"id":${at},`));
  const kept = Buffer.byteLength(JSON.stringify(members));
  members.push(Buffer.from('"Result":{}}'));

  expect(kept).toBeLessThan(200);
  expect(members).toMatchObject({ ids: ['0', '1'], hasResult: true, isComplete: true });
});
