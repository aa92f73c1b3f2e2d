import { jsonProperties } from '#support/json-properties';
import { testProperties } from '#support/properties';
import { wireProperties } from '#support/wire-properties';

const runs = 1000;

testProperties('JSON', jsonProperties, runs);
testProperties('wire protocol', wireProperties, runs);
