import { Eta } from 'eta/core';

import { pageAssets } from './assets.ts';
import { dashboardNavigation } from './dashboard-frame.ts';
import { dashboardPieces } from './dashboard-pieces.ts';
import { formPieces } from './form-pieces.ts';
import { layout } from './layout.ts';
import { listPieces } from './list-pieces.ts';
import { mark } from './mark.ts';
import type { Frame, Page } from './page.ts';
import { partials } from './partials.ts';
import { escaped } from './plain-text.ts';
import { secretPieces } from './secret-pieces.ts';
import { agentStepPieces } from './agent-steps.ts';
import { tablePieces } from './table.ts';
import { toolFormPieces } from './tool-form.ts';

type Rendered = (data: object) => string;

const pieces = {
  ...partials,
  ...dashboardPieces,
  ...formPieces,
  ...listPieces,
  ...secretPieces,
  ...agentStepPieces,
  ...tablePieces,
  ...toolFormPieces,
};

const compiled = new WeakMap<Page<never>, Rendered>();

/**
 * A whole HTML document. Everything that a template writes by `<%= %>` is escaped, and in nothing can a
 * character hide that turns the text around it.
 */
export function renderPage<Data extends object>(
  page: Page<Data>,
  data: Data,
  frame: Frame,
): string {
  let render = compiled.get(page);
  if (!render) {
    render = compile(page);
    compiled.set(page, render);
  }
  const { width } = page;
  const { path: stylesheet } = pageAssets().stylesheet;
  const navigation = frame.dashboard && dashboardNavigation(frame.dashboard);
  const title = page.title(data);
  const around = { frame, mark, stylesheet, width, navigation, integrityOf, title };
  const taken = Object.keys(around).find((name) => name in data);
  if (taken !== undefined) throw new TypeError(`a page's own data may not be called ${taken}`);
  return render({ ...data, ...around });
}

function integrityOf(script: string): string {
  return Object.values(pageAssets()).find(({ path }) => path === script)?.integrity ?? '';
}

function compile<Data extends object>({ template }: Page<Data>): Rendered {
  const eta = new Eta({
    autoEscape: true,
    // What is written as it stands, `<%~ %>`, is a piece or a plot of ours, in which every value was escaped.
    escapeFunction: (value) => escaped(text(value)),
  });
  for (const [name, partial] of Object.entries(pieces)) eta.loadTemplate(name, partial);
  eta.loadTemplate('@layout', layout);
  eta.loadTemplate('@page', `<% layout('@layout') %>${template}`);
  return (data) => eta.render('@page', data);
}

function text(value: unknown): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  throw new TypeError('a template writes something else than text');
}
