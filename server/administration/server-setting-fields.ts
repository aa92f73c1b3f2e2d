import { z } from 'zod';

import { limitBounds, type ServerLimits } from '#organizations/server-limits';
import { words } from './fields.ts';

/** One limit: a whole number within its bounds, or `null` for none. */
function limit(name: keyof ServerLimits, doc: string) {
  const [least, most] = limitBounds[name];
  return z.int().min(least).max(most).nullable().optional().describe(doc);
}

const limitFields = z
  .strictObject({
    callsPerMinute: limit(
      'callsPerMinute',
      'Requests of one caller in any minute; notifications, and streams to listen by, twice as many each',
    ),
    concurrentCalls: limit(
      'concurrentCalls',
      'Requests of one caller under way at once; streams by which it listens four times as many',
    ),
    requestBytes: limit('requestBytes', 'The largest body of a request'),
    answerBytes: limit('answerBytes', 'The largest answer'),
    callSeconds: limit('callSeconds', 'The longest that a request and its answer may take'),
  })
  .describe('Only those that are given change; null lifts one');

/** What may be said of a server without saying where its calls go; what is not given stays. */
export const serverSettingFields = {
  title: words(200).optional(),
  description: z.string().trim().max(2000).optional(),
  instructions: z.string().trim().max(20_000).optional(),
  hiddenTools: z
    .array(z.string().min(1).max(200))
    .max(1000)
    .transform((tools) => [...new Set(tools)])
    .optional(),
  limits: limitFields.optional(),
};
