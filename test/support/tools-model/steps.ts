import * as fc from 'fast-check';

import { names } from './model-server.ts';
import { kinds, listedKinds, type Selection } from './reference.ts';

export const groupNames = ['sales', 'support'] as const;
export const people = ['dana', 'omar'] as const;
/** Two people who use the application `app`, a key, and a client that acts for itself. */
export const callers = ['dana', 'omar', 'desk', 'job'] as const;
export type CallerName = (typeof callers)[number];

/** The callers and the application, each of which has a selection of tools. */
export const holders = [...callers, 'app'] as const;
export type Holder = (typeof holders)[number];

export const all: Selection = { type: 'all', tools: [], prompts: [], resources: [] };

const named = fc
  .constantFrom(...kinds)
  .chain((kind) => fc.record({ kind: fc.constant(kind), name: fc.constantFrom(...names[kind]) }));
const listedName = fc
  .constantFrom(...listedKinds)
  .chain((kind) => fc.record({ kind: fc.constant(kind), name: fc.constantFrom(...names[kind]) }));
const someGroups = fc.subarray([...groupNames], { minLength: 1 });
const audience = fc.oneof(fc.constant('everyone' as const), someGroups);
const selection: fc.Arbitrary<Selection> = fc.oneof(
  fc.constant(all),
  fc.constant({ ...all, type: 'read-only' as const }),
  fc.record({
    type: fc.constant('chosen' as const),
    tools: fc.subarray<string>([...names.tool], { minLength: 1 }),
    prompts: fc.subarray<string>([...names.prompt]),
    resources: fc.subarray<string>([...names.resource, ...names.template]),
  }),
);

const often = <Name extends string, Of extends object>(
  weight: number,
  act: Name,
  of: fc.Arbitrary<Of>,
) => ({ weight, arbitrary: of.map((fields) => ({ act, ...fields })) });

/** The actions of administrators and of the server itself. */
export const action = fc.oneof(
  often(5, 'restrict', fc.record({ of: named, who: someGroups })),
  often(1, 'open', fc.record({ of: named })),
  often(1, 'remove rule', fc.record({ of: named })),
  often(
    1,
    'set default',
    fc.record({ kind: fc.constantFrom('tool', 'prompt', 'resource'), who: audience }),
  ),
  often(
    3,
    'move',
    fc.record({
      person: fc.constantFrom(...people),
      group: fc.constantFrom(...groupNames),
      isIn: fc.boolean(),
    }),
  ),
  often(1, 'hide', fc.record({ tools: fc.subarray<string>([...names.tool], { maxLength: 2 }) })),
  often(
    1,
    'set policies',
    fc.record({
      changedTools: fc.constantFrom('flag', 'withhold'),
      newTools: fc.constantFrom('offer', 'review'),
    }),
  ),
  often(1, 'add', fc.record({ of: listedName, readOnly: fc.boolean() })),
  often(1, 'remove', fc.record({ of: listedName })),
  often(2, 'change', fc.record({ of: listedName, readOnly: fc.boolean() })),
  often(3, 'accept', fc.record({ of: listedName })),
  often(1, 'reject', fc.record({ of: listedName })),
  often(
    1,
    'correct',
    fc.record({
      name: fc.constantFrom(...names.tool),
      to: fc.constantFrom(true, false, undefined),
    }),
  ),
  often(6, 'select', fc.record({ holder: fc.constantFrom(...holders), to: selection })),
);
export type Action = typeof action extends fc.Arbitrary<infer One> ? One : never;
