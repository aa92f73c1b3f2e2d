import { type ToolField, toolFields } from '#console/tool-fields';
import { html, type Html } from '#web/html';
import { revealed } from '#web/invisible';

const mostDescribed = 2000;
const mostOptions = 12;

/** The arguments of a tool, each in a line, with its description below; nothing if there are none. */
export function argumentFacts(tool: Parameters<typeof toolFields>[0]): Html | undefined {
  const fields = toolFields(tool);
  if (fields.length === 0) return undefined;
  return html`<dl class="facts">
${fields.map(
  ({ name, kind, options, required, description }) =>
    html`<div>
<dt><code dir="auto">${revealed(name)}</code> ${kindOf(kind, options)}${!required && ', optional'}</dt>
<dd dir="auto">${revealed(description.slice(0, mostDescribed))}</dd>
</div>`,
)}
</dl>`;
}

/** How many arguments there are, in words. */
export function argumentCount(tool: Parameters<typeof toolFields>[0]): string {
  const { length } = toolFields(tool);
  return length === 1 ? '1 argument' : `${length} arguments`;
}

function kindOf(kind: ToolField['kind'], options: readonly string[]): string {
  if (kind === 'choice') return `one of ${options.slice(0, mostOptions).join(', ')}`;
  return kind === 'json' ? 'JSON' : kind;
}
