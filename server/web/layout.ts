import { markPaths, pageAssets } from './assets.ts';
import { csrfField } from './forms.ts';
import { displayName, html, trustedHtml, type Html } from './html.ts';
import { nameMarkup, type Titled, titleMarkup, titleText } from './titles.ts';

/** A page: its data and what surrounds it, rendered as a whole document. */
export type Page<Data> = (data: Data, frame: Frame) => Html;

/** The surroundings of every page. */
export interface Frame {
  /** On error pages: the ID of the request in the log. */
  readonly requestId: string | undefined;
  /** Paths of our ES modules; a page works without them. */
  readonly scripts: readonly string[];
  /** For every form that changes something; see `postForm`. */
  readonly csrfToken: string | undefined;
  /** The e-mail address of the signed-in person. */
  readonly email: string | undefined;
  /** Path of the server-sent events that announce changes to this page, if it is live. */
  readonly live?: string | undefined;
  /** The page's place in the dashboard, if it is part of it. */
  readonly dashboard?: DashboardFrame | undefined;
}

/** The frame of a dashboard page: its organization and the navigation. */
export interface DashboardFrame {
  readonly organization: Titled;
  /** The person's other organizations, for the switcher. */
  readonly others: readonly Titled[];
  /** Whether the person may create an organization. */
  readonly mayCreate: boolean;
  /** The entries of the navigation that the person has permission for. */
  readonly navigation: readonly Tab[];
  /** The steps after the organization in the breadcrumb; the last one is the page itself. */
  readonly crumbs: readonly Crumb[];
}

/** A step of the breadcrumb; the last one is the page itself and has no link. */
export interface Crumb {
  readonly text: string;
  /** The name of the organization or server whose title is `text`. */
  readonly name?: string | undefined;
  readonly href?: string;
}

/** Where an organization's pages start. */
export function dashboardPath(organization: string): string {
  return `/dashboard/${organization}`;
}

/** Where people sign in through an identity provider of their organization. */
export const companySignInPath = '/sign-in/organization';

interface PageHead {
  /** For the browser's tab and history. */
  readonly title: string;
  /** Forms are 480 px wide, texts 640, tables up to 1200. */
  readonly width: 'form' | 'text' | 'table';
}

/** The logo, a key about to lift a latch; single-colour, readable at 16 px. */
const mark = html`<svg class="mark" viewBox="0 0 16 16" width="20" height="20" fill="none" stroke="currentColor" stroke-width="1.75" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
${trustedHtml(markPaths)}
</svg>`;

