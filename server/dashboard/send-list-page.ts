import type { FastifyReply } from 'fastify';

import type { EpochSeconds } from '#clock/clock';
import type { Table } from '#pages/table';
import type { DashboardVisit } from './dashboard-door.ts';
import { listPage, type ListPageData } from './list-page.ts';
import type { ListQuery } from './list-query.ts';
import { sendDashboardPage, type DashboardPageOptions } from './send-dashboard-page.ts';

/** What a list is about, and the part of it that was asked for. */
export interface ListedThings extends Pick<ListPageData, 'heading' | 'tabs' | 'notice'> {
  readonly lead?: string;
  readonly caption: string;
  /** What makes one more; `undefined` for who may not. */
  readonly action: ListPageData['action'];
  readonly query: ListQuery;
  readonly rows: Table['rows'];
  /** How many there are on all its pages. */
  readonly total: number;
  /** Said when there is none at all. */
  readonly none: string;
  /** Said when there is none of those that were asked for. */
  readonly noneLikeThat: string;
  readonly now: EpochSeconds;
}

/** Answers with a list that can be searched, once there is something in it, and added to. */
export function sendListPage(
  reply: FastifyReply,
  visit: DashboardVisit,
  list: ListedThings,
  at: Pick<DashboardPageOptions, 'crumbs' | 'live'>,
): FastifyReply {
  const { heading, lead = '', tabs, notice, action, query, rows } = list;
  const data = {
    heading,
    lead,
    action,
    tabs,
    notice,
    list: query.frame(list.total),
    isSearchable: !query.isWhole || rows.length > 0,
    table: {
      caption: list.caption,
      columns: query.columns,
      rows,
      empty: query.isWhole ? { text: list.none, action } : { text: list.noneLikeThat },
      now: list.now,
    },
    here: reply.request.url,
  };
  return sendDashboardPage(reply, visit, listPage, data, at);
}
