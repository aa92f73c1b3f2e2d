/**
 * A port that a test does not expect to be used: whatever is called on it fails the test.
 *
 *     tokenEndpoint(form, undefined, { ...ports, codes: unasked('codes') });
 */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller names the port
export function unasked<Port extends object>(name: string): Port {
  const fail = (member: string | symbol) => () => {
    throw new Error(`${name}.${String(member)} was asked`);
  };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- every member is there, and fails
  return new Proxy({}, { get: (_, member) => fail(member) }) as Port;
}
