import { displayName, html, type Html } from './html.ts';

/** An organization or a server: its name, which is part of its URLs, and its title if it has one. */
export interface Titled {
  readonly name: string;
  readonly title?: string | undefined;
}

/** The title, else the name, for plain text such as the title of a page. A heading that is text stays as it is. */
export function titleText(heading: Titled | string): string {
  if (typeof heading === 'string') return heading;
  return displayName(heading.title || heading.name);
}

/** The title and, in parentheses, the name, for plain text in which equal titles must not be confused: `Library (library)`. */
export function titleWithName(titled: Titled): string {
  const title = titleText(titled);
  return title === titled.name ? title : `${title} (${titled.name})`;
}

/** The title with the name beside it; where they are equal, only once. */
export function titleMarkup(titled: Titled): Html {
  const title = titleText(titled);
  return html`<bdi>${title}</bdi>${title !== titled.name && html` ${nameMarkup(titled.name)}`}`;
}

/** The name that stands beside a title. */
export function nameMarkup(name: string): Html {
  return html`<code class="slug">${name}</code>`;
}
