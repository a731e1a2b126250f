// Starts a browser for visits one after the other, and prints its address. It ends with standard input.
//
//   node start.mjs chromium|firefox

import { launch } from './browsers.mjs';

const browser = await launch(process.argv[2]);
const address = browser.wsEndpoint();
// Firefox has one driver at a time.
await browser.disconnect();
console.log(address);
// The driver ends its browser when it ends itself.
process.stdin.on('end', () => process.exit()).resume();
