export type ToolSubject = { name: string; url: string };

/** The tool that stands in for a server's own while nobody is signed in. */
export const signInTool = {
  name: 'sign_in',
  described: ({ name, url }: ToolSubject) => ({
    name: signInTool.name,
    title: `Sign in to ${name}`,
    description: `Nobody is signed in to ${name} (${url}) on this machine, so its tools cannot be used yet. Call this to let the person sign in with the browser, and repeat what you were about to do afterwards.`,
    inputSchema: { type: 'object', properties: {}, additionalProperties: false },
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true },
  }),
};
