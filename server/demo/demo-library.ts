export function openDemoLibrary({ dataDir }: { dataDir: string; nodePath: string }) {
  return {
    fetch: async (_r: Request) => new Response('x', { status: 500, headers: { 'x-dir': dataDir } }),
    close: async () => {},
  };
}
