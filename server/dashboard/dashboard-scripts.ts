import { pageAssets } from '#pages/assets';

/** Paths of the ES modules behind every page of the dashboard. */
export function dashboardScripts(): readonly string[] {
  const { htmx, copy, dashboard } = pageAssets();
  return [htmx.path, copy.path, dashboard.path];
}
