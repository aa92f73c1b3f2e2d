/** The form that was submitted. */
export function submittedForm(event: SubmitEvent): HTMLFormElement {
  const form = event.currentTarget;
  if (form instanceof HTMLFormElement) return form;
  throw new TypeError('the event of no form');
}
