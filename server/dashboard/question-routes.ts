import { seeOther } from '#http/see-other';
import type { Crumb } from '#pages/dashboard-frame';
import { questionPage, type QuestionPageData } from '#pages/question-page';
import type {
  DashboardDoor,
  DashboardRequest,
  DashboardVisit,
  PageNeeds,
} from './dashboard-door.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';

/** A question before something is destroyed, and what its answer does. */
export interface Question {
  /** @throws {AdministrationRefusal} */
  readonly ask: (
    visit: DashboardVisit,
    request: DashboardRequest,
  ) => Promise<Omit<QuestionPageData, 'action'> & { readonly crumbs: readonly Crumb[] }>;
  /** Where to go afterwards. @throws {AdministrationRefusal} */
  readonly act: (visit: DashboardVisit, request: DashboardRequest) => Promise<string>;
}

/** `GET` asks, `POST` of the same path does it. What must be typed first is held against the question. */
export function questionRoutes(
  door: DashboardDoor,
  path: string,
  needs: PageNeeds,
  { ask, act }: Question,
): void {
  door.get(path, needs, async (visit, request, reply) => {
    const { crumbs, ...question } = await ask(visit, request);
    const data = { ...question, action: request.url };
    return sendDashboardPage(reply, visit, questionPage, data, { crumbs });
  });
  door.post(path, needs, async (visit, form, request, reply) => {
    const { crumbs, ...question } = await ask(visit, request);
    const { typed } = question;
    const value = form.get('typed')?.trim().slice(0, 200) ?? '';
    if (typed && value !== typed.expected) {
      const error = `This is not ${typed.expected}. Nothing was done.`;
      const data = { ...question, action: request.url, typed: { ...typed, error, value } };
      return sendDashboardPage(reply, visit, questionPage, data, { crumbs, status: 422 });
    }
    const next = await act(visit, request);
    return seeOther(reply, next);
  });
}
