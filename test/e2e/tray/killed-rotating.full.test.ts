import { killedRotations } from '#support/tray/killed-rotations';

await killedRotations(['api_key', 'client']);
