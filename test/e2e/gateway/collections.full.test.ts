import { assistantNames, memberNames, testCollectedServers } from '#support/collected-servers';

const pairs = memberNames.flatMap((member) =>
  assistantNames.map((assistant) => [member, assistant] as const),
);

testCollectedServers({ surveys: pairs, restarts: pairs });
