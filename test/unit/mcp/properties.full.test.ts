import { jsonProperties } from '#support/json-properties';
import { testProperties, type Property } from '#support/properties';
import { wireProperties } from '#support/wire-properties';

/** The inputs for all properties of a subject together: a million for each would take a quarter of an hour. */
const inputs = 1_000_000;

const share = (properties: Record<string, Property>) =>
  Math.ceil(inputs / Object.keys(properties).length);

testProperties('JSON', jsonProperties, share(jsonProperties));
testProperties('wire protocol', wireProperties, share(wireProperties));
