import { afterAll, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { lateLine, lateLines } from '#support/late-header';
import { recordingUpstream } from '#support/upstreams/recording-upstream';

const upstream = await recordingUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

test.for(Object.entries(lateLines))(
  '111: header lines: %s after a thousand others is read',
  async ([, late]) => {
    const { statuses } = await lateLine(late, new URL(gateway.endpoint), gateway.key);

    expect(statuses).toEqual([late.status]);
  },
);
