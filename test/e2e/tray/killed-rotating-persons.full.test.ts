import { killedRotations } from '#support/tray/killed-rotations';

await killedRotations(['person']);
