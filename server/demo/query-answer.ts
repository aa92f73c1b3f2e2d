import { z } from 'zod';

export interface Query {
  sql: string;
  maxRows: number;
}

const value = z.union([z.string(), z.number(), z.null()]);

/**
 * What a query process answers. It is read as strictly as any stranger's, as that process runs
 * strangers' SQL.
 */
export const queryAnswer = z.discriminatedUnion('outcome', [
  z.object({
    outcome: z.literal('rows'),
    columns: z.array(z.string()),
    rows: z.array(z.array(value)),
    /** Whether there were more rows. */
    truncated: z.boolean(),
  }),
  z.object({ outcome: z.literal('refused'), reason: z.string() }),
]);

export type QueryAnswer = z.infer<typeof queryAnswer>;
export type QueryValue = z.infer<typeof value>;
