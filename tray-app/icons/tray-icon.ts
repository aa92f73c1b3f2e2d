import type { TrayFace } from '#tray-face';

/** Our mark as in the pages, a key about to lift a latch, with room for a badge at the lower right. */
const mark = `<circle cx="4.25" cy="8" r="2.75"/><path d="M7 8h5.25M10 8v2.5"/><path d="M12.25 2.75H14.5v10.5h-2.25"/>`;

/** Each state by the shape of its badge; around it the mark is cut away, so that it reads at 16 px. */
const badges: Record<TrayFace['icon'], string> = {
  well: '',
  attention: `<circle cx="12" cy="12" r="3.1" fill="ink" stroke="none"/>`,
  trouble: `<path d="M12 8.6 15.7 15.4H8.3Z" fill="ink" stroke="none"/>`,
  offline: `<circle cx="12" cy="12" r="2.5"/>`,
};

/** The tray's icon as an SVG of 16 by 16, in one colour. */
export function trayIcon(face: TrayFace['icon'], ink: string): string {
  const badge = badges[face].replaceAll('ink', ink);
  const cut = badge === '' ? '' : ' mask="url(#cut)"';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" fill="none" stroke="${ink}" stroke-width="1.75" stroke-linecap="round" stroke-linejoin="round">
<mask id="cut"><rect width="16" height="16" fill="#fff" stroke="none"/><circle cx="12" cy="12" r="5" fill="#000" stroke="none"/></mask>
<g${cut}>${mark}</g><g stroke-width="1.5">${badge}</g></svg>`;
}
