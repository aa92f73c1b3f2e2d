import { html, svg, type TemplateResult } from 'lit-html';

/** How something is: the colour, the shape and the word say the same. */
export type Mood = 'good' | 'warn' | 'bad' | 'quiet' | 'busy';

const shapes: Record<Mood, TemplateResult> = {
  good: svg`<circle cx="6" cy="6" r="4.5" fill="currentColor" />`,
  warn: svg`<path d="M6 .8 11.2 6 6 11.2.8 6Z" fill="none" stroke="currentColor" stroke-width="1.6" />`,
  bad: svg`<path d="M6 1 11.4 10.6H.6Z" fill="currentColor" />`,
  quiet: svg`<circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" stroke-width="1.6" />`,
  busy: svg`<path d="M6 1.5A4.5 4.5 0 0 0 6 10.5Z" fill="currentColor" /><circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" stroke-width="1.2" />`,
};

export function stateBadge(mood: Mood, word: string): TemplateResult {
  return html`<span class="state ${mood}"
    ><svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">${shapes[mood]}</svg
    >${word}</span
  >`;
}
