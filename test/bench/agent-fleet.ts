/**
 * Many agents in one process, each of which answers every call with the params it came with. Reads one line
 * of JSON from stdin: `{"base":"http://…","agents":[{"key":"pk_live_…","server":"s1"}]}`; prints `connected N`, and
 * `lost` for each tunnel that ends.
 */
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { rawAgent } from '#support/raw-agent';

const fleetSchema = z.object({
  base: z.string(),
  agents: z.array(z.object({ key: z.string(), server: z.string() })),
});

for await (const line of createInterface({ input: process.stdin })) {
  const { base, agents } = fleetSchema.parse(JSON.parse(line));
  for (const { key, server } of agents) {
    const agent = await rawAgent(base, { key, servers: [server] });
    void agent.closed.then((code) => console.log(`lost, ${code}`));
  }
  console.log(`connected ${agents.length}`);
}
process.exit(0);
