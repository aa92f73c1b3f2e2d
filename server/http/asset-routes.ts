import type { FastifyInstance } from 'fastify';

import { pageAssets } from '#pages/assets';

/** The stylesheet and the scripts of the pages; a new content has a new path. */
export function assetRoutes(app: FastifyInstance): void {
  for (const { path, type, content } of Object.values(pageAssets())) {
    app.get(path, (_request, reply) =>
      reply
        .headers({
          'Content-Type': type,
          'Cache-Control': 'public, max-age=31536000, immutable',
          'X-Content-Type-Options': 'nosniff',
        })
        .send(content),
    );
  }
}
