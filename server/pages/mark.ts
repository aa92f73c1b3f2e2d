/** Our mark, a key about to lift a latch; single-colour, readable at 16 px. */
export const mark = `<svg class="mark" viewBox="0 0 16 16" width="20" height="20" fill="none"
  stroke="currentColor" stroke-width="1.75" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
  <circle cx="4.25" cy="8" r="2.75"/><path d="M7 8h5.25M10 8v2.5"/><path d="M12.25 2.75H14.5v10.5h-2.25"/>
</svg>`;
