import { authorize } from '#server/gateway/authorization';
import { AnswerMessage } from '#server/gateway/filters';
import { filteredList } from '#server/gateway/tool-list';
import { allScopes } from '#server/model/scopes';
import {
  accessRulesText,
  readAccessRules,
  readOffered,
  ToolRights,
  type ToolCaller,
} from '#server/model/tool-rights';
import { scanMessage } from 'latchkey-mcp/message';
import { scannedRequest } from '#support/scanned-message';
import { someAdmission, someServer } from '#support/some-admission';

const groupCount = 50;
const toolCount = 500;
const slots = 25;
const callsInASlot = 20_000;
const listsInASlot = 20;

const groups = Array.from({ length: groupCount }, (_, at) => `group_${at}`);
const tools = Array.from({ length: toolCount }, (_, at) => `sales_report_${at}`);
const called = tools[toolCount - 1] ?? '';

/** Each tool is for ten of the groups. */
const rules = readAccessRules(
  accessRulesText({
    others: { tool: new Set() },
    named: {
      tool: new Map(
        tools.map((name, at) => [
          name,
          new Set(groups.filter((_, group) => (group + at) % 5 === 0)),
        ]),
      ),
      prompt: new Map(),
      resource: new Map(),
      template: new Map(),
    },
  }) ?? '',
);
const offered = readOffered(JSON.stringify({ open: { tool: tools } }));
/** A person in none of the groups that may use the called tool, except the last of those groups. */
const person: ToolCaller = {
  groups: new Set(groups.filter((_, group) => (group + toolCount - 1) % 5 !== 0 || group === 46)),
  selections: [],
};
const limited: ToolCaller = {
  selections: [{ type: 'chosen', tools, prompts: [], resources: [] }],
};

const admissionOf = (target: object, caller: ToolCaller) => {
  const endpoint = someServer({ target });
  return someAdmission({
    endpoint,
    scopes: allScopes,
    rights: new ToolRights(endpoint.target, caller),
  });
};
const admissions = {
  'without rules': admissionOf({}, { selections: [] }),
  'a person of forty-one groups': admissionOf({ rules, offered }, person),
  'a key with 500 chosen tools': admissionOf({ rules, offered }, limited),
};

/** Measures what rights per tool cost: rules for 50 groups and 500 tools, in one process, in turns. Returns a Markdown table. */
export function benchToolRules(): string {
  const { envelope, body } = scannedRequest('tools/call', { name: called, arguments: {} });
  const list = Buffer.from(
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      result: {
        tools: tools.map((name) => ({
          name,
          description: `What was sold, as ${name} counts it. `.repeat(4),
          inputSchema: { type: 'object', properties: { from: { type: 'string' } } },
        })),
      },
    }),
  );
  const scan = scanMessage(list);
  const message = scan.outcome === 'message' ? { body: list, envelope: scan.envelope } : undefined;
  const table = [
    ['caller', 'a call, µs', 'a list of 500 tools, ms'],
    ['---', '--:', '--:'],
  ];
  const readings = new Map(
    Object.keys(admissions).map((name) => [name, { calls: [0], lists: [0] }]),
  );
  for (let turn = 0; turn < slots; turn += 1) {
    for (const [name, admission] of Object.entries(admissions)) {
      const { calls, lists } = readings.get(name) ?? { calls: [], lists: [] };
      const call = took(callsInASlot, () => authorize(envelope, body, admission));
      const filter = filteredList('tools/list', admission.rights);
      // The list is already scanned, like every answer to a request.
      const listed = took(listsInASlot, () => void filter?.(AnswerMessage.of(list, message)));
      // The first turn compiles.
      if (turn === 0) continue;
      calls.push(call * 1000);
      lists.push(listed);
    }
  }
  for (const [name, { calls, lists }] of readings) {
    table.push([name, median(calls.slice(1)).toFixed(2), median(lists.slice(1)).toFixed(3)]);
  }
  return table.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** The milliseconds that one of `times` runs took. */
function took(times: number, run: () => void): number {
  const from = performance.now();
  for (let count = 0; count < times; count += 1) run();
  return (performance.now() - from) / times;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
