import { testInstalledPackages } from '#support/installed-packages';
import { suite } from '#support/suite';

await suite('registry', 'packed npm package', () => {
  testInstalledPackages(process.versions.node);
});
