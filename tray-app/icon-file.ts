import type { TrayFace } from '#tray-face';

/**
 * The file of the tray's icon. macOS colours a template image by itself; elsewhere a dark panel gets the
 * light drawing. The double size beside it is found by its name.
 */
export function iconFile(
  face: TrayFace['icon'],
  platform: NodeJS.Platform,
  darkPanel: boolean,
): string {
  if (platform === 'darwin') return `${face}Template.png`;
  return `${face}-${darkPanel ? 'light' : 'dark'}.png`;
}
