import { windows, type WindowName } from '#page-files';

/** The document of a window's page, which its script fills; written where the app is built. */
export function pageDocument(name: WindowName): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>${windows[name].title} · Latchkey</title>
    <link rel="stylesheet" href="windows.css" />
    <script type="module" src="${name}.js"></script>
  </head>
  <body>
    <main id="page" aria-busy="true"></main>
    <p id="said" class="said" role="status" aria-live="polite"></p>
  </body>
</html>
`;
}
