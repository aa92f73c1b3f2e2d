import { z } from 'zod';

import { words } from './fields.ts';

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
};
