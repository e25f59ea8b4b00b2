import { execFileSync } from 'node:child_process';
import { defineConfig } from '@playwright/test';

// A port that nobody uses, so that two checkouts can test at once. Workers read this file as well and inherit the choice.
const choose = "const s = require('node:net').createServer().listen(0, '127.0.0.1', () => { console.log(s.address().port); s.close(); })";
const port = (process.env.UI_TEST_PORT ??= execFileSync(process.execPath, ['-e', choose], { encoding: 'utf8' }).trim());
const address = `http://127.0.0.1:${port}`;

export default defineConfig({
  testDir: 'tests',
  outputDir: 'test-results',
  workers: 1,
  timeout: 15_000,
  reporter: [['list'], ['json', { outputFile: 'test-results/report.json' }]],
  use: {
    baseURL: address,
    viewport: { width: 1280, height: 800 },
    timezoneId: 'UTC',
    locale: 'en-GB',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      chromiumSandbox: process.getuid?.() !== 0, // the sandbox refuses to run as root
      args: ['--disable-gpu', '--disable-dev-shm-usage', '--force-color-profile=srgb', '--font-render-hinting=none'],
    },
  },
  webServer: { command: `node tests/server.mjs ${port}`, url: `${address}/`, reuseExistingServer: false },
});
