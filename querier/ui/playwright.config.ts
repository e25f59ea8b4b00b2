import { defineConfig } from '@playwright/test';

// The server takes a port that is free and says which; workers read this file when that is known.
const address = `http://127.0.0.1:${process.env.UI_SERVER_PORT ?? 0}`;

export default defineConfig({
  testDir: 'tests',
  outputDir: 'test-results',
  workers: 1,
  // Nothing here is about speed, and the machine may be busy: only what never happens fails.
  timeout: 180_000,
  expect: { timeout: 40_000 },
  reporter: [['list'], ['json', { outputFile: 'test-results/report.json' }]],
  use: {
    baseURL: address,
    viewport: { width: 1280, height: 800 },
    timezoneId: 'UTC',
    locale: 'en-GB',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      timeout: 120_000,
      args: ['--disable-gpu', '--disable-dev-shm-usage', '--force-color-profile=srgb', '--font-render-hinting=none'],
    },
  },
  webServer: { command: 'exec node tests/server.mjs', wait: { stdout: /http:\/\/127\.0\.0\.1:(?<UI_SERVER_PORT>\d+)/ } },
});
