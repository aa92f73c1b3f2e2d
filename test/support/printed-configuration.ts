import { z } from 'zod';

/** An entry that an assistant starts. */
const started = z.object({
  command: z.string(),
  args: z.array(z.string()),
  env: z.record(z.string(), z.string()),
});

/** An entry in the desktop shape that the proxy reads. */
const described = z.object({
  url: z.url(),
  oauth: z.object({
    clientId: z.string(),
    clientSecret: z.string(),
    scopes: z.array(z.string()),
  }),
});

const document = z.object({ mcpServers: z.object({ demo: z.union([started, described]) }) });

/** The output of the demo with its credentials, in the parts that a person would copy. */
export interface PrintedConfiguration {
  readonly started: z.infer<typeof started>;
  readonly described: z.infer<typeof described>;
  /** The `curl` command, all its lines. */
  readonly curl: string;
  readonly key: string;
}

/** Reads the standard output of `latchkey-server start --demo --show-demo-credentials`. */
export function printedConfiguration(stdout: string): PrintedConfiguration {
  const documents = [...stdout.matchAll(/^\{\n[\s\S]*?\n\}$/gm)].map(
    ([text]) => document.parse(JSON.parse(text)).mcpServers.demo,
  );
  const curl = /^curl [\s\S]*?'\{.*\}'$/m.exec(stdout)?.[0];
  const key = /mcp_[0-9A-Za-z]{36}/.exec(stdout)?.[0];
  if (!curl || !key) throw new Error(`no curl with a key in:\n${stdout}`);
  return {
    started: started.parse(documents[0]),
    described: described.parse(documents[1]),
    curl,
    key,
  };
}
