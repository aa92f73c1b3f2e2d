import type { FastifyReply } from 'fastify';
import type { Permission } from '#admin/operation';
import { errorSummary, formActions, postForm, type FieldError } from '#web/forms';
import { html, type Html } from '#web/html';
import { layout, pageHeading, type Crumb, type Frame } from '#web/layout';
import type { Entered, FieldsOptions, OperationForm } from './forms.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit } from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions } from './ports.ts';

/** The page around a form. */
interface FormPage {
  readonly heading: string;
  readonly lead: string;
  /** The title of the page when the form has errors: `Not created yet`. */
  readonly refused: string;
  /** The label of its button. */
  readonly verb: string;
  /** Where the cancel link leads. */
  readonly cancel: string;
  readonly crumbs: readonly Crumb[];
  /** The record that the form changes; its fields start with these values. */
  readonly record?: object;
  readonly shownFields?: FieldsOptions;
  /** What the person needs to know about the steps after the form. */
  readonly next?: Html;
}

interface FormPageData extends Omit<FormPage, 'record' | 'shownFields'> {
  readonly action: string;
  readonly fields: Html;
  readonly errors: readonly FieldError[];
}

function formPage(data: FormPageData, frame: Frame): Html {
  const { heading, lead, refused, verb, cancel, action, fields, errors, next } = data;
  const content = html`${pageHeading({ heading, lead })}
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, html`${fields} ${formActions(verb, cancel)}`)}
${next}`;
  return layout({ title: errors.length > 0 ? refused : heading, width: 'form' }, frame, content);
}

/** A form on its own page, and the action that it submits to. */
export interface FormRoutes {
  readonly form: OperationForm;
  /** The field that shows the error if the operation is refused with `conflict`. */
  readonly conflict?: string;
  /** @throws {AdministrationRefusal} */
  readonly page: (
    visit: DashboardVisit,
    request: DashboardRequest,
    options: DashboardOptions,
  ) => FormPage | Promise<FormPage>;
  /**
   * Performs the operation with what was entered, and answers.
   *
   * @throws {AdministrationRefusal}
   */
  readonly act: (
    visit: DashboardVisit,
    input: Readonly<Record<string, unknown>>,
    request: DashboardRequest,
    reply: FastifyReply,
    options: DashboardOptions,
  ) => Promise<FastifyReply>;
}

/** `GET` shows a form, and `POST` of the same path submits it. Errors appear beside the fields, which keep their values. */
export function formRoutes(
  guard: DashboardGuard,
  path: string,
  needs: Permission,
  { form, conflict, page, act }: FormRoutes,
): void {
  const show = async (
    visit: DashboardVisit,
    request: DashboardRequest,
    reply: FastifyReply,
    { entered, errors }: { entered?: Entered; errors: readonly FieldError[] },
    options: DashboardOptions,
  ) => {
    const { record, shownFields, ...shown } = await page(visit, request, options);
    const { crumbs } = shown;
    const present = record ? form.filled(record) : form.blank;
    const fields = form.fields(entered ?? present, errors, shownFields);
    const data = { ...shown, action: request.url, fields, errors };
    return sendDashboardPage(reply, visit, formPage, data, { crumbs });
  };
  guard.get(path, needs, (visit, request, reply, options) =>
    show(visit, request, reply, { errors: [] }, options),
  );
  guard.post(path, needs, async (visit, sent, request, reply, options) => {
    const entered = form.read(sent);
    try {
      return await act(visit, form.inputOf(entered), request, reply, options);
    } catch (refusal) {
      const errors = form.errorsOf(refusal, entered, conflict);
      return show(visit, request, reply, { entered, errors }, options);
    }
  });
}