/** A whole document: `content` in the frame of every page. */
export function layout({ title, width }: PageHead, frame: Frame, content: Html): Html {
  const { dashboard, live } = frame;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · Latchkey</title>
${frame.scripts.includes(pageAssets().htmx.path) && html`<meta name="htmx-config" content='{"includeIndicatorCSS":false,"history":false,"extensions":""}'>`}
<link rel="icon" type="image/svg+xml" href="${pageAssets().icon.path}">
<link rel="stylesheet" href="${pageAssets().stylesheet.path}">
${frame.scripts.map((path) => html`<script type="module" src="${path}" integrity="${integrityOf(path)}"></script>`)}
</head>
<body${dashboard && html` class="dashboard"`}${live && html` data-live="${live}"`}>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<a class="brand" href="/">${mark}<span>Latchkey</span></a>
${dashboard && switcher(dashboard)}
${dashboard && searchLink(dashboard)}
${frame.email !== undefined && personNavigation(frame.email, frame)}
</header>
${dashboard && sideNavigation(dashboard)}
<main id="main" class="${width}">
${dashboard && breadcrumb(dashboard)}
${content}
</main>
${frame.requestId !== undefined && html`<footer class="small">Request <code>${frame.requestId}</code></footer>`}
</body>
</html>
`;
}

function integrityOf(script: string): string {
  return Object.values(pageAssets()).find(({ path }) => path === script)?.integrity ?? '';
}

/** Shown instead of the words on a phone, so that the header has one row. */
const figure = html`<svg class="icon" viewBox="0 0 16 16" width="20" height="20" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" aria-hidden="true"><circle cx="8" cy="5.5" r="2.75"/><path d="M2.75 14a5.25 5.25 0 0 1 10.5 0"/></svg>`;
const door = html`<svg class="icon" viewBox="0 0 16 16" width="20" height="20" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d="M6 2.5H3v11h3M7 8h6.5M11 5.5 13.5 8 11 10.5"/></svg>`;

function personNavigation(email: string, frame: Frame): Html {
  return html`<nav class="person" aria-label="You">
<a href="/account" dir="auto">${figure}<span>${email}</span></a>
<form method="post" action="/sign-out">
${csrfField(frame)}
<button class="quiet">${door}<span>Sign out</span></button>
</form>
</nav>`;
}

function switcher({ organization, others, mayCreate }: DashboardFrame): Html {
  return html`<details class="switcher">
<summary><span class="soft">Organization</span> <strong>${titleMarkup(organization)}</strong></summary>
<ul>
${others.map((other) => html`<li><a href="${dashboardPath(other.name)}">${titleMarkup(other)}</a></li>`)}
<li><a href="/organizations">All organizations</a></li>
${mayCreate && html`<li><a href="/new-organization">Create organization</a></li>`}
</ul>
</details>`;
}

const magnifier = html`<svg viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" aria-hidden="true"><circle cx="7" cy="7" r="4.5"/><path d="M10.5 10.5 14 14"/></svg>`;

/** The page that searches; scripts open it as a dialog, also with the keyboard. */
function searchLink({ organization }: DashboardFrame): Html {
  return html`<a class="find-link" href="${dashboardPath(organization.name)}/search" data-find>${magnifier}<span>Search</span> <kbd hidden></kbd></a>`;
}

function sideNavigation({ organization, navigation }: DashboardFrame): Html {
  return html`<nav class="side" aria-label="${titleText(organization)}">
<ul>
${navigation.map(({ text, href, isHere }) => html`<li><a href="${href}"${isHere && html` aria-current="true"`}>${text}</a></li>`)}
</ul>
</nav>`;
}

function breadcrumb({ organization, crumbs }: DashboardFrame): Html | undefined {
  if (crumbs.length === 0) return undefined;
  return breadcrumbOf([
    { ...titledCrumb(organization), href: dashboardPath(organization.name) },
    ...crumbs,
  ]);
}

/** The way to a page; the last step is the page itself. Pages of an organization get their breadcrumb from the layout. */
export function breadcrumbOf(steps: readonly Crumb[]): Html {
  return html`<nav class="crumbs" aria-label="Breadcrumb">
<ol>
${steps.map(({ text, name, href }, index) => {
  const shown = displayName(text, 40);
  const beside = name !== undefined && html` ${nameMarkup(name)}`;
  if (href === undefined || index === steps.length - 1) {
    return html`<li><span aria-current="page" dir="auto">${shown}</span>${beside}</li>`;
  }
  return html`<li><a href="${href}" dir="auto">${shown}</a>${beside}</li>`;
})}
</ol>
</nav>`;
}

/** The step of an organization or a server: its title with the name beside it. */
export function titledCrumb(titled: Titled): Crumb {
  const text = titleText(titled);
  return text === titled.name ? { text } : { text, name: titled.name };
}

/** A word about a state. `tone` colours it but never carries meaning alone. */
export interface Badge {
  readonly text: string;
  readonly tone: 'plain' | 'good' | 'care' | 'bad';
}

export function badge({ text, tone }: Badge): Html {
  return html`<span class="badge ${tone}">${text}</span>`;
}

interface Heading {
  /** Text, or the organization or server that the page is about. */
  readonly heading: string | Titled;
  readonly lead?: string;
  readonly badges?: readonly Badge[];
  /** The main action of the page. It looks primary, unless it ends something or another action is the next step. */
  readonly action?: (Link & { readonly look?: 'plain' | 'danger' }) | undefined;
}

export interface Link {
  readonly text: string;
  readonly href: string;
}

export function pageHeading({ heading, lead, badges = [], action }: Heading): Html {
  return html`<div class="heading">
<div>
${typeof heading === 'string' ? headingOf(breakable(heading), heading) : titledHeading(heading)}
${badges.map((one) => html` ${badge(one)}`)}
${lead && html`<p class="lead">${lead}</p>`}
</div>
${action && html`<a class="button ${action.look ?? 'primary'}" href="${action.href}">${action.text}</a>`}
</div>`;
}

/** Text that, where it is too long for a line, breaks before the `@` of an e-mail address rather than anywhere. */
function breakable(text: string): Html {
  const [first = '', ...others] = text.split('@');
  return html`${first}${others.map((part) => html`<wbr>@${part}`)}`;
}

function titledHeading(titled: Titled): Html {
  const title = titleText(titled);
  return html`${headingOf(title, title)}${title !== titled.name && nameMarkup(titled.name)}`;
}

/** In characters: about three lines on a phone. */
const longestHeading = 50;

/** Whether a heading takes the class `long`, which makes it smaller on a phone. */
export function isLongHeading(text: string): boolean {
  return text.length > longestHeading;
}

function headingOf(shown: Html | string, text: string): Html {
  return html`<h1 dir="auto"${isLongHeading(text) && html` class="long"`}>${shown}</h1>`;
}

export interface Tab extends Link {
  /** Whether the link leads to this page, or to the one that this page belongs to. */
  readonly isHere: boolean;
}

/** Pages about the same resource, for `tabNavigation`. */
export interface Tabs {
  readonly label: string;
  readonly entries: readonly Tab[];
}

export function tabNavigation({ label, entries }: Tabs): Html {
  return html`<nav aria-label="${label}">
<ul class="subnav">
${entries.map(({ text, href, isHere }) => html`<li><a href="${href}"${isHere && html` aria-current="page"`}>${text}</a></li>`)}
</ul>
</nav>`;
}

/** Says what was done, at the top of the page that follows; nothing if `undefined`. */
export function statusNotice(text: string | undefined): Html | undefined {
  return text ? html`<p class="notice" role="status">${text}</p>` : undefined;
}

/** Why something does not work, and where to fix it. */
export interface Problem {
  readonly text: string;
  readonly link: Link | undefined;
}

/** A warning with a button to the page that fixes it. */
export function problemNotice({ text, link }: Problem): Html {
  return html`<div class="notice warning" role="status">
<p dir="auto">${text}</p>
${link && html`<p><a class="button" href="${link.href}">${link.text}</a></p>`}
</div>`;
}
