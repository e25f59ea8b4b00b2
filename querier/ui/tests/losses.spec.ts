// What was not stored as it was sent is told where everybody looks first, and calmly if it is nothing.
import { expect, test, type Page } from '@playwright/test';
import { accessible, answerWith, watch } from './pages';

let troubles: string[] = [];
test.beforeEach(({ page }) => {
  troubles = watch(page);
});
test.afterEach(() => {
  expect(troubles).toEqual([]);
});

const LOSSES = [
  { reason: 'rate_limited', kind: 'refused', text: 'more bytes a second than the tenant may send', profiles: 1200, bytes: 5_000_000 },
  { reason: 'dropped_by_relabel_rules', kind: 'refused', text: "left out as the tenant's relabelling rules say", profiles: 0, bytes: 300 },
  { reason: 'bad_line', kind: 'left_out', text: 'lines that are no stack with a number', parts: 1 },
  { reason: 'unknown_stack', kind: 'mended', text: '<b>samples</b> whose stack is not in the file', parts: 7 },
];
const told = (page: Page, answer: unknown) => answerWith(page, 'distributor/losses', (r) => r.fulfill({ json: answer }));
const table = (page: Page) => page.getByRole('region', { name: 'What was not stored as it was sent' });

test('each reason has a row: what it means, what became of it, how many', async ({ page }) => {
  await told(page, { distributor: 'd1', since: '2026-11-29T10:00:00Z', losses: LOSSES, complete: true });
  await page.goto('/');
  await expect(table(page)).toContainText('since');
  const rows = await table(page).getByRole('row').allTextContents();
  expect(rows.slice(1)).toEqual([
    'more bytes a second than the tenant may sendrefusedrate_limited1\u202f200 profiles, 4.77 MiB',
    "left out as the tenant's relabelling rules sayrefuseddropped_by_relabel_rules300 B",
    'lines that are no stack with a numberleft outbad_line1',
    '<b>samples</b> whose stack is not in the filemendedunknown_stack7',
  ]);
  await expect(page.locator('.service')).toHaveCount(3);
});

test('nothing is one calm line', async ({ page }) => {
  await page.goto('/');
  await expect(page.getByText(/^Nothing was refused, left out or mended since .*10:00:00\.$/)).toBeVisible();
  await expect(table(page)).toHaveCount(0);
});

test('who has sent nothing that was stored sees why', async ({ page }) => {
  await answerWith(page, 'Series', (r) => r.fulfill({ json: {} }));
  await answerWith(page, 'GetProfileStats', (r) => r.fulfill({ json: {} }));
  await told(page, { losses: LOSSES.slice(0, 1), complete: true });
  await page.goto('/');
  await expect(page.getByRole('heading', { level: 1, name: 'No profiles yet' })).toBeVisible();
  await expect(table(page)).toContainText('rate_limited');
});

test('what cannot be known is said', async ({ page }) => {
  await told(page, { losses: null, note: 'is counted by each distributor' });
  await page.goto('/');
  await expect(page.getByText('is counted by each distributor')).toBeVisible();
  await told(page, { losses: [], complete: false, note: 'Some counts may be missing' });
  await page.getByRole('button', { name: 'Refresh', exact: true }).click();
  await expect(page.getByText('Some counts may be missing')).toBeVisible();
  await expect(page.getByText('Nothing was refused')).toHaveCount(0);
  await answerWith(page, 'distributor/losses', (r) => r.fulfill({ status: 500, json: { code: 'internal', message: 'because of the test' } }));
  await page.reload();
  await expect(page.getByText('What was refused or mended is not known: because of the test')).toBeVisible();
  await expect(page.locator('.service')).toHaveCount(3);
  troubles = troubles.filter((t) => !t.startsWith('Failed to load resource'));
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`the table is accessible in the ${colorScheme} theme and fits a phone`, async ({ page }) => {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await told(page, { since: '2026-11-29T10:00:00Z', losses: LOSSES, complete: false, note: 'Some counts may be missing' });
    for (const width of [1400, 390]) {
      await page.setViewportSize({ width, height: 844 });
      await page.goto('/');
      await expect(table(page)).toBeVisible();
      await expect(page.locator('.service')).toHaveCount(3);
      await accessible(page, `losses at ${width}`);
      await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
      if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/losses-${colorScheme}-${width}.png`, fullPage: true });
    }
  });
}
